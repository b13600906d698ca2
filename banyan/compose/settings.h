// Settings: the wishes of a program for a communicator. The environment, or else a default, gives what it leaves open.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/run/communicator/communicator.h"

namespace banyan::compose {

struct Settings {
  std::string where;  // in front of a field's name in errors: "config."
  std::optional<std::string> name;
  std::optional<double> timeout;       // seconds; BANYAN_TIMEOUT
  std::optional<double> join_timeout;  // seconds; BANYAN_JOIN_TIMEOUT
  run::Communicator::Progress progress = run::Communicator::Progress::at_once;
  std::optional<std::string> transport;   // auto, shm, tcp, ucx, service; BANYAN_TRANSPORT (and BANYAN_SERVICE)
  std::optional<std::string> fabric;      // a file or a generator's spec; BANYAN_FABRIC
  std::optional<std::string> plan;        // a file; BANYAN_PLAN
  std::optional<std::string> routes;      // a file; BANYAN_ROUTES
  std::optional<bool> checksums;          // BANYAN_CHECKSUMS
  std::optional<bool> zero_copy;          // BANYAN_ZERO_COPY
  std::optional<int64_t> connections;     // BANYAN_CONNECTIONS
  std::optional<std::string> encryption;  // off, auth, full; BANYAN_ENCRYPTION
  std::optional<std::string> survivors;   // any, majority, or a number; BANYAN_SURVIVORS
};

// Starts the log, the dump signal and the metrics, the first time, and warns about BANYAN_ variables that do not exist.
// Throws Error{invalid_input} naming the field or the variable.
run::Communicator::Options options_from(const Settings& settings);

// At least one. Throws Error{invalid_input} unless it is above zero and at most a year; `name` is the culprit.
std::chrono::milliseconds milliseconds_of(double seconds, const std::string& name);

// The variables that anything reads, by name, and their meaning in a few words.
struct Variable {
  std::string_view name, meaning;
};
std::span<const Variable> variables();

// One line for each variable of `environment` ("NAME=value", a null pointer at the end) that begins with BANYAN_ and
// that nothing reads: "BANYAN_TRANSPRT is no variable of Banyan (did you mean 'BANYAN_TRANSPORT'?)".
std::vector<std::string> unknown_variables(const char* const* environment);

// The pool of this process; never freed, since other threads may use it until the very end.
run::RegionPool& region_pool();

}  // namespace banyan::compose
