#include "banyan/testing/test_sample_forest.h"

#include <algorithm>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "banyan/fabric/text.h"

namespace banyan::testing {
namespace {

class Grower {
 public:
  explicit Grower(const SampleForestOptions& options)
      : options_(options),
        random_(options.seed),
        fabric_(full_fabric(options.ranks + options.bystanders)),
        collective_(make_collective()),
        builder_(fabric_, collective_) {}

  Schedule grow() && {
    // Shares of one root sum to its weight times this, so that each of its trees can have a share.
    const uint64_t scale = uint64_t{4} * options_.trees_per_root;
    for (uint32_t root = 0; root < options_.ranks; ++root) {
      const uint64_t weight = collective_.weights()[root];
      if (weight > 0) add_trees(root, weight * scale);
    }
    return std::move(builder_).build();
  }

 private:
  static Fabric full_fabric(uint32_t ranks) {
    std::string text;
    for (uint32_t a = 0; a < ranks; ++a) {
      for (uint32_t b = 0; b < a; ++b) {
        text += "gpu" + std::to_string(b) + " <-> gpu" + std::to_string(a) + " 10GB/s;";
      }
    }
    return fabric::parse_fabric_text(text);
  }

  NodeId participant(uint32_t rank) const { return fabric_.at("gpu" + std::to_string(rank + options_.bystanders)); }

  Collective make_collective() const {
    Collective::Options asked{.kind = options_.kind, .weights = options_.weights};
    for (uint32_t rank = 0; rank < options_.ranks; ++rank) asked.ranks.push_back(participant(rank));
    if (is_rooted(options_.kind)) asked.root = participant(options_.root);
    return Collective::make(fabric_, asked);
  }

  uint64_t below(uint64_t n) { return random_() % n; }

  void add_trees(uint32_t root, uint64_t units) {
    for (uint32_t left = options_.trees_per_root; left > 0; --left) {
      const uint64_t share = left == 1 ? units : 1 + below(units - left + 1);
      units -= share;
      const std::vector<RouteId> in_tree = collective_.reduces() ? tree(root, true) : std::vector<RouteId>();
      const std::vector<RouteId> out_tree = collective_.spreads() ? tree(root, false) : std::vector<RouteId>();
      builder_.add_chunk({.root = participant(root), .units = share, .in_tree = in_tree, .out_tree = out_tree});
    }
  }

  std::vector<RouteId> tree(uint32_t root, bool is_inwards) {
    std::vector<uint32_t> order;
    for (uint32_t i = 1; i < options_.ranks; ++i) order.push_back((root + i) % options_.ranks);
    if (options_.shape == TreeShape::random) std::shuffle(order.begin(), order.end(), random_);
    order.insert(order.begin(), root);
    std::vector<RouteId> edges;
    for (size_t i = 1; i < order.size(); ++i) {
      const size_t parent = options_.shape == TreeShape::path   ? i - 1
                            : options_.shape == TreeShape::star ? 0
                                                                : below(i);
      edges.push_back(is_inwards ? route(order[i], order[parent]) : route(order[parent], order[i]));
    }
    if (is_inwards) std::reverse(edges.begin(), edges.end());
    return edges;
  }

  RouteId route(uint32_t from, uint32_t to) {
    for (const LinkId link : fabric_.out_links(participant(from))) {
      if (fabric_.link(link).to == participant(to)) return builder_.add_route(std::span(&link, 1));
    }
    throw std::logic_error("a full fabric lacks a link");
  }

  const SampleForestOptions& options_;
  std::mt19937_64 random_;
  Fabric fabric_;
  Collective collective_;
  Schedule::Builder builder_;
};

}  // namespace

Schedule sample_forest(const SampleForestOptions& options) { return Grower(options).grow(); }

}  // namespace banyan::testing
