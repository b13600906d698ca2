#include "banyan/run/execute/plan_revision.h"

#include <algorithm>
#include <utility>

#include "banyan/run/record/log.h"

namespace banyan::run {

// ---- A rank has a reason ----

void PlanRevision::answer() {
  if (const std::optional<uint32_t> generation = talk_.called_to()) stop_for(*generation);
}

bool PlanRevision::stop_after(const Error& error) {
  if (error.code() != ErrorCode::peer_lost || !parts_.plans.can_make_lanes_again()) return false;
  BANYAN_LOG(info) << error.what();
  // A rank that has stopped already begins no other revision for that.
  if (!is_under_way()) stop_for(next_generation());
  return true;
}

void PlanRevision::look_at_lanes() {
  if (!parts_.plans.can_make_lanes_again() || is_under_way()) return;
  const Clock::time_point now = Clock::now();
  if (now - looked_at_ < kLookAfter) return;
  looked_at_ = now;
  parts_.plans.try_lost_paths(now);
  // A loss that no call has run into is found here.
  const std::vector<LaneHealth> lanes = parts_.plans.lanes()->health();
  if (std::any_of(lanes.begin(), lanes.end(), [this](const LaneHealth& lane) { return is_lost(lane); })) {
    stop_for(next_generation());
  }
}

// A peer may never have got what was reset here before anybody used it, and wait for a call.
bool PlanRevision::is_lost(const LaneHealth& lane) const {
  if (options_.is_gone && options_.is_gone(lane.peer)) return false;
  return lane.is_broken || (lane.is_lost && !parts_.plans.cables_of(lane.peer, lane.lane).empty());
}

void PlanRevision::look_at_messages() {
  if (!parts_.messages.needs_renewal()) return broken_since_.reset();
  const Clock::time_point now = Clock::now();
  if (!broken_since_) broken_since_ = now;
  if (now - *broken_since_ < kGoodBye) return;
  broken_since_.reset();
  BANYAN_LOG(info) << "a connection that carries messages was lost";
  stop_for(next_generation());
}

void PlanRevision::prepare(WaitSet& set) const {
  if (agreement_) set.wake_at(restart_at_);
  if (parts_.plans.can_make_lanes_again() && !is_under_way()) set.wake_at(looked_at_ + kLookAfter);
}

// ---- It stops and reports ----

void PlanRevision::stop_for(uint32_t generation) {
  if (!parts_.plans.may_revise()) return;
  // Stops what is in flight. An agreement of an earlier generation counts no more.
  agreement_.reset();
  const size_t suspended = parts_.flights.stop();
  suspensions_.fetch_add(1, std::memory_order_relaxed);
  parts_.messages.stop();
  BANYAN_LOG(info) << "plans are revised: generation " << generation << ", " << suspended
                   << (suspended == 1 ? " call waits" : " calls wait");
  parts_.work.add_step();
  // Sends all what it knows: which calls are over here, how each of its lanes does, and what it has adopted so far.
  talk_.report(report(generation));
  // A plan switch that is under way is given up, unless rank 0 has said `go`: the report says so then.
  parts_.plans.interrupt(generation);
}

RevisionReport PlanRevision::report(uint32_t generation) const {
  RevisionReport report{.generation = generation, .adopted = parts_.plans.decided()};
  parts_.flights.report(report);
  if (parts_.plans.lanes() == nullptr) return report;
  for (const LaneHealth& lane : parts_.plans.lanes()->health()) {
    std::vector<uint32_t> cables = parts_.plans.cables_of(lane.peer, lane.lane);
    if (cables.empty()) continue;
    report.lanes.push_back({.peer = lane.peer,
                            .cables = std::move(cables),
                            .is_lost = lane.is_lost || lane.is_mute,
                            .silent_ms = static_cast<uint64_t>(lane.silent.count())});
  }
  return report;
}

// ---- All have reported ----

bool PlanRevision::advance() {
  const bool moved = talk_.has_news();
  if (moved) parts_.work.add_step();
  // Nothing is repeated before all have reported (3).
  if (!agreement_) {
    agreement_ = talk_.agreement([this](const FabricUpdate& update) { parts_.plans.expect_possible(update); });
    if (!agreement_) return moved;
    pace_rounds(agreement_->decision);
  }
  if (Clock::now() < restart_at_) return moved;
  restart(*std::exchange(agreement_, std::nullopt));
  return true;
}

void PlanRevision::pace_rounds(const RevisionDecision& decision) {
  // A round that found no loss may fail again for the same reason (4).
  const bool is_vain = decision.losses.empty();
  rounds_in_vain_ = is_vain ? rounds_in_vain_ + 1 : 0;
  restart_at_ = Clock::now();
  if (rounds_in_vain_ <= kQuickRounds) return;
  restart_at_ += std::min(kLongestRest, kFirstRest * (1u << std::min(rounds_in_vain_ - kQuickRounds, 8u)));
}

void PlanRevision::restart(const RevisionTalk::Agreement& agreement) {
  // Nobody uses the old connections any more: all have stopped, and plan for the same update.
  parts_.work.end_round(parts_.flights.steps());
  parts_.plans.adopt(agreement.update, agreement.decision);
  parts_.messages.renew();
  // Calls that are over everywhere end, those that some ranks have over are completed, all others begin again.
  parts_.flights.restart(agreement.decision);
  reroutes_.fetch_add(1, std::memory_order_relaxed);
  parts_.plans.settle();
  talk_.finish();
  parts_.flights.begin_waiting();
  parts_.work.add_step();
}

}  // namespace banyan::run
