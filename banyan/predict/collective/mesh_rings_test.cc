#include "banyan/plan/baselines/mesh_rings.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/predict/collective/footprint.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

using Rings = std::vector<std::vector<NodeId>>;

Rings rings_of(const Fabric& fabric) { return plan::MeshRings().find(fabric, fabric.ranks()); }

// Bytes per second that an allreduce of all ranks moves at each of them, as nccl-tests count it.
double bus_bandwidth(const Fabric& fabric) {
  const uint64_t bytes = uint64_t{1} << 30;
  const CollectiveCall call{.kind = CollectiveKind::all_reduce, .members = fabric.ranks(), .bytes = bytes};
  double seconds = 0;
  for (const FluidHop& hop : make_ring_plans(fabric, {})->footprint(call).hops) {
    const auto width = static_cast<double>(fabric.links()[hop.link].bandwidth.bytes_per_second());
    seconds = std::max(seconds, hop.coefficient / width);
  }
  const double n = static_cast<double>(fabric.ranks().size());
  return 2 * (n - 1) / n * static_cast<double>(bytes) / seconds;
}

TEST(MeshRings, UseEveryLinkOfTheHybridCubeMesh) {
  // Six NVLinks of 25 GB/s a GPU, two of them doubled: three rings, each in both directions. Measured with NCCL are 134
  // of the 150 GB/s.
  const Fabric fabric = fabric::generate_fabric("dgx1-v100:1");
  const Rings rings = rings_of(fabric);
  ASSERT_EQ(rings.size(), 6u);
  std::map<std::pair<NodeId, NodeId>, double> used;
  for (const std::vector<NodeId>& ring : rings) {
    ASSERT_EQ(ring.size(), 8u);
    for (size_t i = 0; i < 8; ++i) used[{ring[i], ring[(i + 1) % 8]}] += 25e9;
  }
  for (const Link& link : fabric.links()) {
    if (!fabric.is_rank(link.from) || !fabric.is_rank(link.to)) continue;
    const double rate = used[{link.from, link.to}];
    EXPECT_EQ(rate, static_cast<double>(link.bandwidth.bytes_per_second()));
  }
  EXPECT_NEAR(bus_bandwidth(fabric), 150e9, 1e6);
}

TEST(MeshRings, TakeBothDirectionsOfARingAndFourOfATorus) {
  EXPECT_EQ(rings_of(fabric::generate_fabric("ring:5")).size(), 2u);
  EXPECT_EQ(rings_of(fabric::generate_fabric("torus:4x4")).size(), 4u);
  EXPECT_EQ(rings_of(fabric::parse_fabric_text("a -> b 1GB/s; b -> c 1GB/s; c -> a 1GB/s")).size(), 1u);
  EXPECT_EQ(rings_of(fabric::generate_fabric("full:6")).size(), 4u) << "the pairs that are left over are no ring";
}

TEST(MeshRings, AreNotThereWithoutDirectLinks) {
  EXPECT_TRUE(rings_of(fabric::generate_fabric("dgx-a100:1")).empty());
  EXPECT_TRUE(rings_of(fabric::parse_fabric_text("a <-> b 1GB/s; b <-> c 1GB/s")).empty()) << "a chain";
}

}  // namespace
}  // namespace banyan::predict
