#include "banyan/plan/forest/steiner_tree.h"

#include <limits>

#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// The least cost over all choices of a parent for every node; infinite where none is a tree.
double least_by_trying(const std::vector<double>& costs, uint32_t count, uint32_t root) {
  std::vector<uint32_t> parent(count, 0);
  double least = kNone;
  for (;;) {
    double cost = 0;
    bool is_tree = true;
    for (uint32_t v = 0; v < count; ++v) {
      if (v == root) continue;
      cost += parent[v] == v ? kNone : costs[parent[v] * count + v];
      uint32_t up = v, steps = 0;
      while (up != root && steps++ < count) up = parent[up];
      is_tree = is_tree && up == root;
    }
    if (is_tree) least = std::min(least, cost);
    uint32_t digit = 0;
    while (digit < count && ++parent[digit] == count) parent[digit++] = 0;
    if (digit == count) return least;
  }
}

TEST(LeastArborescence, IsTheBestOfAllOnRandomCosts) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const uint32_t count = 2 + static_cast<uint32_t>(random() % 5), root = static_cast<uint32_t>(random() % count);
    std::vector<double> costs;
    for (uint32_t i = 0; i < count * count; ++i) {
      costs.push_back(random() % 5 == 0 ? kNone : static_cast<double>(random() % 10));
    }
    const double least = least_by_trying(costs, count, root);
    if (least == kNone) continue;
    const std::vector<uint32_t> parent = least_arborescence(costs, root);
    double cost = 0;
    for (uint32_t v = 0; v < count; ++v) {
      if (v == root) continue;
      cost += costs[parent[v] * count + v];
      uint32_t up = v, steps = 0;
      while (up != root && steps++ < count) up = parent[up];
      EXPECT_EQ(up, root);
    }
    EXPECT_EQ(cost, least);
  }
}

TEST(SteinerTrees, BranchAtASwitchWhereThatIsShorter) {
  const Fabric fabric = fabric::parse_fabric_text("r <-> sw 1GB/s; a <-> sw 1GB/s; b <-> sw 1GB/s; r -> a 1GB/s");
  const Network network(fabric, Collective::make(fabric, {}), false);
  const std::vector<uint32_t> branching{3};
  // r -> sw, sw -> r, a -> sw, sw -> a, b -> sw, sw -> b, r -> a
  const std::vector<double> lengths{4, 4, 4, 1, 4, 1, 3};
  SteinerTrees with(network, branching), without(network, {});
  with.set_lengths(lengths);
  without.set_lengths(lengths);
  EXPECT_EQ(with.find(0).length, 6) << "through the switch, and from there to both";
  EXPECT_EQ(with.find(0).paths.size(), 3u);
  EXPECT_EQ(without.find(0).length, 3 + 5) << "straight to a, and from r through the switch to b";
  EXPECT_EQ(without.find(0).paths.size(), 2u);
}

}  // namespace
}  // namespace banyan::plan
