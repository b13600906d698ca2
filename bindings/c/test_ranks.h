// Ranks for tests: forked processes that have joined a communicator by a folder of their own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bindings/c/banyan.h"

namespace banyan::c {

using RankBody = std::function<std::string(banyan_comm_t, int rank)>;

// Runs the body in `size` processes and returns what each of them returned, or "killed by 9".
std::vector<std::string> run_ranks(int size, const RankBody& body, const banyan_config_t* config = nullptr);

}  // namespace banyan::c
