// NetPlans: what one rank does in a call between hosts, ready for the engine, and which connections it takes.
//
// Allreduce, reduce, broadcast, allgather(v) and reduce-scatter(v) follow the schedule that a PlanSource gives for
// their size; the others go straight from each rank to each. Plans are kept, since calls repeat.
//
// Connections. A lane of a plan for which the PlanSource knows addresses has a connection of its own, shared by all
// plans that use this path; the rest share one. Their numbers are given in order of first use, which is the same at
// both ends, since both make the same plans in the order of the calls.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "banyan/run/call.h"
#include "banyan/run/engine/rank_plan.h"
#include "banyan/run/plan_source.h"
#include "banyan/run/transport/connector.h"

namespace banyan {

class NetPlans {
 public:
  // Lanes of a LaneTransport.
  static constexpr uint32_t kSharedLane = 0, kMessageLane = 1, kFirstOwnLane = 2;
  static constexpr size_t kKept = 64;

  struct Options {
    uint32_t rank = 0, ranks = 1;
    std::shared_ptr<PlanSource> source;  // shared with the other communicators of the caller; none for one rank
    bool has_paths = true;               // the transport can choose them
  };
  explicit NetPlans(Options options) : options_(std::move(options)) {}

  // Of a call for all ranks. Its lanes are those of the transport. Throws what the source and rank_plan.h throw.
  std::shared_ptr<const RankPlan> plan(const Call& call);

  // Of a lane of the transport.
  Path path(uint32_t peer, uint32_t lane) const;

 private:
  struct Kept {
    const Schedule* schedule = nullptr;
    uint64_t elements = 0, slice_bytes = 0;
    std::shared_ptr<const RankPlan> plan;  // shared with the engine
  };

  std::shared_ptr<const RankPlan> by_schedule(const Call& call, CollectiveKind kind);
  RankPlan by_blocks(const Call& call, const Schedule& schedule) const;
  RankPlan direct(const Call& call) const;
  RankPlan alone(const Call& call) const;
  void take_lanes(RankPlan& plan);
  void set_rates(RankPlan& plan, const Call& call, const PlanSource::Answer& answer) const;
  uint32_t lane_of(uint32_t peer, const Path& path);

  const Options options_;
  std::list<Kept> kept_;                  // the last used first
  std::vector<std::vector<Path>> paths_;  // by peer; of its lanes from kFirstOwnLane on
};

}  // namespace banyan
