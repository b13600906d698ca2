// The small parts of a MovingExecutor: what it counts, what waits while its calls go over, what its peers are told.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/call/call.h"
#include "banyan/run/execute/executor.h"
#include "banyan/run/execute/plan_switch.h"

namespace banyan::service {

// NumberedCalls: how many calls a rank has begun, and of which kinds the last ones were. All ranks number alike.
//
// One thread at a time.
class NumberedCalls {
 public:
  void record(const run::Call& call) {
    recent_[++begun_ % recent_.size()] = {
        .kind = call.kind, .root = call.other, .type = call.type, .count = call.count};
  }
  uint64_t begun() const { return begun_; }
  uint64_t next() const { return begun_ + 1; }
  // The calls that next sessions are tried with.
  std::vector<run::CallShape> shapes() const {
    const size_t known = std::min<uint64_t>(begun_, recent_.size());
    std::set<run::CallShape> shapes;
    for (size_t i = 0; i < known; ++i) shapes.insert(recent_[(begun_ - i) % recent_.size()]);
    return {shapes.begin(), shapes.end()};
  }
  // This rank has said that it is ready.
  void record_ready() { begun_when_ready_ = begun_; }
  // The last call that this rank may begin without hearing more: as many calls beyond those begun as it has begun since
  // it was ready, while the answer was on its way, and one more unless it is idle. So it need not wait for the next
  // answer.
  uint64_t limit(bool is_idle) const {
    return begun_ + (begun_ - std::min(begun_, begun_when_ready_)) + (is_idle ? 0 : 1);
  }

 private:
  uint64_t begun_ = 0, begun_when_ready_ = 0;
  std::array<run::CallShape, 4> recent_;  // of the last calls
};

// HeldMessages: messages between two ranks that are begun while their communicator may go over to next sessions. They
// wait here until it is known which sessions have them; their callers know them by tickets of this object.
//
// One thread at a time.
class HeldMessages {
 public:
  // Returns its ticket, which no executor gives.
  uint64_t hold(const run::Call& call);
  bool is_empty() const { return held_.empty(); }
  // Gives all that are held to this executor, in their order. Throws what it throws.
  void begin(run::Executor& executor);
  // Looks at the messages from place `from` on, which an executor has just said to be over: those that were held get
  // their tickets.
  void rename(std::vector<run::Executor::MessageDone>& done, size_t from);

 private:
  struct Held {
    run::Call call;
    uint64_t ticket = 0;
  };
  std::vector<Held> held_;
  std::unordered_map<uint64_t, uint64_t> begun_;  // tickets, by those of the executor
  uint64_t count_ = 0;
};

// FailureReports: which failures of a communicator's sessions its peers are told. The failure of a session that has no
// calls yet is kept until calls go over to it: nobody needs to know it before. Two failures for the same reason are
// told once.
//
// Any thread.
class FailureReports {
 public:
  explicit FailureReports(std::function<void(const Error& error)> fail_peers) : fail_peers_(std::move(fail_peers)) {}

  // The session of this generation has failed. May tell at once, as go_over() may.
  void record(uint32_t generation, const Error& error);
  // Calls go over to the session of this generation.
  void go_over(uint32_t generation);

 private:
  const std::function<void(const Error& error)> fail_peers_;
  std::mutex mutex_;  // protects what follows
  uint32_t in_force_ = 0;
  std::optional<std::pair<uint32_t, Error>> early_;  // of a next session, by its generation
  std::optional<std::string> reported_;              // the last
};

}  // namespace banyan::service
