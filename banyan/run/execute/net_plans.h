// NetPlans: what one rank does in a call between hosts, ready for the engine, and which connections it takes.
//
// Allreduce, reduce, broadcast, allgather(v), reduce-scatter(v), and all-to-all(v) where the PlanSource plans it,
// follow the schedule that it gives for their size; the others go straight from each rank to each. Plans are kept,
// since calls repeat. The size and the slices of a call with a code are counted in encoded bytes, as they go over the
// wire.
//
// An all-to-all-v that follows a schedule is planned when its ranks have told each other what each has for each: those
// that forward must know, too.
//
// Connections. A lane of a plan for which the PlanSource knows addresses has a connection of its own, shared by all
// plans that use this path; the rest share one, or a few, among which the streams of a plan are dealt out, along a path
// of their own if one is known. Messages share one, and another one in each generation. Numbers are given in order of
// first use, which is the same at both ends, since both make the same plans in the order of the calls.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "banyan/run/call/call.h"
#include "banyan/run/engine/rank_plan.h"
#include "banyan/run/execute/lost_paths.h"
#include "banyan/run/execute/plan_source.h"
#include "banyan/run/execute/plan_switch.h"
#include "banyan/run/transport/connector.h"

namespace banyan::run {

class NetPlans {
 public:
  // Lanes of plans.
  static constexpr uint32_t kSharedLane = 0, kFirstOwnLane = 2, kLanes = 64;
  // The lane of messages; no plan uses it.
  static constexpr uint32_t kMessageLane = 1;
  // Shared lanes besides the first have the numbers from the end.
  static constexpr uint32_t kMostShared = 16;
  static constexpr size_t kKept = 64;

  struct Options {
    uint32_t rank = 0, ranks = 1;
    std::shared_ptr<PlanSource> source;  // shared with the other communicators of the caller; none for one rank
    bool has_paths = true;               // the transport can choose them
    bool revises = false;                // plans may change although no ways can be chosen
    uint32_t shared_lanes = 1;           // with each peer, at most kMostShared; the same on all ranks
  };
  // For the network as `adopted` says, as the source is.
  explicit NetPlans(Options options, FabricUpdate adopted = {});
  // For the network as another update says. Throws what PlanSource::revised does. Any thread.
  std::unique_ptr<NetPlans> revised(const FabricUpdate& update) const;

  // The plan of a call for all ranks. `counts`, if it needs_counts(): what each rank sends each, by sender. Throws what
  // the source and rank_plan.h throw, and Error{mismatch} if this rank expects other counts than it is sent.
  std::shared_ptr<const RankPlan> plan(const Call& call, std::span<const uint64_t> counts = {});
  // True if plan() needs to know what all ranks send; they tell each other by counts_call(). Asks the source.
  bool needs_counts(const Call& call);
  // The call by which ranks exchange counts: from `own`, this rank's counts for each rank, into `all`, those of all
  // ranks.
  Call counts_call(const uint64_t* own, uint64_t* all) const;
  // The question that plan() will ask the source; empty if it asks nothing. The first answer may take long.
  std::optional<PlanSource::Question> question(const Call& call) const;
  // Shapes of the calls that were planned for last, with the same counts on all ranks; the last first.
  std::vector<CallShape> shapes() const;
  // Lanes that the kept plans use.
  struct Lane {
    uint32_t peer = 0, lane = 0;
    auto operator<=>(const Lane&) const = default;
  };
  std::set<Lane> lanes() const;

  // True if paths have been chosen, so that others might be.
  bool may_reroute() const { return may_reroute_; }
  // True if plans may change while calls are in flight. Then they end with a confirmation.
  bool may_revise() const { return may_reroute_ || (options_.revises && options_.ranks > 1); }
  const std::shared_ptr<PlanSource>& source() const { return options_.source; }
  const FabricUpdate& adopted() const { return adopted_; }
  uint32_t generation() const { return adopted_.generation; }
  std::string cable_name(uint32_t cable) const { return options_.source->cable_name(cable); }

  // The lane of the transport for one of a plan of this generation.
  uint32_t transport_lane(uint32_t lane) const { return generation() * kLanes + lane; }
  // True for a lane of the transport that is for messages.
  static bool is_for_messages(uint32_t transport_lane) { return transport_lane % kLanes == kMessageLane; }
  // True for a lane of the transport that is of this generation.
  bool has(uint32_t transport_lane) const { return transport_lane / kLanes == generation(); }
  // The path of a lane of the transport of this generation.
  Path path(uint32_t peer, uint32_t transport_lane) const;
  // The cables of a lane; none if it has no path of its own, or is of another generation.
  std::vector<uint32_t> cables(uint32_t peer, uint32_t transport_lane) const;
  // Paths between this rank and another that have few cables in common.
  std::vector<Path> separate_paths(uint32_t peer) const;
  // Ways of this generation to ranks after this one (which this rank calls) that cross any of these cables.
  std::vector<LostPaths::PeerPath> paths_across(const std::set<uint32_t>& cables) const;

 private:
  struct Kept {
    CallShape shape;
    const Schedule* schedule = nullptr;
    codec::WireType type = {};
    uint64_t elements = 0, slice_bytes = 0;
    std::shared_ptr<const RankPlan> plan;  // shared with the engine
  };

  std::shared_ptr<const RankPlan> by_schedule(const Call& call, const PlanSource::Answer& answer);
  std::shared_ptr<const RankPlan> completed(RankPlan plan, const Call& call, const PlanSource::Answer& answer);
  std::shared_ptr<const RankPlan> finished(RankPlan plan) const;
  RankPlan by_blocks(const Call& call, const PlanSource::Answer& answer) const;
  RankPlan by_pairs(const Call& call, const PlanSource::Answer& answer) const;
  RankPlan by_counts(const Call& call, const Schedule& schedule, std::span<const uint64_t> counts) const;
  RankPlan direct(const Call& call) const;
  RankPlan alone(const Call& call) const;
  void take_lanes(RankPlan& plan);
  uint32_t shared_lane(const StreamEnd& end) const;
  void set_rates(RankPlan& plan, const Call& call, const PlanSource::Answer& answer) const;
  uint32_t lane_of(uint32_t peer, const PlanSource::Way& way);
  std::optional<PlanSource::Way> way(uint32_t peer, uint32_t transport_lane) const;

  const Options options_;
  const bool may_reroute_;
  const FabricUpdate adopted_;
  std::list<Kept> kept_;                            // the last used first
  std::vector<std::vector<PlanSource::Way>> ways_;  // by peer; of its lanes from kFirstOwnLane on
};

}  // namespace banyan::run
