#include "bindings/c/config.h"

#include <cmath>
#include <cstring>

#include "banyan/base/error.h"
#include "banyan/compose/settings.h"
#include "bindings/c/handles.h"

namespace banyan::c {
namespace {

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

// Of the fields, what is zero or negative is left open; a NaN is not.
std::optional<double> seconds(double field) {
  if (field <= 0) return std::nullopt;
  return field;
}

std::optional<std::string> text(const char* field) {
  if (field == nullptr) return std::nullopt;
  return field;
}

std::optional<bool> flag(int field, const std::string& name) {
  if (field < 0) return std::nullopt;
  if (field > 1) {
    throw Error(ErrorCode::invalid_input, "config." + name + "=" + std::to_string(field) + " is to be 0 or 1");
  }
  return field == 1;
}

}  // namespace

run::Communicator::Options options_from(const banyan_config_t* config) {
  const banyan_config_t whole = complete(config);
  compose::Settings settings;
  settings.where = "config.";
  settings.name = text(whole.name);
  settings.timeout = seconds(whole.timeout);
  settings.join_timeout = seconds(whole.join_timeout);
  if (whole.progress_thread == 0) settings.progress = run::Communicator::Progress::by_nobody;
  settings.transport = text(whole.transport);
  settings.fabric = text(whole.fabric);
  settings.plan = text(whole.plan);
  settings.routes = text(whole.routes);
  settings.checksums = flag(whole.checksums, "checksums");
  settings.zero_copy = flag(whole.zero_copy, "zero_copy");
  settings.encryption = text(whole.encryption);
  if (whole.connections > 0) settings.connections = whole.connections;
  settings.survivors = text(whole.survivors);
  return banyan::compose::options_from(settings);
}

run::Communicator::Options options_from(const banyan_config_t* config, banyan_comm& parent) {
  const banyan_config_t whole = complete(config);
  run::Communicator::Options options = options_from(config);
  const run::Communicator::Options& of_parent = parent.communicator().options();
  const std::chrono::milliseconds set_later = parent.timeout;
  if (!seconds(whole.timeout)) options.timeout = set_later.count() > 0 ? set_later : of_parent.timeout;
  if (!seconds(whole.join_timeout)) options.join_timeout = of_parent.join_timeout;
  if (whole.survivors == nullptr) options.survivors = of_parent.survivors;
  return options;
}

bool is_blocking(const banyan_config_t* config) { return flag(complete(config).blocking, "blocking").value_or(true); }

std::chrono::milliseconds shrink_patience(const banyan_config_t* config) {
  constexpr std::chrono::milliseconds kPatience{1500};
  compose::Settings settings;
  settings.where = "config.";
  settings.join_timeout = seconds(complete(config).join_timeout);
  return settings.join_timeout ? banyan::compose::options_from(settings).join_timeout : kPatience;
}

}  // namespace banyan::c
