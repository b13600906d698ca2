#include "banyan/fabric/routing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"

namespace banyan {
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
}  // namespace banyan
