#include "banyan/plan/graph/network_symmetry.h"

#include "banyan/fabric/generate.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

TEST(NetworkSymmetry, OrbitsOfATorusAreItsAxesAndDirections) {
  const Fabric fabric = fabric::generate_fabric("torus:5x4");
  const Network network(fabric, Collective::make(fabric, {}), false);
  const auto symmetry = NetworkSymmetry::of(network, fabric);
  ASSERT_TRUE(symmetry.has_value());
  EXPECT_EQ(symmetry->order(), 20);
  EXPECT_EQ(symmetry->representatives(), (std::vector<uint32_t>{0}));
  ASSERT_EQ(symmetry->arc_orbit_weights().size(), 4u);
  for (const int64_t weight : symmetry->arc_orbit_weights()) EXPECT_EQ(weight, 1);
}

// Eight GPUs of each box share their NVSwitch; each of the 16 elements takes every arc to one of its orbit.
TEST(NetworkSymmetry, ArcsKeepTheirEndsAndBandwidths) {
  const Fabric fabric = fabric::generate_fabric("dgx-h100:2");
  const Network network(fabric, Collective::make(fabric, {}), false);
  const auto symmetry = NetworkSymmetry::of(network, fabric);
  ASSERT_TRUE(symmetry.has_value());
  EXPECT_EQ(symmetry->order(), 16);
  for (size_t g = 0; g < symmetry->generators(); ++g) {
    for (uint32_t a = 0; a < network.arcs().size(); ++a) {
      const uint32_t image = symmetry->arc(g, a);
      EXPECT_EQ(network.arcs()[image].tail, symmetry->vertex(g, network.arcs()[a].tail));
      EXPECT_EQ(network.arcs()[image].head, symmetry->vertex(g, network.arcs()[a].head));
      EXPECT_EQ(network.bandwidths()[image], network.bandwidths()[a]);
      EXPECT_EQ(symmetry->arc_orbit(image), symmetry->arc_orbit(a));
    }
  }
}

TEST(NetworkSymmetry, IsNoneWhereSomeRanksDoNotTakePart) {
  const Fabric fabric = fabric::generate_fabric("ring:6");
  const std::vector<NodeId> three(fabric.ranks().begin(), fabric.ranks().begin() + 3);
  const Network network(fabric, Collective::make(fabric, {.ranks = three}), false);
  EXPECT_FALSE(NetworkSymmetry::of(network, fabric).has_value());
  const NetworkSymmetry none(network);
  EXPECT_EQ(none.order(), 1);
  EXPECT_EQ(none.representatives().size(), 3u);
  EXPECT_EQ(none.arc_orbit_weights().size(), network.arcs().size());
}

}  // namespace
}  // namespace banyan::plan
