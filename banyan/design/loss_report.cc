#include "banyan/design/loss_report.h"

#include <algorithm>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/design/clos_choice.h"
#include "banyan/design/flow_choice.h"
#include "banyan/design/up_paths.h"

namespace banyan::design {
namespace {

LossReport lossy_cables_of(const Fabric& fabric, const fabric::Cables& cables) {
  LossReport report;
  for (uint32_t c = 0; c < cables.all().size(); ++c) {
    const fabric::Cable& cable = cables[c];
    double loss = 0;
    for (const auto& link : {cable.forth, cable.back}) loss += link ? fabric.link(*link).loss : 0;
    if (loss == 0) continue;
    report.loss += loss;
    report.cables.push_back(
        {.ends = cable, .name = name_of(cable, fabric, cable.ordinal > 0), .loss = loss, .share_alone = {}});
  }
  std::ranges::stable_sort(report.cables, [](const auto& a, const auto& b) { return a.loss > b.loss; });
  return report;
}

uint32_t number_of(const LossReport::Cable& cable, const fabric::Cables& cables) {
  return cables.of(cable.ends.forth ? *cable.ends.forth : *cable.ends.back);
}

// Whether all ranks reach each other without the cables that are to be disabled.
bool leaves_all_joined(const Fabric& fabric, const fabric::Cables& cables, const std::vector<uint32_t>& disabled) {
  Fabric::Builder builder;
  for (const Node& node : fabric.nodes()) builder.add_node(node);
  for (uint32_t l = 0; l < fabric.links().size(); ++l) {
    if (!std::ranges::binary_search(disabled, cables.of(LinkId{l}))) builder.add_link(fabric.link(LinkId{l}));
  }
  try {
    std::move(builder).build();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Small shares may leave each rank ways up to other switches of the top than its peers have. Then the cables that lose
// least are enabled again, until all ranks are joined.
void join_all(const Fabric& fabric, const fabric::Cables& cables, std::span<const LossyCable> lossy, Choice& choice) {
  for (size_t i = lossy.size(); i-- > 0 && !leaves_all_joined(fabric, cables, choice.disabled);) {
    if (std::erase(choice.disabled, lossy[i].cable) == 0) continue;
    choice.loss -= lossy[i].loss;
    choice.is_exact = false;
  }
}

// The least share of the ranks whose ways the last changes touched, and of `ranks`.
Fraction least_share(const UpPaths& paths, std::span<const NodeId> ranks) {
  Fraction least(1);
  for (const NodeId rank : ranks) {
    least = std::min(
        least, Fraction(static_cast<int64_t>(paths.paths(rank)), static_cast<int64_t>(paths.paths_at_first(rank))));
  }
  return least;
}

// The two kinds of capacities, alike to those who ask.
class ClosView {
 public:
  ClosView(const Fabric& fabric, UpPaths paths) : fabric_(fabric), paths_(std::move(paths)) {}
  Fraction share_without(const std::vector<uint32_t>& cables) {
    for (const uint32_t c : cables) paths_.disable(c);
    const Fraction share =
        cables.size() == 1 ? least_share(paths_, paths_.touched_ranks()) : least_share(paths_, fabric_.ranks());
    for (const uint32_t c : cables) paths_.enable(c);
    return share;
  }
  Choice choose(std::span<const LossyCable> lossy, const Fraction& share) {
    return choose_cables(fabric_, paths_, lossy, share);
  }

 private:
  const Fabric& fabric_;
  UpPaths paths_;
};

class FlowView {
 public:
  FlowView(const Fabric& fabric, const fabric::Cables& cables) : capacities_(fabric, cables) {}
  Fraction share_without(const std::vector<uint32_t>& cables) {
    for (const uint32_t c : cables) capacities_.disable(c);
    const Fraction share = capacities_.least_share();
    for (const uint32_t c : cables) capacities_.enable(c);
    return share;
  }
  Choice choose(std::span<const LossyCable> lossy, const Fraction& share) {
    return choose_cables(capacities_, lossy, share);
  }

 private:
  FlowCapacities capacities_;
};

template <typename View>
void fill(LossReport& report, const Fabric& fabric, const fabric::Cables& cables, View view) {
  std::vector<LossyCable> lossy;
  for (LossReport::Cable& cable : report.cables) {
    const uint32_t number = number_of(cable, cables);
    cable.share_alone = view.share_without({number});
    cable.may_alone = cable.share_alone >= report.share;
    lossy.push_back({.cable = number, .loss = cable.loss});
  }
  // Each cable by itself is told first; the choice is of cables together.
  Choice choice = view.choose(lossy, report.share);
  join_all(fabric, cables, lossy, choice);
  for (size_t i = 0; i < lossy.size(); ++i)
    report.cables[i].disable = std::ranges::binary_search(choice.disabled, lossy[i].cable);
  report.share_left = view.share_without(choice.disabled);
  report.loss_disabled = choice.loss;
  report.loss_at_most = std::max(choice.loss, choice.most);
  report.is_exact = choice.is_exact;
}

}  // namespace

LossReport report_losses(const Fabric& fabric, const Fraction& share) {
  if (share <= Fraction(0) || share > Fraction(1)) {
    throw invalid("a share of " + share.to_string() + " of the capacity is not above 0 and at most 1, as 0.75 is");
  }
  const fabric::Cables cables(fabric);
  LossReport report = lossy_cables_of(fabric, cables);
  report.share = share;
  auto paths = UpPaths::of(fabric, cables);
  report.is_clos = paths.has_value();
  report.share_left = Fraction(1);
  // Paths up are counted in a Clos, flows on any other fabric.
  if (report.cables.empty()) return report;
  if (paths) {
    fill(report, fabric, cables, ClosView(fabric, std::move(*paths)));
  } else {
    fill(report, fabric, cables, FlowView(fabric, cables));
  }
  return report;
}

}  // namespace banyan::design
