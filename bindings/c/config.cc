#include "bindings/c/config.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "banyan/base/error.h"
#include "banyan/base/units.h"
#include "banyan/run/element/isa.h"
#include "banyan/run/net_plans.h"
#include "banyan/run/record/log.h"
#include "bindings/c/planner.h"

namespace banyan::c {
namespace {

constexpr double kLongest = 365.0 * 24 * 3600;

banyan_config_t complete(const banyan_config_t* config) {
  banyan_config_t complete = BANYAN_CONFIG_INIT;
  if (config == nullptr) return complete;
  if (config->size < offsetof(banyan_config_t, join_timeout) || config->size > 65536) {
    throw Error(ErrorCode::invalid_input, "the config has a size of " + std::to_string(config->size) +
                                              " bytes; initialise it with BANYAN_CONFIG_INIT");
  }
  std::memcpy(&complete, config, std::min(config->size, sizeof complete));
  complete.size = sizeof complete;
  return complete;
}

std::optional<std::chrono::milliseconds> milliseconds(double seconds, const std::string& name) {
  if (std::isnan(seconds) || seconds > kLongest) {
    throw Error(ErrorCode::invalid_input, name + " is to be a number of seconds, at most a year");
  }
  if (seconds <= 0) return std::nullopt;
  return std::chrono::milliseconds(std::max<int64_t>(1, std::llround(seconds * 1000)));
}

std::optional<std::chrono::milliseconds> from_environment(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  double seconds = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, seconds);
  if (error != std::errc() || stop != end || seconds <= 0) {
    throw Error(ErrorCode::invalid_input,
                std::string(variable) + "=" + text + " is to be a number of seconds above zero, such as 30 or 0.5");
  }
  return milliseconds(seconds, variable);
}

// A field of the config, or else a variable of the environment.
std::string text_from(const char* field, const char* variable) {
  if (field != nullptr) return field;
  const char* const text = std::getenv(variable);
  return text != nullptr ? text : "";
}

// A field of the config, if it is not negative, or else a variable of the environment.
bool switch_from(int field, const std::string& name, const char* variable) {
  const std::string text = field >= 0 ? std::to_string(field) : text_from(nullptr, variable);
  if (text.empty() || text == "0") return false;
  if (text == "1") return true;
  throw Error(ErrorCode::invalid_input, (field >= 0 ? "config." + name : variable) + "=" + text + " is to be 0 or 1");
}

uint32_t connections_from(int field) {
  const char* const variable = "BANYAN_CONNECTIONS";
  const std::string text = field > 0 ? std::to_string(field) : text_from(nullptr, variable);
  if (text.empty()) return 1;
  uint32_t count = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && stop == text.data() + text.size() && count >= 1 && count <= NetPlans::kMostShared) {
    return count;
  }
  throw Error(ErrorCode::invalid_input, (field > 0 ? "config.connections" : variable) + ("=" + text) +
                                            " is to be a number from 1 to " + std::to_string(NetPlans::kMostShared));
}

uint64_t slice_from_environment() {
  const char* const text = std::getenv("BANYAN_SLICE");
  if (text == nullptr || *text == '\0') return 0;
  try {
    return Bytes::parse(text).count();
  } catch (const Error& error) {
    throw error.within("BANYAN_SLICE");
  }
}

Communicator::Transports transports_from(const std::string& name) {
  if (name.empty() || name == "auto") return Communicator::Transports::automatic;
  if (name == "shm") return Communicator::Transports::shared_memory;
  if (name == "tcp") return Communicator::Transports::tcp;
  if (name == "ucx") return Communicator::Transports::ucx;
  throw Error(ErrorCode::invalid_input, "transport '" + name + "' is not known (known: auto, shm, tcp, ucx)");
}

}  // namespace

Communicator::Options options_from(const banyan_config_t* config) {
  const banyan_config_t whole = complete(config);
  Communicator::Options options;
  static std::once_flag once;
  std::call_once(once, [] {
    start_log(LogConfig::from_environment());
    active_isa();  // a wrong BANYAN_ISA is told now, not by the first sum
  });
  if (whole.name != nullptr) options.name = whole.name;
  if (const auto time = from_environment("BANYAN_TIMEOUT")) options.timeout = *time;
  if (const auto time = milliseconds(whole.timeout, "config.timeout")) options.timeout = *time;
  if (const auto time = milliseconds(whole.join_timeout, "config.join_timeout")) options.join_timeout = *time;
  options.progress_thread = whole.progress_thread != 0;
  options.transports = transports_from(text_from(whole.transport, "BANYAN_TRANSPORT"));
  const PlannerOptions planner{.fabric = text_from(whole.fabric, "BANYAN_FABRIC"),
                               .plan = text_from(whole.plan, "BANYAN_PLAN"),
                               .routes = text_from(whole.routes, "BANYAN_ROUTES"),
                               .slice_bytes = slice_from_environment()};
  options.checks_sums = switch_from(whole.checksums, "checksums", "BANYAN_CHECKSUMS");
  options.spares_copies = switch_from(whole.zero_copy, "zero_copy", "BANYAN_ZERO_COPY");
  options.connections = connections_from(whole.connections);
  options.follows_plans = !planner.plan.empty();
  options.plans = [planner](const Seating& seating) { return make_planner(planner, seating); };
  return options;
}

std::chrono::milliseconds shrink_patience(const banyan_config_t* config) {
  const banyan_config_t whole = complete(config);
  return milliseconds(whole.join_timeout, "config.join_timeout").value_or(std::chrono::milliseconds(1500));
}

}  // namespace banyan::c
