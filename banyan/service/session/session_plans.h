// SessionPlans: how the plans of a session's communicator change, by wishes and by texts of its other ranks.
//
// 1. Nothing is ever to be done where plans cannot be revised, and only propose() says so.
// 2. Rank 0 alone asks for the planner that the rules name, and once for each change of it: all ranks follow, from some
//    call on, though the rules of their hosts may differ.
// 3. After a text or a wish has_work() holds until poll() has left nothing open.
//
// Throws what the reviser throws; the session ends by that. One thread: its worker's.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "banyan/base/error.h"
#include "banyan/run/execute/executor.h"
#include "banyan/service/view/host_view.h"

namespace banyan::service {

class SessionPlans {
 public:
  // `reviser` outlives it; null: plans are never revised.
  SessionPlans(run::PlanReviser* reviser, uint32_t rank) : reviser_(reviser), rank_(rank) {}

  // Has the calls follow this planner; empty: the best plan.
  void follow(const std::string& planner) {
    if (rank_ != 0 || planner == planner_ || reviser_ == nullptr) return;
    planner_ = planner;
    propose({.planner = planner.empty() ? run::FabricUpdate::kBestPlanner : planner});
  }
  // Returns the number of the wish. Throws Error{unsupported} where plans cannot be revised.
  uint64_t propose(const run::PlanWish& wish) {
    if (reviser_ == nullptr) throw Error(ErrorCode::unsupported, "the plans of this session cannot be revised");
    has_work_ = true;
    return reviser_->propose(wish);
  }
  // On rank 0: as PlanReviser::outcome().
  std::optional<run::WishOutcome> outcome(uint64_t wish) const {
    return reviser_ == nullptr ? std::nullopt : reviser_->outcome(wish);
  }
  // A text that the session of another rank, or this one, has sent to all.
  void receive(const std::string& text) {
    if (reviser_ == nullptr) return;
    reviser_->receive(text);
    has_work_ = true;
  }
  bool has_work() const { return has_work_; }
  // The moment at which peers may want something of calls that are over here.
  std::optional<std::chrono::steady_clock::time_point> poll_at() const {
    return reviser_ == nullptr ? std::nullopt : reviser_->poll_at();
  }
  // Does what is to be done now. There is a reviser: has_work() or poll_at() has said so.
  void poll() {
    reviser_->poll();
    has_work_ = reviser_->is_unsettled();
  }
  // True while peers have still to get something of this rank.
  bool is_unsettled() const { return reviser_ != nullptr && (reviser_->is_unsettled() || reviser_->poll_at()); }
  // Sets what operators see of plans.
  void describe(RankView& rank) const {
    if (reviser_ == nullptr) return;
    rank.generation = reviser_->generation();
    rank.reroutes = reviser_->reroutes();
  }

 private:
  run::PlanReviser* const reviser_;
  const uint32_t rank_;
  std::string planner_;    // that all were asked to follow
  bool has_work_ = false;  // whether there are calls or not
};

}  // namespace banyan::service
