// Waiter: where a thread sleeps until one of its event sources has something to do. The only place in which transports
// and what stands on them block.
//
// One thread; the sources outlive it.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "banyan/run/system/event_source.h"

namespace banyan::run {

class Waiter {
 public:
  Waiter() = default;
  explicit Waiter(EventSource& source) : sources_{&source} {}
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  void add(EventSource& source) { sources_.push_back(&source); }
  void remove(EventSource& source) { std::erase(sources_, &source); }

  // Sleeps until a source may have work, or for `at_most`. Returns true if one may. Throws what the sources throw, and
  // Error{io}.
  bool wait(std::chrono::milliseconds at_most);

 private:
  bool sleep_once(WaitSet::Clock::time_point end);

  std::vector<EventSource*> sources_;
  WaitSet set_;                // kept for its memory
  std::vector<size_t> first_;  // by source: its first descriptor in the set
};

// The same for a thread with one source.
inline bool wait_for(EventSource& source, std::chrono::milliseconds at_most) { return Waiter(source).wait(at_most); }

}  // namespace banyan::run
