// A simulated world of processes: a clock that jumps from event to event, and a network that delays, loses and parts.
// For tests only.
//
// Everything runs in one thread, in an order that a seed decides. Bytes of a stream arrive in order, in pieces cut
// anywhere, after a delay drawn for each; streams overtake each other. A stream may be reset at any moment: what is on
// its way is lost.
//
// Between two processes there may be several paths, each of which can be blocked in one direction: then bytes wait
// until it is open again, calls over it fail, and its streams break when that takes longer than `lost_after`. A port
// may be closed by a firewall: calls are refused though the process lives.
//
// A process ends by end(), and by the destruction of its streams. One that is stopped gets nothing, and its timers
// wait; its kernel takes what comes, and calls. Its clock may be moved forward.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "banyan/run/system/byte_stream.h"
#include "banyan/run/system/timers.h"

namespace banyan::testing {

class SimulatedTime final : public run::Timers {
 public:
  SimulatedTime() = default;
  // What a task holds may plan others when it goes, such as the end of a connection.
  ~SimulatedTime() override {
    while (!tasks_.empty()) std::exchange(tasks_, {}).clear();
  }
  SimulatedTime(const SimulatedTime&) = delete;
  SimulatedTime& operator=(const SimulatedTime&) = delete;
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

// The time as one process has it. Its end forgets what was to be called.
class SimulatedClock final : public run::Timers {
 public:
  explicit SimulatedClock(SimulatedTime& time) : time_(time) {}
  ~SimulatedClock() override { disarm(); }
  TimePoint now() const override { return time_.now() + ahead_; }
  Timer at(TimePoint when, std::function<void()> task) override;
  void cancel(const Timer& timer) override { tasks_.erase(timer); }

  void jump(TimePoint::duration forward);
  // While it is stopped, nothing is called.
  void stop();
  void go_on();

 private:
  void arm();
  void disarm();
  void call_due();

  SimulatedTime& time_;
  TimePoint::duration ahead_{};
  bool is_stopped_ = false;
  std::map<Timer, std::function<void()>> tasks_;
  std::optional<Timer> armed_;
  uint64_t next_number_ = 0;
};

class SimulatedNetwork {
 public:
  struct Options {
    uint32_t processes = 2;
    uint32_t paths = 1;  // between any two
    uint64_t seed = 1;
    std::chrono::microseconds least_delay{20}, most_delay{3000};
    std::chrono::milliseconds lost_after{30'000};  // of a path, until streams over it break
    std::chrono::milliseconds dial_time{10'000};   // for a call that is not answered to fail
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
  void stop(uint32_t process) { stopped_.insert(process); }
  void go_on(uint32_t process);
  // Now, or when the process goes on.
  void deliver_to(uint32_t process, std::function<void()> event);
  // Nothing that it sends from now on arrives.
  void silence(uint32_t process) { silent_.insert(process); }
  // Calls `action` before the piece with this number is sent, counted from now on, from zero.
  void before_piece(uint64_t number, std::function<void()> action) {
    actions_.emplace(pieces_ + number, std::move(action));
  }
  // That were sent so far.
  uint64_t pieces() const { return pieces_; }

  // Breaks all streams between two processes.
  void reset(uint32_t a, uint32_t b);
  // Nothing passes from `a` to `b` by this path, until it is opened.
  void block(uint32_t a, uint32_t b, uint32_t path);
  void open(uint32_t a, uint32_t b, uint32_t path) { blocked_.erase({a, b, path}); }
  bool is_blocked(uint32_t a, uint32_t b, uint32_t path) const { return blocked_.contains({a, b, path}); }
  // Between these processes and all others nothing passes, by any path, until heal().
  void cut(const std::set<uint32_t>& side);
  // Opens all.
  void heal() { blocked_.clear(); }
  // Calls to it are refused, and its streams are reset.
  void refuse(uint32_t process, bool on);

  uint32_t paths() const { return options_.paths; }
  uint64_t draw(uint64_t n) { return random_() % n; }  // below n
  std::chrono::microseconds delay();

 private:
  class Connection;
  class End;
  class ProcessDialer;
  bool is_open(uint32_t a, uint32_t b, uint32_t path) const {
    return !is_blocked(a, b, path) && !is_blocked(b, a, path);
  }
  void dial(uint64_t call, uint32_t from, uint32_t to, uint32_t path, std::chrono::milliseconds left);
  void finish(uint64_t call, run::Dialer::Outcome outcome);
  void count_piece();
  SimulatedTime& time_;
  const Options options_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<ProcessDialer>> dialers_;
  std::vector<Accept> accepts_;  // by process; none: nobody listens
  // From, to, path: since when. A number tells one time from another.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint64_t> blocked_;
  uint64_t blocks_ = 0;
  std::set<uint32_t> refusing_, stopped_, silent_;
  std::multimap<uint64_t, std::function<void()>> actions_;
  uint64_t pieces_ = 0;
  std::map<uint32_t, std::vector<std::function<void()>>> held_;  // for the stopped
  std::vector<std::weak_ptr<Connection>> connections_;
  struct Call {
    uint32_t caller = 0;
    run::Dialer::Done done;
  };
  std::map<uint64_t, Call> calls_;
  uint64_t next_call_ = 0;
};

}  // namespace banyan::testing
