// NumberedCalls: how many calls a rank has begun, and of which kinds the last ones were. All ranks number alike.
//
// One thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "banyan/run/call/call.h"
#include "banyan/run/execute/plan_switch.h"

namespace banyan::service {

class NumberedCalls {
 public:
  void note(const run::Call& call) {
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
  void note_ready() { begun_when_ready_ = begun_; }
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

}  // namespace banyan::service
