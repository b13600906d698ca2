// Which processor cores processes may use, and whether there are enough of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace banyan::run {

// Ascending numbers of cores.
using Cores = std::vector<uint32_t>;

// Those that this process may use. Empty when that is not known, or when BANYAN_CROWDED is 1, since others need them.
Cores own_cores();

// Whether processes of one host, which may use these cores each, are more than can run at a time: because some of them
// are confined to fewer cores than they are. Launchers often bind each process to cores of its own: then it is not so.
// An empty set among them stands for one that has to share.
bool are_oversubscribed(std::span<const Cores> processes);

}  // namespace banyan::run
