// WithheldTime: for how long processes of a test were not let run, by the host of a virtual machine that gives its
// cores to others, or by whatever else keeps a machine busy. A test that measures how long something took adds it to
// its bound, which stays what it is on a quiet machine.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace banyan {

// Counts while it lives, in a thread of its own that looks at the clock every 10 ms. One in each process that others
// wait for; in shared memory the counter is that of all. Any thread may read it.
class WithheldTime {
 public:
  // `withheld`: in milliseconds; outlives it.
  explicit WithheldTime(std::atomic<int>& withheld)
      : thread_([&withheld](const std::stop_token& stop) { count(withheld, stop); }) {}

 private:
  using Clock = std::chrono::steady_clock;

  static void count(std::atomic<int>& withheld, const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kLook{10}, kLate{30};
    for (Clock::time_point last = Clock::now(), now; !stop.stop_requested(); last = now) {
      std::this_thread::sleep_for(kLook);
      now = Clock::now();
      const auto late = std::chrono::duration_cast<std::chrono::milliseconds>(now - last) - kLook;
      if (late >= kLate) withheld += static_cast<int>(late.count());
    }
  }

  std::jthread thread_;
};

}  // namespace banyan
