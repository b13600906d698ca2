// PlansInForce: which plans the calls of a NetExecutor follow, and whose lanes its messages take. It goes over to other
// plans while calls go on (plan_switch.h), and adopts those of a revision, when all have stopped (revision.h).
//
// There are up to four: the *present* plans, which the next call follows; the *next* ones, which PlanChanges prepares;
// the *old* ones, which calls in flight may follow that began before the last switch; and those of *messages*.
//
// (1) Generations grow: old, present, next. The plans of messages are the present ones after a revision, and stay when
//     calls go over to others.
// (2) When plans become present, nothing is old: the lanes of all earlier ones are closed, but those of messages.
// (3) A lane of the transport belongs to the plans of its generation, and may carry something as long as one of the
//     four has it.
// (4) Paths across cables that the present plans take for lost are tried again and again, and no others (lost_paths.h).
//     A path that carries again is a wish to use its cables; who decides is rank 0.
//
// receive(), propose(), generation() and may_revise() may be called by any thread, all else by that of the executor.
// For a call whose plan is made, prepare() and present() allocate nothing and take no lock.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "banyan/run/execute/lost_paths.h"
#include "banyan/run/execute/net_options.h"
#include "banyan/run/execute/net_plans.h"
#include "banyan/run/execute/plan_ahead.h"
#include "banyan/run/execute/plan_changes.h"
#include "banyan/run/execute/revision.h"

namespace banyan::run {

class PlansInForce {
 public:
  // `first`: of the first plans, which are of generation 0. The transport and its lanes are the caller's.
  PlansInForce(NetPlans::Options first, const NetOptions& options, ChannelTransport& transport);
  ~PlansInForce() { wake_->end(); }

  // The plans of the next call.
  NetPlans& present() const { return *present_; }
  // They may change, as all later ones.
  bool may_revise() const { return may_revise_; }
  // The power of the transport; null where it chooses paths itself.
  LaneControl* lanes() const { return lanes_; }
  bool can_choose_paths() const { return lanes_ != nullptr && present_->may_reroute(); }
  bool can_make_lanes_again() const { return lanes_ != nullptr && may_revise_; }

  // ---- Lanes of the transport ----

  uint32_t message_lane() const { return of_messages_->transport_lane(NetPlans::kMessageLane); }
  // Its path, and the cables that this crosses. Empty if the lane is of no plans that are in force, or may go anywhere.
  Path path(uint32_t peer, uint32_t lane) const;
  std::vector<uint32_t> cables_of(uint32_t peer, uint32_t lane) const;
  // Tries lost paths whose time has come, and proposes to use what carries again.
  void try_lost_paths(LostPaths::TimePoint now);

  // ---- When calls go over to other plans one by one ----

  // False for a text that is about something else.
  bool receive(const std::string& text) { return changes_.receive(text); }
  uint64_t propose(const PlanWish& wish) { return changes_.propose(wish); }
  const PlanChanges& changes() const { return changes_; }
  // Goes over to the next plans if this call is the first to follow them, and has its plan made. True once both are
  // done: then it follows present().
  bool prepare(uint64_t number, const Call& call);
  // Goes on with the switch as far as possible; true if anything moved. Only if may_revise().
  bool advance(const PlanChanges::Calls& calls);
  // The last generation that is settled.
  uint32_t generation() const { return settled_.load(std::memory_order_acquire); }

  // ---- When all ranks have stopped for a revision ----

  // Whatever change is under way is over, as a revision of this generation has begun.
  void interrupt(uint32_t generation) { changes_.interrupt(generation); }
  // The update that this rank has adopted, even if no call follows it yet.
  const FabricUpdate& decided() const;
  // Throws why there can be no plans for this update.
  void expect_possible(const FabricUpdate& update) const { present_->source()->revised(update); }
  // All calls, and all messages, follow plans for this update from now on; nobody uses any lane any more but to go on
  // with messages. Throws what NetPlans::revised() throws.
  void adopt(const FabricUpdate& update, const RevisionDecision& decision);
  // All calls have begun again by what was adopted.
  void settle() { settled_.store(present_->generation(), std::memory_order_release); }

 private:
  const NetPlans* with(uint32_t transport_lane) const;
  bool is_ready(const Call& call);
  void go_over();
  void close_old_lanes();
  void close_lanes_of(uint32_t generation);
  std::shared_ptr<NetPlans> follow(std::unique_ptr<NetPlans> plans);
  std::string names_of(const std::set<uint32_t>& cables, const std::set<uint32_t>& but) const;
  void announce_change(const FabricUpdate& update) const;
  void announce_losses(const FabricUpdate& update, const RevisionDecision& decision) const;

  const uint32_t rank_;
  LaneControl* const lanes_;           // of the transport; none where it chooses paths itself
  std::shared_ptr<NetPlans> present_;  // never null; may be the same as that of messages
  const bool may_revise_;
  std::shared_ptr<NetPlans> old_, of_messages_;
  const std::shared_ptr<LastingWake> wake_;  // shared with tasks on other threads
  PlanAhead ahead_;
  PlanChanges changes_;
  LostPaths lost_paths_;
  std::atomic<uint32_t> settled_{0};
};

}  // namespace banyan::run
