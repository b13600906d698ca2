#include "banyan/compose/settings.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/base/units.h"
#include "banyan/compose/planner.h"
#include "banyan/element/isa.h"
#include "banyan/run/execute/net_plans.h"
#include "banyan/run/join/environment.h"
#include "banyan/run/metrics/metrics.h"
#include "banyan/run/record/dump_signal.h"
#include "banyan/run/record/log.h"
#include "banyan/service/client/use_service.h"

namespace banyan::compose {
namespace {

// A transport's name: the daemon of this host carries out what goes between hosts.
constexpr std::string_view kByService = "service";

constexpr double kLongest = 365.0 * 24 * 3600;

// All that anything reads, the tests too; settings_test.cc compares them with the sources.
constexpr Variable kVariables[] = {
    {"BANYAN_ADDRESS", "the address at which the other hosts reach this one"},
    {"BANYAN_ALONE", "1: one process is meant, where no launcher or only a part of one is found"},
    {"BANYAN_CHECKSUMS", "1: bytes that go by TCP are checked against what was sent; on all ranks or none"},
    {"BANYAN_CONNECTIONS", "TCP connections to each peer for what has no route of its own, 1 to 16 (default 1)"},
    {"BANYAN_CROWDED", "1: waiting ranks give up their core at once, for machines on which others need the cores"},
    {"BANYAN_DUMP_SIGNAL", "the signal at which a process writes its flight records (default USR1); none: no signal"},
    {"BANYAN_ENCRYPTION",
     "off, auth or full: what goes by TCP is authenticated, or encrypted; on all ranks. Default: auth between hosts "
     "where a secret is set, else off"},
    {"BANYAN_FABRIC", "the network, for planning: a file or a spec; the same on all ranks"},
    {"BANYAN_HOST_ID", "ranks with the same text are on one host (default: of the kernel and its namespaces)"},
    {"BANYAN_ISA", "portable, avx2 or avx512: kernels no better than this"},
    {"BANYAN_JOIN_TIMEOUT", "seconds that all ranks have to come (default 300)"},
    {"BANYAN_LAB", "the description of the lab that the process runs in; 'banyan lab run' sets it"},
    {"BANYAN_LAB_HOST", "the name of the host in the lab that the process runs on; 'banyan lab run' sets it"},
    {"BANYAN_LOG", "error, warning (default), info or debug: what is written to the log"},
    {"BANYAN_LOG_FILE", "the file of the log (default: standard error)"},
    {"BANYAN_METRICS", "a port, a file or a folder at which Prometheus finds the metrics of the process"},
    {"BANYAN_METRICS_HOSTS", "names by which Prometheus may call this host there, beside its own: node1.cluster,.lab"},
    {"BANYAN_PLAN", "a plan file that is used for its collective, at every size"},
    {"BANYAN_RECORDER_DIR", "the folder of the flight records (default /tmp/banyan-recorder-UID)"},
    {"BANYAN_RENDEZVOUS", "where ranks meet: tcp://HOST:PORT or file:///FOLDER"},
    {"BANYAN_ROUTES", "a file that says which pair of addresses takes which path through the fabric"},
    {"BANYAN_SECRET", "32 or more hexadecimal digits that processes of several hosts share (openssl rand -hex 16)"},
    {"BANYAN_SECRET_FILE", "a file with that text"},
    {"BANYAN_SERVICE", "unix:PATH: the socket of banyand, which then carries out what goes between hosts"},
    {"BANYAN_SERVICE_FALLBACK", "1: without the service where no daemon can be reached; on all ranks alike"},
    {"BANYAN_SLICE", "the piece that moves at once over connections, such as 64KiB; the same on all ranks"},
    {"BANYAN_SURVIVORS", "who may shrink a communicator: any (default), majority, or at least so many ranks"},
    {"BANYAN_TENANT", "whose communicators they are, for the service's shares and rules (default: the user)"},
    {"BANYAN_TIMEOUT", "seconds that an operation may make no progress (default 300)"},
    {"BANYAN_TRANSPORT", "auto (default), shm, tcp, ucx or service; the same on all ranks"},
    {"BANYAN_ZERO_COPY", "1: TCP sends long pieces out of the buffers themselves"}};
// Of our tests and scripts (Makefile, tools/), which a shell may have beside those of a run.
constexpr std::string_view kOfTests = "BANYAN_TEST_";
constexpr std::string_view kOfScripts[] = {"BANYAN_CHROOTS", "BANYAN_MIRROR", "BANYAN_PYTHON"};

// Nothing where it is not set, or empty.
std::optional<std::string> variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

std::optional<std::chrono::milliseconds> time_from(const char* name) {
  const std::optional<std::string> text = variable(name);
  if (!text) return std::nullopt;
  double seconds = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, seconds);
  const std::string culprit = std::string(name) + "=" + *text;
  return milliseconds_of(error == std::errc() && stop == end ? seconds : -1, culprit);
}

std::string text_from(const std::optional<std::string>& field, const char* name) {
  return field ? *field : variable(name).value_or("");
}

bool switch_from(const std::optional<bool>& field, const char* name) {
  if (field) return *field;
  const std::string text = variable(name).value_or("0");
  if (text == "0" || text == "1") return text == "1";
  throw invalid(std::string(name) + "=" + text + " is to be 0 or 1");
}

uint32_t connections_from(const std::optional<int64_t>& field, const std::string& field_name) {
  const char* const name = "BANYAN_CONNECTIONS";
  const std::string text = field ? std::to_string(*field) : variable(name).value_or("1");
  uint32_t count = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && stop == text.data() + text.size() && count >= 1 && count <= run::NetPlans::kMostShared) {
    return count;
  }
  throw invalid((field ? field_name : name) + "=" + text + " is to be a number from 1 to " +
                std::to_string(run::NetPlans::kMostShared));
}

uint64_t slice_from_environment() {
  const std::optional<std::string> text = variable("BANYAN_SLICE");
  if (!text) return 0;
  try {
    return Bytes::parse(*text).count();
  } catch (const Error& error) {
    throw error.within("BANYAN_SLICE");
  }
}

run::Communicator::Transports transports_from(const std::string& name) {
  if (name.empty() || name == "auto") return run::Communicator::Transports::automatic;
  if (name == "shm") return run::Communicator::Transports::shared_memory;
  if (name == "tcp") return run::Communicator::Transports::tcp;
  if (name == "ucx") return run::Communicator::Transports::ucx;
  if (name == kByService) return run::Communicator::Transports::automatic;
  throw invalid("transport '" + name + "' is not known (known: auto, shm, tcp, ucx, service)");
}

run::Encryption encryption_from(const std::optional<std::string>& field, const std::string& field_name) {
  const char* const name = "BANYAN_ENCRYPTION";
  const std::string text = text_from(field, name);
  if (text.empty()) return run::Encryption::automatic;
  if (text == "off") return run::Encryption::off;
  if (text == "auth") return run::Encryption::authenticated;
  if (text == "full") return run::Encryption::encrypted;
  throw invalid((field ? field_name : name) + "=" + text + " is to be off, auth or full");
}

run::SurvivorRule survivors_from(const std::optional<std::string>& field, const std::string& field_name) {
  const char* const name = "BANYAN_SURVIVORS";
  try {
    return run::SurvivorRule::parse(field ? *field : variable(name).value_or("any"));
  } catch (const Error& error) {
    throw error.within(field ? field_name : name);
  }
}

}  // namespace

std::chrono::milliseconds milliseconds_of(double seconds, const std::string& name) {
  if (std::isnan(seconds) || seconds > kLongest) {
    throw invalid(name + " is to be a number of seconds, at most a year");
  }
  if (seconds <= 0) {
    throw invalid(name + " is to be a number of seconds above zero, such as 30 or 0.5");
  }
  return std::chrono::milliseconds(std::max<int64_t>(1, std::llround(seconds * 1000)));
}

std::span<const Variable> variables() { return kVariables; }

std::vector<std::string> unknown_variables(const char* const* environment) {
  constexpr std::string_view kPrefix = "BANYAN_";
  std::vector<std::string> unknown;
  for (; *environment != nullptr; ++environment) {
    const std::string_view variable = *environment;
    const std::string name(variable.substr(0, variable.find('=')));
    if (!name.starts_with(kPrefix) || name.starts_with(kOfTests)) continue;
    const auto is_it = [&](const Variable& known) { return known.name == name; };
    if (std::any_of(std::begin(kVariables), std::end(kVariables), is_it)) continue;
    if (std::find(std::begin(kOfScripts), std::end(kOfScripts), name) != std::end(kOfScripts)) continue;
    // What all names have in common makes none of them near.
    NearestName nearest(name.substr(kPrefix.size()));
    for (const Variable& known : kVariables) nearest.offer(known.name.substr(kPrefix.size()));
    const std::string& best = nearest.best();
    const std::string hint = best.empty() ? "" : " (did you mean '" + std::string(kPrefix) + best + "'?)";
    unknown.push_back(name + " is no variable of Banyan" + hint);
  }
  return unknown;
}

run::Communicator::Options options_from(const Settings& settings) {
  static std::once_flag once;
  std::call_once(once, [] {
    if (const auto rank = run::rank_from(run::Surroundings::real())) run::set_log_rank(*rank);
    start_log(run::LogConfig::from_environment());
    element::active_isa();  // a wrong BANYAN_ISA is told now, not by the first sum
    run::start_dump_signal(run::dump_signal_from_environment());
    run::start_metrics(run::metrics_from_environment());
    for (const std::string& text : unknown_variables(environ)) BANYAN_LOG(warning) << text;
  });
  run::Communicator::Options options;
  options.name = settings.name.value_or(options.name);
  if (const auto time = time_from("BANYAN_TIMEOUT")) options.timeout = *time;
  if (settings.timeout) options.timeout = milliseconds_of(*settings.timeout, settings.where + "timeout");
  if (const auto time = time_from("BANYAN_JOIN_TIMEOUT")) options.join_timeout = *time;
  if (settings.join_timeout) {
    options.join_timeout = milliseconds_of(*settings.join_timeout, settings.where + "join_timeout");
  }
  options.progress = settings.progress;
  const std::string transport = text_from(settings.transport, "BANYAN_TRANSPORT");
  options.transports = transports_from(transport);
  const PlannerOptions planner{.fabric = text_from(settings.fabric, "BANYAN_FABRIC"),
                               .plan = text_from(settings.plan, "BANYAN_PLAN"),
                               .routes = text_from(settings.routes, "BANYAN_ROUTES"),
                               .slice_bytes = slice_from_environment()};
  options.checksums = switch_from(settings.checksums, "BANYAN_CHECKSUMS");
  options.zero_copy = switch_from(settings.zero_copy, "BANYAN_ZERO_COPY");
  options.encryption = encryption_from(settings.encryption, settings.where + "encryption");
  options.has_routes = !planner.routes.empty();
  options.connections = connections_from(settings.connections, settings.where + "connections");
  options.survivors = survivors_from(settings.survivors, settings.where + "survivors");
  options.follows_plans = !planner.plan.empty();
  options.plans = [files = read_files(planner)](const run::RankLayout& layout) { return planner_from(*files, layout); };
  const std::optional<std::string> url = variable("BANYAN_SERVICE");
  const bool is_open = transport.empty() || transport == "auto";
  if (transport == kByService || (url && is_open)) {
    service::use_service(options, region_pool(),
                         {.url = url.value_or(""),
                          .tenant = variable("BANYAN_TENANT").value_or(""),
                          .falls_back = switch_from({}, "BANYAN_SERVICE_FALLBACK")});
  }
  return options;
}

run::RegionPool& region_pool() {
  static auto* const pool = new run::RegionPool();
  return *pool;
}

}  // namespace banyan::compose
