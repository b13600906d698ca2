// A simulated world of processes: a clock that jumps from event to event, and a network that delays, breaks and parts.
// For tests only.
//
// Everything runs in one thread, in an order that a seed decides. Bytes of a stream arrive in order, in pieces cut
// anywhere, after a delay drawn for each; streams overtake each other. A stream may be reset at any moment: what is on
// its way is lost. The network may be cut in two: then bytes wait until it is healed, and streams break when that takes
// longer than `lost_after`. A process ends by end(), and by the destruction of its streams.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "banyan/run/system/byte_stream.h"
#include "banyan/run/system/timers.h"

namespace banyan::testing {

class SimulatedTime final : public run::Timers {
 public:
  TimePoint now() const override { return now_; }
  Timer at(TimePoint when, std::function<void()> task) override;
  void cancel(const Timer& timer) override { tasks_.erase(timer); }
  // Lets the time pass, and calls what is due.
  void run_for(TimePoint::duration time);

 private:
  TimePoint now_ = TimePoint() + std::chrono::hours(1);
  std::map<Timer, std::function<void()>> tasks_;
  uint64_t next_number_ = 0;
};

class SimulatedNetwork {
 public:
  struct Options {
    uint32_t processes = 2;
    uint64_t seed = 1;
    std::chrono::microseconds least_delay{20}, most_delay{3000};
    std::chrono::milliseconds lost_after{30'000};  // of a cut, until streams across it break
    std::chrono::milliseconds dial_time{10'000};   // for a call across a cut to fail
  };
  SimulatedNetwork(SimulatedTime& time, const Options& options);
  ~SimulatedNetwork();
  SimulatedNetwork(const SimulatedNetwork&) = delete;
  SimulatedNetwork& operator=(const SimulatedNetwork&) = delete;

  run::Dialer& dialer(uint32_t process);
  // Who calls `process` from now on is given to `accept`.
  using Accept = std::function<void(uint32_t from, std::unique_ptr<run::ByteStream> stream)>;
  void listen(uint32_t process, Accept accept);
  // Nobody listens there any more, and calls that it makes are forgotten.
  void end(uint32_t process);

  // Breaks all streams between two processes.
  void reset(uint32_t a, uint32_t b);
  // Between these processes and all others nothing passes, until heal().
  void cut(std::set<uint32_t> side);
  void heal() { cut({}); }

  uint64_t draw(uint64_t n) { return random_() % n; }  // below n
  std::chrono::microseconds delay();

 private:
  class Connection;
  class End;
  class ProcessDialer;
  bool is_cut(uint32_t a, uint32_t b) const { return side_.contains(a) != side_.contains(b); }
  void dial(uint64_t call, uint32_t from, uint32_t to);
  void finish(uint64_t call, run::Dialer::Outcome outcome);

  SimulatedTime& time_;
  const Options options_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<ProcessDialer>> dialers_;
  std::vector<Accept> accepts_;  // by process; none: nobody listens
  std::set<uint32_t> side_;      // of the cut
  uint64_t cuts_ = 0;
  std::vector<std::weak_ptr<Connection>> connections_;
  std::map<uint64_t, run::Dialer::Done> calls_;
  uint64_t next_call_ = 0;
};

}  // namespace banyan::testing
