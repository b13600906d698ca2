#include "banyan/predict/simulation/placement.h"

#include "banyan/fabric/generate.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

std::vector<std::string> names(const Fabric& fabric, const std::vector<NodeId>& nodes) {
  std::vector<std::string> names;
  for (const NodeId node : nodes) names.push_back(fabric.name(node));
  return names;
}

TEST(Placement, FillsBoxesOrGoesRoundThem) {
  const Fabric fabric = fabric::generate_fabric("dgx-a100:2");
  Placement placement(fabric);
  EXPECT_THAT(names(fabric, placement.take(3, PlacementRule::round_robin, 0)),
              ::testing::ElementsAre("gpu0", "gpu8", "gpu1"));
  EXPECT_THAT(names(fabric, placement.take(7, PlacementRule::packed, 0)),
              ::testing::ElementsAre("gpu2", "gpu3", "gpu4", "gpu5", "gpu6", "gpu7", "gpu9"));
  EXPECT_EQ(placement.free(), 6u);
}

TEST(Placement, DrawsTheSameForTheSameSeed) {
  const Fabric fabric = fabric::generate_fabric("dgx-a100:4");
  const auto draw = [&](uint64_t seed) { return Placement(fabric).take(16, PlacementRule::random, seed); };
  EXPECT_EQ(draw(3), draw(3));
  EXPECT_NE(draw(3), draw(4));
  const std::vector<NodeId> drawn = draw(5);
  EXPECT_EQ(std::set<NodeId>(drawn.begin(), drawn.end()).size(), 16u);
}

TEST(Placement, GivesNoRankTwice) {
  const Fabric fabric = fabric::generate_fabric("star:4");
  Placement placement(fabric);
  placement.take({fabric.at("gpu1")});
  EXPECT_THAT(names(fabric, placement.take(2, PlacementRule::packed, 0)), ::testing::ElementsAre("gpu0", "gpu2"));
  EXPECT_THROW(placement.take({fabric.at("gpu1")}), Error);
  EXPECT_THROW(placement.take(2, PlacementRule::packed, 0), Error);
  EXPECT_THROW(parse_placement_rule("anywhere"), Error);
}

}  // namespace
}  // namespace banyan::predict
