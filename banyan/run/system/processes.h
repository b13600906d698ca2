// Forked processes that live exactly as long as one call.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace banyan::run {

// Runs body(0) ... body(count - 1), each in a process of its own that is forked from this one, and returns what they
// returned. Destructors of objects from before the call do not run in them.
//
// An Error that a body throws is thrown here, within "rank 3". Error{peer_lost} names a process that dies, or throws
// anything else. Ranks that only noticed that another was lost do not count while the culprit can be found.
// Error{timed_out} names those that have not finished when the time is over; Error{io}, when there can be no more
// processes. However the call ends, all processes are ended and reaped. They are killed when this process (to be exact,
// the calling thread) dies. Must be called while no other thread has a lock that a body may want, since a fork copies
// no other thread and keeps their locks.
std::vector<std::string> run_processes(uint32_t count, std::chrono::milliseconds timeout,
                                       const std::function<std::string(uint32_t rank)>& body);

}  // namespace banyan::run
