#include "banyan/fabric/routing.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

std::vector<std::string> names(const Fabric& fabric, const std::vector<LinkId>& way) {
  std::vector<std::string> names;
  for (const LinkId link : way) names.push_back(fabric.name(fabric.link(link).to));
  return names;
}

std::vector<LinkId> find(Routing& routing, NodeId from, NodeId to, uint64_t salt = 0) {
  std::vector<LinkId> way;
  routing.find(from, to, salt, way);
  return way;
}

TEST(Routing, TakesTheWidestOfTheShortestWays) {
  // Both are two links; NVLink is wider than the network.
  const Fabric fabric = generate_fabric("dgx-a100:2");
  Routing routing(fabric);
  const std::vector<LinkId> inside = find(routing, fabric.at("gpu0"), fabric.at("gpu5"));
  EXPECT_EQ(fabric.link(inside.front()).bandwidth, Bandwidth::gigabytes_per_second(300));
  const std::vector<LinkId> outside = find(routing, fabric.at("gpu0"), fabric.at("gpu13"));
  EXPECT_EQ(fabric.link(outside.front()).bandwidth, Bandwidth::gigabytes_per_second(25));
}

TEST(Routing, NeverPassesThroughARankWhereSwitchesLead) {
  const Fabric fabric = generate_fabric("fat-tree:k=4");
  Routing routing(fabric);
  for (const NodeId from : fabric.ranks()) {
    for (const NodeId to : fabric.ranks()) {
      if (from == to) continue;
      const std::vector<LinkId> way = find(routing, from, to);
      NodeId at = from;
      for (const LinkId link : way) {
        ASSERT_EQ(fabric.link(link).from, at);
        ASSERT_TRUE(at == from || !fabric.is_rank(at));
        at = fabric.link(link).to;
      }
      ASSERT_EQ(at, to);
      ASSERT_LE(way.size(), 6u);
    }
  }
}

TEST(Routing, GoesThroughRanksWhereNothingElseLeads) {
  const Fabric fabric = generate_fabric("ring:6");
  Routing routing(fabric);
  EXPECT_THAT(names(fabric, find(routing, fabric.at("gpu1"), fabric.at("gpu3"))),
              ::testing::ElementsAre("gpu2", "gpu3"));
}

// A rank that has two switches shares what is found for each of them: the first way into a box of a fabric of 2,048
// boxes costs a search from two switches, and any other none.
TEST(Routing, SharesSearchesAmongRanksWithTwoSwitches) {
  const Fabric fabric = generate_fabric("dgx-h100:2048");
  Routing routing(fabric);
  const size_t ranks = fabric.ranks().size();
  for (size_t i = 0; i < ranks; ++i) {
    const NodeId from = fabric.ranks()[i], neighbour = fabric.ranks()[i / 8 * 8 + (i + 1) % 8];
    const NodeId far = fabric.ranks()[(i + ranks / 2) % ranks];
    ASSERT_EQ(fabric.link(find(routing, from, neighbour).front()).bandwidth, Bandwidth::gigabytes_per_second(450));
    ASSERT_EQ(fabric.link(find(routing, from, far).front()).bandwidth, Bandwidth::gigabytes_per_second(50));
  }
  EXPECT_LE(routing.searches(), 2048u + 8u) << "for " << ranks << " ranks";
}

TEST(Routing, SpreadsOverEqualSwitchesOfARank) {
  const Fabric fabric = parse_fabric_text("a <-> s 1GB/s; a <-> t 1GB/s; b <-> s 1GB/s; b <-> t 1GB/s; c <-> a 1GB/s");
  Routing routing(fabric);
  std::set<std::vector<std::string>> ways;
  for (uint64_t salt = 0; salt < 20; ++salt) {
    ways.insert(names(fabric, find(routing, fabric.at("a"), fabric.at("b"), salt)));
  }
  EXPECT_THAT(ways, ::testing::ElementsAre(::testing::ElementsAre("s", "b"), ::testing::ElementsAre("t", "b")));
  EXPECT_THAT(names(fabric, find(routing, fabric.at("c"), fabric.at("a"))), ::testing::ElementsAre("a"));
}

TEST(Routing, SpreadsPairsOverEqualWaysAndKeepsToOneForEach) {
  const Fabric fabric = generate_fabric("fat-tree:k=8");
  Routing routing(fabric);
  const NodeId to = fabric.ranks().back();
  std::set<LinkId> ups;
  for (size_t i = 0; i < 64; ++i) {
    const std::vector<LinkId> way = find(routing, fabric.ranks()[i], to);
    EXPECT_EQ(way, find(routing, fabric.ranks()[i], to));
    ups.insert(way[2]);  // to the core
  }
  EXPECT_GT(ups.size(), 20u);
  std::set<std::vector<LinkId>> salted;
  for (uint64_t salt = 0; salt < 100; ++salt) salted.insert(find(routing, fabric.ranks()[0], to, salt));
  EXPECT_EQ(salted.size(), 16u);  // 4 switches above, times 4 cores each
}

}  // namespace
}  // namespace banyan::fabric
