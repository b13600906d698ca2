#include "banyan/answer/planned_collectives.h"

#include <map>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/plan/choose.h"
#include "banyan/plan/plan_book.h"

namespace banyan::answer {
namespace {

constexpr const char* kRings = "rings";
// Latency of a hop; the costs of the device come on top (costed_plans.h puts theirs in its place).
constexpr Picoseconds kHop = std::chrono::microseconds(5);

// Slices of a prediction may be as long as a message can be.
constexpr Bytes kMostSliceOfPrediction{uint64_t{1} << 30};

plan::PlanQuestion question_of(const predict::CollectiveCall& call) {
  return {.kind = *predict::scheduled_kind(call.kind),
          .members = {call.members.begin(), call.members.end()},
          .root = call.root};
}

class PlannedCollectives : public predict::CollectivePlans, public predict::CollectiveMessages {
 public:
  PlannedCollectives(const Fabric& fabric, const plan::Planner& planner)
      : planner_(planner), book_(fabric), rings_(predict::make_ring_plans(fabric, {})) {}

  predict::Footprint footprint(const predict::CollectiveCall& call) override {
    if (!predict::scheduled_kind(call.kind)) return rings_->footprint(call);
    const plan::PlanQuestion question = question_of(call);
    auto known = of_planned_bytes_.find(question);
    if (known == of_planned_bytes_.end()) {
      known = of_planned_bytes_
                  .emplace(question, predict::footprint_of(book_.plan(planner_, question), kPlannedBytes, kHop))
                  .first;
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
    const Schedule& plan = book_.plan(planner_, question_of(call));
    uint64_t edges = 0;
    for (size_t i = 0; i < plan.chunk_count(); ++i) {
      edges += plan.chunk(i).in_tree.size() + plan.chunk(i).out_tree.size();
    }
    expect_few_transfers(call, edges);
    const Bytes total(call.bytes);
    const Bytes slice = plan::choose_slice(plan, total, {.per_message = alpha}, kMostSliceOfPrediction);
    return predict::TransferGraph::of(plan, {.total = total, .slice = slice, .alpha = alpha, .fold = false});
  }

 private:
  static constexpr uint64_t kPlannedBytes = uint64_t{1} << 30;

  const plan::Planner& planner_;
  plan::PlanBook book_;
  const std::unique_ptr<predict::CollectivePlans> rings_;
  std::map<plan::PlanQuestion, predict::Footprint> of_planned_bytes_;
};

}  // namespace

std::unique_ptr<predict::CollectivePlans> make_plans_by(const std::string& algorithm, const Fabric& fabric) {
  if (algorithm == kRings) return predict::make_ring_plans(fabric, {});
  NearestName meant(algorithm);
  meant.offer(kRings);
  std::string known = kRings;
  for (const plan::Planner& planner : plan::planners()) {
    if (planner.name == algorithm) return std::make_unique<PlannedCollectives>(fabric, planner);
    meant.offer(planner.name);
    known += ", " + std::string(planner.name);
  }
  throw invalid("unknown algorithm " + in_quotes(algorithm) + meant.hint() + " (known: " + known + ")");
}

}  // namespace banyan::answer
