#include "banyan/fabric/loss.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/fabric/cables.h"

namespace banyan::fabric {
namespace {

// Of a cable: the worse of its directions.
double loss_of(const Cable& cable, const Fabric& fabric) {
  double loss = 0;
  for (const std::optional<LinkId>& link : {cable.forth, cable.back}) {
    if (link) loss = std::max(loss, fabric.link(*link).loss);
  }
  return loss;
}

// Ranks that the first rank reaches, or that reach it, over links that are not gone.
std::vector<bool> joined(const Fabric& fabric, const std::vector<bool>& gone, bool backwards) {
  std::vector<bool> seen(fabric.nodes().size(), false);
  std::vector<NodeId> stack{fabric.ranks().front()};
  seen[index(stack.back())] = true;
  while (!stack.empty()) {
    const NodeId node = stack.back();
    stack.pop_back();
    for (const LinkId id : backwards ? fabric.in_links(node) : fabric.out_links(node)) {
      const NodeId next = backwards ? fabric.link(id).from : fabric.link(id).to;
      if (gone[index(id)] || seen[index(next)]) continue;
      seen[index(next)] = true;
      stack.push_back(next);
    }
  }
  return seen;
}

// A rank that is cut off: of the two sides, one of the smaller.
std::optional<NodeId> find_cut_off(const Fabric& fabric, const std::vector<bool>& gone) {
  for (const bool backwards : {false, true}) {
    const std::vector<bool> seen = joined(fabric, gone, backwards);
    const auto is_seen = [&](NodeId rank) { return seen[index(rank)]; };
    const auto ranks = fabric.ranks();
    const auto count = static_cast<size_t>(std::ranges::count_if(ranks, is_seen));
    if (count == ranks.size()) continue;
    return 2 * count < ranks.size() ? ranks.front() : *std::ranges::find_if_not(ranks, is_seen);
  }
  return std::nullopt;
}

class LossyCables {
 public:
  LossyCables(const Fabric& fabric, double most) : fabric_(fabric), cables_(fabric), gone_(fabric.links().size()) {
    for (uint32_t c = 0; c < cables_.all().size(); ++c) {
      if (loss_of(cables_[c], fabric) <= most) continue;
      lossy_.push_back(c);
      set_gone(c, true);
    }
    std::ranges::stable_sort(lossy_, {}, [&](uint32_t a) { return loss_of(cables_[a], fabric_); });
  }

  const std::vector<bool>& gone() const { return gone_; }

  [[noreturn]] void refuse() {
    // The fewest of them, from the least lossy on, that join all ranks again; the last of these is needed.
    size_t low = 0, high = lossy_.size();
    while (high - low > 1) {
      const size_t middle = (low + high) / 2;
      allow(middle);
      (find_cut_off(fabric_, gone_) ? low : high) = middle;
    }
    allow(high - 1);
    const NodeId cut_off = *find_cut_off(fabric_, gone_);
    const Cable& needed = cables_[lossy_[high - 1]];
    const std::string loss = format_loss(loss_of(needed, fabric_));
    throw invalid("rank '" + fabric_.name(cut_off) + "' would be cut off: link " +
                  name_of(needed, fabric_, needed.ordinal > 0) + ", which loses " + loss +
                  ", is needed; mend it, or allow " + loss);
  }

 private:
  void allow(size_t count) {
    for (size_t i = 0; i < lossy_.size(); ++i) set_gone(lossy_[i], i >= count);
  }

  void set_gone(uint32_t cable, bool gone) {
    for (const std::optional<LinkId>& link : {cables_[cable].forth, cables_[cable].back}) {
      if (link) gone_[index(*link)] = gone;
    }
  }

  const Fabric& fabric_;
  const Cables cables_;
  std::vector<uint32_t> lossy_;
  std::vector<bool> gone_;
};

}  // namespace

double parse_loss(std::string_view text) {
  double loss = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), loss);
  if (code == std::errc() && end == text.data() + text.size() && loss >= 0 && loss < 1) return std::abs(loss);
  throw Error(
      ErrorCode::invalid_input,
      in_quotes(text) + " is no loss; write the fraction of packets lost, from 0 to below 1, as in 0.001 or 1e-5");
}

std::string format_loss(double loss) {
  char buffer[32];
  const auto [end, code] = std::to_chars(buffer, buffer + sizeof buffer, loss);
  return {buffer, end};
}

Fabric without_lossy_links(const Fabric& fabric, double most) {
  LossyCables lossy(fabric, most);
  if (find_cut_off(fabric, lossy.gone())) lossy.refuse();
  Fabric::Builder builder;
  for (const Node& node : fabric.nodes()) builder.add_node(node);
  for (uint32_t l = 0; l < fabric.links().size(); ++l) {
    if (!lossy.gone()[l]) builder.add_link(fabric.link(LinkId{l}));
  }
  for (const Permutation& image : fabric.symmetries()) builder.add_symmetry(image);
  return std::move(builder).build();
}

}  // namespace banyan::fabric
