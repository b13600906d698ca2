#include "banyan/schedule/collective.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "banyan/base/error.h"

namespace banyan::schedule {
namespace {
std::vector<NodeId> checked_participants(const Fabric& fabric, const std::vector<NodeId>& ranks) {
  std::vector<NodeId> participants =
      ranks.empty() ? std::vector<NodeId>(fabric.ranks().begin(), fabric.ranks().end()) : ranks;
  if (participants.size() < 2) throw invalid("a collective needs at least two ranks");
  std::vector<bool> seen(fabric.nodes().size(), false);
  for (const NodeId id : participants) {
    if (index(id) >= fabric.nodes().size() || !fabric.is_rank(id))
      throw invalid("node " + std::to_string(index(id)) + " is not a rank of the fabric");
    if (seen[index(id)]) throw invalid("rank '" + fabric.name(id) + "' takes part twice");
    seen[index(id)] = true;
  }
  return participants;
}

std::vector<uint64_t> checked_weights(std::vector<uint64_t> weights, size_t participants) {
  if (weights.empty()) return std::vector<uint64_t>(participants, 1);
  if (weights.size() != participants) {
    throw invalid(std::to_string(weights.size()) + " weights for " + std::to_string(participants) +
                  " ranks; give one each");
  }
  uint64_t common = 0;
  for (const uint64_t weight : weights) {
    if (weight > Collective::kMaxWeight)
      throw invalid("weight " + std::to_string(weight) + " is above " + std::to_string(Collective::kMaxWeight));
    common = std::gcd(common, weight);
  }
  if (common == 0) throw invalid("all weights are zero");
  for (uint64_t& weight : weights) weight /= common;
  return weights;
}

}  // namespace

Collective Collective::make(const Fabric& fabric, const Options& options) {
  if (!is_planned(options.kind)) {
    throw invalid("no plan is made for " + std::string(to_string(options.kind)) + ", only for " +
                  collective_names(is_planned));
  }
  Collective collective;
  collective.kind_ = options.kind;
  collective.participants_ = checked_participants(fabric, options.ranks);
  const auto& participants = collective.participants_;
  if (!is_sharded(options.kind) && !options.weights.empty())
    throw invalid("weights are for allgather and reduce-scatter, not for " + std::string(to_string(options.kind)));
  if (!collective.is_rooted() && options.root)
    throw invalid("a root is for broadcast and reduce, not for " + std::string(to_string(options.kind)));
  collective.root_ = options.root.value_or(participants.front());
  const auto root = std::find(participants.begin(), participants.end(), collective.root_);
  if (root == participants.end()) {
    const std::string name = index(collective.root_) < fabric.nodes().size() ? fabric.name(collective.root_)
                                                                             : std::to_string(index(collective.root_));
    throw invalid("root '" + name + "' does not take part");
  }
  collective.weights_ = checked_weights(options.weights, participants.size());
  if (collective.is_rooted()) {
    std::fill(collective.weights_.begin(), collective.weights_.end(), 0);
    collective.weights_[static_cast<size_t>(root - participants.begin())] = 1;
  }
  collective.total_weight_ = std::accumulate(collective.weights_.begin(), collective.weights_.end(), uint64_t{0});
  return collective;
}

}  // namespace banyan::schedule
