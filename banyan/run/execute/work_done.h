// WorkDone: how much a NetExecutor has done beside the steps of its engine, for those who time their waiting by it
// (Executor::progress).
//
// A round lasts from one revision of plans (revision.h) to the next.
// (1) progress() never falls.
// (2) Work that is repeated in a later round counts only once it has come farther than in any round since a call ended.
//
// One thread. `engine` is Engine::steps() now, which never falls.
#pragma once

#include <algorithm>
#include <cstdint>

namespace banyan::run {

class WorkDone {
 public:
  void add_step() { ++steps_; }
  void end_message() { ++ended_; }
  void end_call(uint64_t engine) {
    ended_ = progress(engine) + 1;
    farthest_ = 0;
    round_begin_ = engine;
  }
  void end_round(uint64_t engine) {
    farthest_ = std::max(farthest_, engine - round_begin_);
    round_begin_ = engine;
  }

  uint64_t steps(uint64_t engine) const { return steps_ + engine; }
  uint64_t progress(uint64_t engine) const { return ended_ + std::max(farthest_, engine - round_begin_); }

 private:
  uint64_t steps_ = 0;  // moves
  uint64_t ended_ = 0;  // calls and messages, with the steps of the engine that they took
  // Steps that the engine had made when the present round began, and the most of one round since a call ended.
  uint64_t round_begin_ = 0, farthest_ = 0;
};

}  // namespace banyan::run
