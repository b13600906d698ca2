// MoveAgreement: how the ranks of a communicator agree on going over to next sessions: run::PlanSwitch, and before it
// the wishes of ranks whose daemons have been succeeded:
//   move 7 3 1   the daemon of rank 7's session of generation 3 has been succeeded; said for the first time
// Rank 0 begins a change for all that have said so and have still to leave, also those whose last change was refused:
// their daemons stay succeeded. Else two ranks that say so by turns would each refuse the change of the other.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "banyan/run/execute/plan_switch.h"

namespace banyan::service {

class MoveAgreement {
 public:
  MoveAgreement(uint32_t rank, uint32_t ranks) : rank_(rank), ranks_(ranks), switch_(rank, ranks) {}

  static std::string wish(uint32_t rank, uint32_t generation, uint32_t tries);
  // A text of any rank; what is no text of these is ignored.
  void receive(const std::string& text);
  // True if a rank has said that it cannot take part in the change of this generation, maybe before this rank has heard
  // of that change: then nobody needs to prepare for it.
  bool is_refused(uint32_t generation) const { return refused_ == generation; }
  // On rank 0, where somebody wishes for a change and none is under way: begins one, prepared for calls like these, for
  // all ranks that are still in sessions of this generation and wish to leave them.
  void begin_if_asked(uint32_t in_force, const std::vector<run::CallShape>& shapes);
  // To be brought to all ranks, this one too, in this order.
  std::vector<std::string> take_texts();
  bool has_texts() const { return switch_.has_texts() || !again_.empty(); }

  // The agreement, and what this rank says to it.
  run::PlanSwitch& plan() { return switch_; }
  const run::PlanSwitch& plan() const { return switch_; }

 private:
  void receive_wish(uint32_t rank, uint32_t generation, uint32_t tries);

  const uint32_t rank_, ranks_;
  run::PlanSwitch switch_;
  uint32_t refused_ = 0;  // the newest generation that was; 0: none
  // Used by rank 0 alone.
  std::string prepare_text_;             // of the change under way
  std::vector<std::string> again_;       // texts that are to be said once more
  std::map<uint32_t, uint32_t> wishes_;  // the ranks that want to leave a session, and of which generation
  bool is_asked_ = false;                // for a change, since the last began
};

}  // namespace banyan::service
