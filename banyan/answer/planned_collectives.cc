#include "banyan/answer/planned_collectives.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/plan/choose.h"
#include "banyan/plan/plan_book.h"
#include "banyan/schedule/cost.h"

namespace banyan::answer {
namespace {

constexpr const char* kRings = "rings";
// Latency of a hop; the costs of the device come on top (costed_plans.h puts theirs in its place).
constexpr Picoseconds kHop = std::chrono::microseconds(5);

// Slices of a prediction may be as long as a message can be.
constexpr Bytes kMostSliceOfPrediction{uint64_t{1} << 30};

// The kind whose plan a call may follow; nothing for those that no planner plans.
std::optional<CollectiveKind> planned_kind(CollectiveKind kind) {
  return is_personal(kind) ? std::optional(kind) : predict::scheduled_kind(kind);
}

plan::PlanQuestion question_of(const predict::CollectiveCall& call) {
  return {.kind = *planned_kind(call.kind), .members = {call.members.begin(), call.members.end()}, .root = call.root};
}

class PlannedCollectives : public predict::CollectivePlans, public predict::CollectiveMessages {
 public:
  PlannedCollectives(const Fabric& fabric, const plan::Planner& planner)
      : planner_(planner),
        exchanger_(*plan::planners_of(CollectiveKind::all_to_all).front()),
        book_(fabric),
        rings_(predict::make_ring_plans(fabric, {})) {}

  predict::Footprint footprint(const predict::CollectiveCall& call) override {
    const Schedule* const plan = this->plan(call);
    if (plan == nullptr) return rings_->footprint(call);
    auto known = of_planned_bytes_.find(plan);
    if (known == of_planned_bytes_.end()) {
      known = of_planned_bytes_.emplace(plan, predict::footprint_of(*plan, kPlannedBytes, kHop)).first;
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
    const Schedule* const found = this->plan(call);
    if (found == nullptr) return rings_->messages()->transfers(call, alpha);
    const Schedule& plan = *found;
    uint64_t edges = 0;
    for (size_t i = 0; i < plan.chunk_count(); ++i) {
      edges += plan.chunk(i).in_tree.size() + plan.chunk(i).out_tree.size();
    }
    expect_few_transfers(call, edges);
    const Bytes total(call.bytes);
    const Bytes slice = std::max(plan::choose_slice(plan, total, {.per_message = alpha}, kMostSliceOfPrediction),
                                 Bytes(total.count() / kMostSlices));
    return predict::TransferGraph::of(plan, {.total = total, .slice = slice, .alpha = alpha, .fold = false});
  }

 private:
  static constexpr uint64_t kMostSlices = 4096;  // of all bytes; beyond, messages cost nothing beside bytes
  static constexpr uint64_t kPlannedBytes = uint64_t{1} << 30;

  // That a call follows; null: none, it goes as with rings.
  const Schedule* plan(const predict::CollectiveCall& call) {
    const std::optional<CollectiveKind> kind = planned_kind(call.kind);
    if (!kind) return nullptr;
    if (planner_.plans(*kind)) return &book_.plan(planner_, question_of(call));
    return is_personal(*kind) ? exchange(call) : nullptr;
  }

  // Of an all-to-all; null: to go straight is as quick, or nothing else can be done.
  const Schedule* exchange(const predict::CollectiveCall& call) {
    if (call.members.size() > kMostExchanging) return nullptr;
    const plan::PlanQuestion question = question_of(call);
    const auto [found, is_new] = exchanges_.try_emplace(question, nullptr);
    if (is_new) found->second = quicker_exchange(call, question);
    return found->second;
  }

  const Schedule* quicker_exchange(predict::CollectiveCall call, const plan::PlanQuestion& question) {
    constexpr double kEqual = 1 - 1e-9;
    call.bytes = kPlannedBytes;
    double straight = 0;
    for (const predict::FluidHop& hop : rings_->footprint(call).hops) {
      const Link& link = book_.fabric().link(LinkId{hop.link});
      straight = std::max(straight, hop.coefficient / static_cast<double>(link.bandwidth.bytes_per_second()));
    }
    try {
      const Schedule& plan = book_.plan(exchanger_, question);
      const double planned = seconds_per_byte(plan).to_double() * static_cast<double>(kPlannedBytes);
      return planned < straight * kEqual ? &plan : nullptr;
    } catch (const Error& error) {
      // Ranks that are no members may stand between.
      if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::invalid_input) throw;
      return nullptr;
    }
  }

  const plan::Planner& planner_;
  const plan::Planner& exchanger_;  // of all-to-alls, where that one has none
  plan::PlanBook book_;
  const std::unique_ptr<predict::CollectivePlans> rings_;
  std::map<plan::PlanQuestion, const Schedule*> exchanges_;  // of the book; null: they go straight
  std::map<const Schedule*, predict::Footprint> of_planned_bytes_;
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
