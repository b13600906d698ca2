// A banyan_config_t, completed by the environment and checked.
#pragma once

#include <banyan/banyan.h>

#include <chrono>
#include <optional>
#include <string>

#include "banyan/run/communicator/communicator.h"

namespace banyan::c {

// Copies no more of `config` than its size says; null: all defaults. Throws Error{invalid_input} naming the field.
run::Communicator::Options options_from(const banyan_config_t* config);
// The options of a communicator made from `parent`, which gives the timeouts that are not set.
run::Communicator::Options options_from(const banyan_config_t* config, banyan_comm& parent);
// True if functions that join wait until all have joined.
bool is_blocking(const banyan_config_t* config);
// The time that banyan_comm_shrink waits for ranks that do not come.
std::chrono::milliseconds shrink_patience(const banyan_config_t* config);

}  // namespace banyan::c
