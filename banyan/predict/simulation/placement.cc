#include "banyan/predict/simulation/placement.h"

#include <algorithm>
#include <random>
#include <string>

#include "banyan/base/error.h"

namespace banyan::predict {

PlacementRule parse_placement_rule(std::string_view text) {
  if (text == "packed") return PlacementRule::packed;
  if (text == "random") return PlacementRule::random;
  if (text == "round-robin") return PlacementRule::round_robin;
  throw invalid("unknown placement '" + std::string(text.substr(0, 40)) + "' (known: packed, random, round-robin)");
}

Placement::Placement(const Fabric& fabric)
    : fabric_(fabric), boxes_(find_boxes(fabric)), is_taken_(fabric.nodes().size(), false) {}

size_t Placement::free() const {
  return static_cast<size_t>(std::count_if(fabric_.ranks().begin(), fabric_.ranks().end(),
                                           [&](NodeId rank) { return !is_taken_[index(rank)]; }));
}

std::vector<NodeId> Placement::take(uint32_t ranks, PlacementRule rule, uint64_t seed) {
  std::vector<NodeId> order;
  if (rule == PlacementRule::packed) {
    for (const auto& box : boxes_.ranks) order.insert(order.end(), box.begin(), box.end());
  } else {
    size_t largest = 0;
    for (const auto& box : boxes_.ranks) largest = std::max(largest, box.size());
    for (size_t place = 0; place < largest; ++place) {
      for (const auto& box : boxes_.ranks) {
        if (place < box.size()) order.push_back(box[place]);
      }
    }
  }
  std::erase_if(order, [&](NodeId rank) { return is_taken_[index(rank)]; });
  if (rule == PlacementRule::random) {
    // Fisher and Yates by hand: what std::shuffle draws differs between libraries.
    std::mt19937_64 random(seed);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  }
  if (order.size() < ranks) {
    throw invalid(std::to_string(ranks) + " ranks are wanted, and the fabric has " + std::to_string(order.size()) +
                  " left; take a larger fabric");
  }
  order.resize(ranks);
  for (const NodeId rank : order) is_taken_[index(rank)] = true;
  return order;
}

void Placement::take(const std::vector<NodeId>& nodes) {
  for (const NodeId node : nodes) {
    if (!fabric_.is_rank(node)) {
      throw invalid("'" + fabric_.name(node) + "' is a switch; jobs stand on ranks");
    }
    if (is_taken_[index(node)]) {
      throw invalid("'" + fabric_.name(node) + "' is taken twice; give every rank to one job");
    }
    is_taken_[index(node)] = true;
  }
}

}  // namespace banyan::predict
