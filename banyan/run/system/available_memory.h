// The memory that a process can still take. Linux does not refuse more than that: it kills some process.
#pragma once

#include <cstdint>
#include <string>

namespace banyan::run {

// Bytes that this process could take now: what the kernel holds to be available on the machine, with free swap, or less
// where a control group (version 1 or 2) of the process or one above it is nearer to its limit. UINT64_MAX where
// nothing can be learnt. Other processes may take it a moment later. `root` is the folder in which /proc and /sys are
// looked for, without a slash at the end. Some 50 us. Any thread.
uint64_t available_memory(const std::string& root = "");

// Bytes that this process may have at most: the memory of the machine, or less where a control group of the process or
// one above it has a lower limit. UINT64_MAX where nothing can be learnt. The rest is as above.
uint64_t most_memory(const std::string& root = "");

}  // namespace banyan::run
