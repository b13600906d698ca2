#include "apps/predict/planned_footprints.h"

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/plan/baselines.h"
#include "banyan/plan/choose.h"
#include "banyan/plan/forest.h"

namespace banyan::app {
namespace {

constexpr const char* kRings = "rings";
constexpr const char* kForest = "forest";
// Latency of a hop; the costs of the device come on top (costed_plans.h puts theirs in its place).
constexpr Picoseconds kHop = std::chrono::microseconds(5);

// Slices of a prediction may be as long as a message can be.
constexpr Bytes kMostSliceOfPrediction{uint64_t{1} << 30};

// A barrier moves no bytes, and no planner knows it.
bool is_planned(job::JobCollective kind) {
  return predict::scheduled_kind(kind).has_value() && kind != job::JobCollective::barrier;
}

class PlannedFootprints : public predict::CollectivePlans, public predict::CollectiveMessages {
 public:
  PlannedFootprints(const Fabric& fabric, std::optional<plan::Baseline> baseline)
      : fabric_(fabric), baseline_(baseline), rings_(predict::make_ring_plans(fabric, {})) {}

  predict::Footprint footprint(const predict::CollectiveCall& call) override {
    if (!is_planned(call.kind)) return rings_->footprint(call);
    const Key key = key_of(call);
    auto known = of_planned_bytes_.find(key);
    if (known == of_planned_bytes_.end()) {
      known = of_planned_bytes_.emplace(key, predict::footprint_of(schedule(key, call), kPlannedBytes, kHop)).first;
    }
    predict::Footprint footprint = known->second;
    for (predict::FluidHop& hop : footprint.hops) {
      hop.coefficient *= static_cast<double>(call.bytes) / static_cast<double>(kPlannedBytes);
    }
    if (call.bytes == 0) footprint.hops.clear();
    return footprint;
  }

  predict::CollectiveMessages* messages() override { return this; }

  predict::TransferGraph transfers(const predict::CollectiveCall& call, Picoseconds alpha) override {
    if (!predict::scheduled_kind(call.kind)) return rings_->messages()->transfers(call, alpha);
    const Schedule& plan = schedule(key_of(call), call);
    uint64_t edges = 0;
    for (size_t i = 0; i < plan.chunk_count(); ++i)
      edges += plan.chunk(i).in_tree.size() + plan.chunk(i).out_tree.size();
    expect_few_transfers(call, edges);
    const Bytes total(call.bytes);
    const Bytes slice = plan::choose_slice(plan, total, {.per_message = alpha}, kMostSliceOfPrediction);
    return predict::TransferGraph::of(plan, {.total = total, .slice = slice, .alpha = alpha, .fold = false});
  }

 private:
  using Key = std::tuple<CollectiveKind, uint32_t, std::vector<NodeId>>;
  static constexpr uint64_t kPlannedBytes = uint64_t{1} << 30;

  static Key key_of(const predict::CollectiveCall& call) {
    return {*predict::scheduled_kind(call.kind), call.root, {call.members.begin(), call.members.end()}};
  }

  // Good as long as this.
  const Schedule& schedule(const Key& key, const predict::CollectiveCall& call) {
    const auto known = schedules_.find(key);
    if (known != schedules_.end()) return known->second;
    const Collective collective = collective_of(fabric_, call);
    Schedule made =
        baseline_ ? plan_baseline(*baseline_, fabric_, collective) : plan::plan_forest(fabric_, collective).schedule;
    return schedules_.emplace(key, std::move(made)).first->second;
  }

  const Fabric fabric_;
  const std::optional<plan::Baseline> baseline_;
  const std::unique_ptr<predict::CollectivePlans> rings_;
  std::map<Key, Schedule> schedules_;
  std::map<Key, predict::Footprint> of_planned_bytes_;
};

}  // namespace

std::unique_ptr<predict::CollectivePlans> make_plans_by(const std::string& algorithm, const Fabric& fabric) {
  if (algorithm == kRings) return predict::make_ring_plans(fabric, {});
  if (algorithm == kForest) return std::make_unique<PlannedFootprints>(fabric, std::nullopt);
  NearestName meant(algorithm);
  std::string known = std::string(kRings) + ", " + kForest;
  for (const char* name : {kRings, kForest}) meant.offer(name);
  for (const plan::Baseline baseline : plan::all_baselines()) {
    if (to_string(baseline) == algorithm) return std::make_unique<PlannedFootprints>(fabric, baseline);
    meant.offer(std::string(to_string(baseline)));
    known += ", " + std::string(to_string(baseline));
  }
  throw Error(ErrorCode::invalid_input,
              "unknown algorithm '" + algorithm.substr(0, 40) + "'" + meant.hint() + " (known: " + known + ")");
}

}  // namespace banyan::app
