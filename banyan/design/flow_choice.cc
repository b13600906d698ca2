#include "banyan/design/flow_choice.h"

#include <algorithm>

#include "banyan/base/error.h"
#include "banyan/plan/graph/cut_condition.h"

namespace banyan::design {
namespace {

constexpr uint64_t kMaxFlowWork = 400'000'000;  // arcs looked at: some seconds

int64_t entering(const plan::Network& network, const std::vector<int64_t>& capacity, const plan::VertexSet& cut) {
  int64_t sum = 0;
  for (uint32_t a = 0; a < capacity.size(); ++a) {
    const plan::Arc& arc = network.arcs()[a];
    sum += cut[arc.head] && !cut[arc.tail] ? capacity[a] : 0;
  }
  return sum;
}

const Fabric& small_enough(const Fabric& fabric) {
  const size_t ranks = fabric.ranks().size();
  if (ranks <= FlowCapacities::kMaxRanks) return fabric;
  throw Error(ErrorCode::unsupported, std::to_string(ranks) + " ranks on a fabric that is no Clos are more than the " +
                                          std::to_string(FlowCapacities::kMaxRanks) +
                                          " for which links are told that may be disabled");
}

// Decides cables from the most loss down.
class Search {
 public:
  Search(FlowCapacities& capacities, std::span<const LossyCable> lossy, const Fraction& share)
      : capacities_(capacities), share_(share), cables_(lossy.begin(), lossy.end()), begun_(capacities.work()) {
    std::ranges::stable_sort(cables_, [](const LossyCable& a, const LossyCable& b) { return a.loss > b.loss; });
  }

  Choice choose() {
    double all = 0;
    for (const LossyCable& cable : cables_) all += cable.loss;
    best_.loss = -1;
    branch(0, 0, all);
    best_.is_exact = unexplored_ <= best_.loss;
    best_.most = std::max(best_.loss, unexplored_);
    std::ranges::sort(best_.disabled);
    return std::move(best_);
  }

 private:
  void branch(size_t at, double loss, double undecided) {
    // All that is undecided bounds what may still come.
    if (loss + undecided <= best_.loss) return;
    if (at == cables_.size()) {
      best_.loss = loss;
      best_.disabled = taken_;
      return;
    }
    // The first way down ends in a choice, greedily; what is left open then is told.
    if (best_.loss >= 0 && capacities_.work() - begun_ > kMaxFlowWork) {
      unexplored_ = std::max(unexplored_, loss + undecided);
      return;
    }
    const LossyCable& cable = cables_[at];
    // Disabling comes first: so the first way down is the greedy choice.
    capacities_.disable(cable.cable);
    if (capacities_.hold(share_)) {
      taken_.push_back(cable.cable);
      branch(at + 1, loss + cable.loss, undecided - cable.loss);
      taken_.pop_back();
    }
    capacities_.enable(cable.cable);
    branch(at + 1, loss, undecided - cable.loss);
  }

  FlowCapacities& capacities_;
  const Fraction share_;
  std::vector<LossyCable> cables_;
  const uint64_t begun_;
  std::vector<uint32_t> taken_;
  Choice best_;
  double unexplored_ = 0;
};

}  // namespace

FlowCapacities::FlowCapacities(const Fabric& fabric, const fabric::Cables& cables) : cables_(cables) {
  const Collective all = Collective::make(small_enough(fabric), {});
  // A rank broadcasts over what leads out of it, and others reduce to it over what leads in.
  for (const bool reversed : {false, true}) {
    Side side{.network = plan::Network(fabric, all, reversed), .capacity = {}};
    side.capacity.assign(side.network.bandwidths().begin(), side.network.bandwidths().end());
    side.arc_of_link.resize(fabric.links().size());
    for (uint32_t a = 0; a < side.network.arcs().size(); ++a) side.arc_of_link[index(side.network.arcs()[a].link)] = a;
    sides_.push_back(std::move(side));
  }
  for (Side& side : sides_) {
    for (uint32_t t = 0; t < side.network.terminal_count(); ++t) side.first.push_back(flow(side, t));
  }
}

void FlowCapacities::set(uint32_t cable, int enabled) {
  for (const auto& link : {cables_[cable].forth, cables_[cable].back}) {
    if (!link) continue;
    for (Side& side : sides_) {
      const uint32_t arc = side.arc_of_link[index(*link)];
      side.capacity[arc] = enabled * side.network.bandwidths()[arc];
    }
  }
}

// The least max-flow from a terminal to any other: from what leaves it downwards, cut by cut.
int64_t FlowCapacities::flow(Side& side, uint32_t terminal) {
  plan::CutCondition condition(side.network);
  std::vector<int64_t> supply(side.network.terminal_count(), 0);
  int64_t& value = supply[terminal];
  for (const uint32_t a : side.network.out_arcs(terminal)) value += side.capacity[a];
  while (const auto violated = condition.find_violated({.capacity = side.capacity, .supply = supply}))
    value = entering(side.network, side.capacity, *violated);
  work_ += condition.work();
  return value;
}

bool FlowCapacities::hold(const Fraction& share) {
  for (Side& side : sides_) {
    plan::CutCondition condition(side.network);
    // With one terminal's supply alone, the cut condition says whether its flow to every other is that large.
    std::vector<int64_t> supply(side.network.terminal_count(), 0);
    for (uint32_t t = 0; t < supply.size(); ++t) {
      supply[t] = static_cast<int64_t>(ways_needed(static_cast<uint64_t>(side.first[t]), share));
      const bool holds = !condition.find_violated({.capacity = side.capacity, .supply = supply});
      supply[t] = 0;
      if (holds) continue;
      work_ += condition.work();
      return false;
    }
    work_ += condition.work();
  }
  return true;
}

Fraction FlowCapacities::least_share() {
  Fraction least(1);
  for (Side& side : sides_) {
    for (uint32_t t = 0; t < side.network.terminal_count(); ++t)
      least = std::min(least, Fraction(flow(side, t), side.first[t]));
  }
  return least;
}

Choice choose_cables(FlowCapacities& capacities, std::span<const LossyCable> lossy, const Fraction& share) {
  return Search(capacities, lossy, share).choose();
}

}  // namespace banyan::design
