// The processor cores that processes may use, and whether there are enough of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace banyan::run {

// Ascending numbers of cores.
using Cores = std::vector<uint32_t>;

// Those that this process may use. Empty when that is not known, or when BANYAN_CROWDED is 1, since others need them.
Cores own_cores();

// True if the processes of one host, each confined to its set of cores, cannot all run at a time: because some of them
// are confined to fewer cores than they are. False if, as launchers often do, each process is bound to cores of its
// own. An empty set among them stands for a process that has to share.
bool are_oversubscribed(std::span<const Cores> processes);

}  // namespace banyan::run
