#include "apps/planned_footprints.h"

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/plan/baselines.h"
#include "banyan/plan/forest.h"

namespace banyan::app {
namespace {

constexpr const char* kRings = "rings";
constexpr const char* kForest = "forest";
// Latency of a hop; the costs of the device come on top (costed_plans.h puts theirs in its place).
constexpr Picoseconds kHop = std::chrono::microseconds(5);

std::optional<CollectiveKind> planned_kind(JobCollective kind) {
  switch (kind) {
    case JobCollective::all_reduce:
      return CollectiveKind::allreduce;
    case JobCollective::all_gather:
      return CollectiveKind::allgather;
    case JobCollective::reduce_scatter:
      return CollectiveKind::reduce_scatter;
    case JobCollective::broadcast:
      return CollectiveKind::broadcast;
    case JobCollective::reduce:
      return CollectiveKind::reduce;
    case JobCollective::gather:
    case JobCollective::scatter:
    case JobCollective::all_to_all:
    case JobCollective::barrier:
      return std::nullopt;
  }
  return std::nullopt;
}

class PlannedFootprints : public CollectivePlans {
 public:
  PlannedFootprints(const Fabric& fabric, std::optional<Baseline> baseline)
      : fabric_(fabric), baseline_(baseline), rings_(make_ring_plans(fabric, {})) {}

  Footprint footprint(const CollectiveCall& call) override {
    const std::optional<CollectiveKind> kind = planned_kind(call.kind);
    if (!kind) return rings_->footprint(call);
    const Key key{*kind, call.root, {call.members.begin(), call.members.end()}};
    auto known = of_planned_bytes_.find(key);
    if (known == of_planned_bytes_.end()) known = of_planned_bytes_.emplace(key, plan(key)).first;
    Footprint footprint = known->second;
    for (FluidHop& hop : footprint.hops) {
      hop.coefficient *= static_cast<double>(call.bytes) / static_cast<double>(kPlannedBytes);
    }
    if (call.bytes == 0) footprint.hops.clear();
    return footprint;
  }

 private:
  using Key = std::tuple<CollectiveKind, uint32_t, std::vector<NodeId>>;
  static constexpr uint64_t kPlannedBytes = uint64_t{1} << 30;

  Footprint plan(const Key& key) const {
    const auto& [kind, root, members] = key;
    Collective::Options options{.kind = kind, .ranks = members};
    if (kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce) options.root = members[root];
    const Collective collective = Collective::make(fabric_, options);
    const Schedule schedule =
        baseline_ ? plan_baseline(*baseline_, fabric_, collective) : plan_forest(fabric_, collective).schedule;
    return footprint_of(schedule, kPlannedBytes, kHop);
  }

  const Fabric fabric_;
  const std::optional<Baseline> baseline_;
  const std::unique_ptr<CollectivePlans> rings_;
  std::map<Key, Footprint> of_planned_bytes_;
};

}  // namespace

std::unique_ptr<CollectivePlans> make_plans_by(const std::string& algorithm, const Fabric& fabric) {
  if (algorithm == kRings) return make_ring_plans(fabric, {});
  if (algorithm == kForest) return std::make_unique<PlannedFootprints>(fabric, std::nullopt);
  NearestName meant(algorithm);
  std::string known = std::string(kRings) + ", " + kForest;
  for (const char* name : {kRings, kForest}) meant.offer(name);
  for (const Baseline baseline : all_baselines()) {
    if (to_string(baseline) == algorithm) return std::make_unique<PlannedFootprints>(fabric, baseline);
    meant.offer(std::string(to_string(baseline)));
    known += ", " + std::string(to_string(baseline));
  }
  throw Error(ErrorCode::invalid_input,
              "unknown algorithm '" + algorithm.substr(0, 40) + "'" + meant.hint() + " (known: " + known + ")");
}

}  // namespace banyan::app
