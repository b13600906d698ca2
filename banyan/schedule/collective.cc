#include "banyan/schedule/collective.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::schedule {
namespace {

// Of an all-to-all in lowest terms: of one pair, and of all together, which the shares of a schedule count.
constexpr uint64_t kMostOfPair = Collective::kMaxTraffic, kMostOfAll = 4 * kMostOfPair;

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

// "1000000 from rank 0 to rank 2".
std::string amount_of_pair(const std::vector<uint64_t>& traffic, size_t pair, size_t participants) {
  return std::to_string(traffic[pair]) + " from rank " + std::to_string(pair / participants) + " to rank " +
         std::to_string(pair % participants);
}

// Amounts are counted in the smallest one, so that they may not be too far apart.
void check_size(const std::vector<uint64_t>& traffic, size_t participants) {
  size_t least = traffic.size(), most = 0;
  unsigned __int128 total = 0;
  for (size_t pair = 0; pair < traffic.size(); ++pair) {
    total += traffic[pair];
    if (traffic[pair] > traffic[most]) most = pair;
    if (traffic[pair] > 0 && (least == traffic.size() || traffic[pair] < traffic[least])) least = pair;
  }
  if (traffic[most] <= kMostOfPair && total <= kMostOfAll) return;
  throw invalid("traffic of " + amount_of_pair(traffic, most, participants) + " and of " +
                amount_of_pair(traffic, least, participants) +
                " is too far apart: in lowest terms a pair has at most 2^60 parts and all together 2^62; count in "
                "larger units, or leave the small amount out");
}

// In lowest terms; empty where all pairs are equal.
std::vector<uint64_t> checked_traffic(std::vector<uint64_t> traffic, size_t participants) {
  if (traffic.empty()) return {};
  if (traffic.size() != participants * participants) {
    throw invalid("a traffic matrix of " + std::to_string(traffic.size()) + " numbers for " +
                  std::to_string(participants) + " ranks; give " + std::to_string(participants) + " rows of as many");
  }
  uint64_t common = 0;
  for (const uint64_t parts : traffic) common = std::gcd(common, parts);
  bool any = false;
  for (size_t i = 0; i < traffic.size(); ++i) {
    if (common > 0) traffic[i] /= common;
    any |= traffic[i] > 0 && i / participants != i % participants;
  }
  if (!any) throw invalid("no rank sends anything to another");
  check_size(traffic, participants);
  const bool is_even = std::all_of(traffic.begin(), traffic.end(), [](uint64_t parts) { return parts == 1; });
  return is_even ? std::vector<uint64_t>() : traffic;
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
  const bool takes_weights = is_sharded(options.kind) && !collective.is_personal();
  if (!takes_weights && !options.weights.empty())
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
  if (!options.traffic.empty() && !collective.is_personal())
    throw invalid("a traffic matrix is for all-to-all, not for " + std::string(to_string(options.kind)));
  if (collective.is_personal()) {
    collective.set_traffic(checked_traffic(options.traffic, participants.size()));
    return collective;
  }
  collective.weights_ = checked_weights(options.weights, participants.size());
  if (collective.is_rooted()) {
    std::fill(collective.weights_.begin(), collective.weights_.end(), 0);
    collective.weights_[static_cast<size_t>(root - participants.begin())] = 1;
  }
  collective.total_weight_ = std::accumulate(collective.weights_.begin(), collective.weights_.end(), uint64_t{0});
  return collective;
}

void Collective::set_traffic(std::vector<uint64_t> traffic) {
  const size_t ranks = participants_.size();
  traffic_ = std::move(traffic);
  weights_.assign(ranks, traffic_.empty() ? ranks - 1 : 0);
  total_traffic_ = traffic_.empty() ? ranks * ranks : 0;
  for (size_t pair = 0; pair < traffic_.size(); ++pair) {
    total_traffic_ += traffic_[pair];
    if (pair / ranks != pair % ranks) weights_[pair / ranks] += traffic_[pair];
  }
  total_weight_ = std::accumulate(weights_.begin(), weights_.end(), uint64_t{0});
}

uint64_t Collective::block_elements(size_t from, size_t to, uint64_t elements) const {
  using uint128 = unsigned __int128;
  CHECK(is_personal()) << to_string(kind_);
  // The product of all three may need more than 128 bits; traffic and its sum are below 2^63.
  const uint128 held = uint128{elements} * participants_.size();
  const uint128 rest = held % total_traffic_ * traffic(from, to) / total_traffic_;
  return static_cast<uint64_t>(held / total_traffic_ * traffic(from, to) + rest);
}

Fraction Collective::carried_per_byte() const {
  if (!is_personal()) return Fraction(1);
  return Fraction(static_cast<int128>(participants_.size()) * static_cast<int128>(total_weight_),
                  static_cast<int128>(total_traffic_));
}

}  // namespace banyan::schedule
