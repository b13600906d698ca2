#include "banyan/plan/forest/forest.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/forest/capacities.h"
#include "banyan/plan/forest/packing.h"
#include "banyan/plan/forest/rotation.h"
#include "banyan/plan/graph/network.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/random_fabric.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

constexpr CollectiveKind kAllKinds[] = {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                        CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::reduce};

// Plans, and holds the plan against the verifier and the bound, neither of which the planner has a hand in.
ForestPlan checked_plan(const Fabric& fabric, const Collective& collective, const ForestOptions& options = {}) {
  ForestPlan plan = plan_forest(fabric, collective, options);
  const schedule::Verdict verdict = verify(plan.schedule, plan.seconds_per_byte);
  EXPECT_TRUE(verdict.valid) << verdict.reason;
  EXPECT_TRUE(holds(plan.bound.witness, fabric, collective));
  return plan;
}

class OnFabric : public ::testing::TestWithParam<const char*> {};

TEST_P(OnFabric, EveryCollectiveReachesTheBound) {
  const Fabric fabric = fabric::generate_fabric(GetParam());
  for (const CollectiveKind kind : kAllKinds) {
    SCOPED_TRACE(to_string(kind));
    const ForestPlan plan = checked_plan(fabric, Collective::make(fabric, {.kind = kind}));
    EXPECT_TRUE(plan.optimal);
    if (kind == CollectiveKind::all_reduce) {
      EXPECT_LE(plan.seconds_per_byte, plan.bound.seconds_per_byte);
    } else {
      EXPECT_EQ(plan.seconds_per_byte, plan.bound.seconds_per_byte);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Vendors, OnFabric,
                         ::testing::Values("dgx-a100:1", "dgx-a100:2", "dgx-a100:4", "dgx-h100:1", "dgx-h100:2",
                                           "dgx-h100:8", "dgx1-v100:1", "dgx1-v100:2", "mi250:1", "mi250:2", "mi250:4",
                                           "dgx-b200:2", "gb200-nvl72:1", "gb200-nvl72:2", "mi300x:1", "mi300x:3"));
INSTANTIATE_TEST_SUITE_P(Direct, OnFabric,
                         ::testing::Values("ring:2", "ring:5", "full:6", "torus:3x3", "torus:4x3", "torus:4x4",
                                           "torus:8x8", "mesh:4x4", "hypercube:4", "circulant:16,3,4", "kautz:n=16,d=4",
                                           "torus:3x3x3"));
INSTANTIATE_TEST_SUITE_P(Switched, OnFabric,
                         ::testing::Values("star:8", "leaf-spine:leaves=4,hosts=4,spines=2", "fat-tree:k=4",
                                           "rail:boxes=4,gpus=4", "random:n=24,links=60,seed=7",
                                           "subways:racks=6,hosts=2,ports=2,spines=2",
                                           "subways:racks=4,hosts=2,ports=3,spines=1,uplink=10GB/s"));

TEST(Forest, ReachesTheBoundOnRandomFabricsOfEveryShape) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Fabric fabric = banyan::testing::random_fabric({.ranks = 2 + static_cast<uint32_t>(random() % 9),
                                                          .switches = static_cast<uint32_t>(random() % 4),
                                                          .extra_cables = static_cast<uint32_t>(random() % 14),
                                                          .max_gigabytes = 1 + static_cast<uint32_t>(random() % 12),
                                                          .directed = random() % 2 == 0,
                                                          .seed = seed});
    Collective::Options options{.kind = kAllKinds[random() % 5]};
    if (options.kind == CollectiveKind::all_gather || options.kind == CollectiveKind::reduce_scatter) {
      for (size_t i = 0; i < fabric.ranks().size(); ++i) options.weights.push_back(random() % 3 + (i == 0));
    }
    const ForestPlan plan = checked_plan(fabric, Collective::make(fabric, options));
    EXPECT_LE(plan.seconds_per_byte, plan.bound.seconds_per_byte);
    if (options.kind != CollectiveKind::all_reduce) {
      EXPECT_EQ(plan.seconds_per_byte, plan.bound.seconds_per_byte);
    }
  }
}

TEST(Forest, TreesOnDgxBoxesGoToOneEntryPerBoxAndItsNeighbours) {
  for (const char* spec : {"dgx-a100:8", "dgx-h100:8", "dgx-h100:16"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    EXPECT_LE(heights(checked_plan(fabric, Collective::make(fabric, {})).schedule).max, 3u) << spec;
  }
}

TEST(Forest, ToriAreAsLowAsTheirDiameter) {
  const Fabric fabric = fabric::generate_fabric("torus:8x8@1GB/s");
  EXPECT_EQ(heights(checked_plan(fabric, Collective::make(fabric, {})).schedule).max, 8u);
}

TEST(Forest, StaysOptimalAndLowWhenNicsFail) {
  std::string text;
  for (int gpu = 0; gpu < 32; ++gpu) {
    const std::string name = "gpu" + std::to_string(gpu);
    text += name + " <-> nvsw" + std::to_string(gpu / 8) + " 450 GB/s;";
    if (gpu != 3) text += name + " <-> sw 50 GB/s;";
  }
  const Fabric fabric = fabric::parse_fabric_text(text);
  const ForestPlan plan = checked_plan(fabric, Collective::make(fabric, {}));
  EXPECT_EQ(plan.seconds_per_byte, plan.bound.seconds_per_byte);
  EXPECT_LE(heights(plan.schedule).max, 4u);
}

TEST(Forest, WithFixedTreesStaysWithinTheGuaranteedDistance) {
  for (const char* spec : {"mi250:1", "mi250:2", "torus:4x4@1GB/s", "random:n=16,links=40,seed=3", "dgx1-v100:1"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    for (const uint64_t trees : {1u, 2u, 5u}) {
      SCOPED_TRACE(::testing::Message() << spec << " trees " << trees);
      const ForestPlan plan = checked_plan(fabric, Collective::make(fabric, {}), {.trees = trees});
      EXPECT_LE(plan.seconds_per_byte, plan.bound.seconds_per_byte + plan.guaranteed_excess);
      EXPECT_EQ(plan.schedule.total_units(), trees * fabric.ranks().size());
    }
  }
}

TEST(Forest, MoreTreesAreNeverSlower) {
  const Fabric fabric = fabric::generate_fabric("mi250:2");
  const Collective allgather = Collective::make(fabric, {});
  EXPECT_LE(plan_forest(fabric, allgather, {.trees = 4}).seconds_per_byte,
            plan_forest(fabric, allgather, {.trees = 1}).seconds_per_byte);
}

TEST(Forest, KeepsBelowTheHeightAskedFor) {
  const Fabric fabric = fabric::generate_fabric("dgx1-v100:1");
  const Collective allgather = Collective::make(fabric, {});
  for (const uint32_t height : {2u, 3u, 4u}) {
    const ForestPlan plan = checked_plan(fabric, allgather, {.max_height = height});
    EXPECT_LE(heights(plan.schedule).max, height);
  }
  EXPECT_THROW(plan_forest(fabric, allgather, {.max_height = 1}), Error);
}

TEST(Forest, TellsHowLowTreesCanBe) {
  for (const char* spec : {"dgx1-v100:2", "mi250:1", "torus:4x3", "kautz:n=16,d=2", "random:n=16,links=40,seed=3"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce, CollectiveKind::broadcast}) {
      SCOPED_TRACE(::testing::Message() << spec << " " << to_string(kind));
      const Collective collective = Collective::make(fabric, {.kind = kind});
      const uint32_t least = least_tree_height(fabric, collective);
      EXPECT_EQ(heights(checked_plan(fabric, collective, {.trees = 1, .max_height = least}).schedule).max, least);
      if (least > 1) {
        EXPECT_THROW(plan_forest(fabric, collective, {.max_height = least - 1}), Error);
      }
    }
  }
}

TEST(Forest, UnevenSwitchesAreTrimmed) {
  // The switch takes in 3 GB/s but can give out 2: one unit in is of no use and is trimmed.
  const Fabric trimmed = fabric::parse_fabric_text(
      "a -> sw 1GB/s; b -> sw 1GB/s; c -> sw 1GB/s; sw -> a 1GB/s; sw -> b 1GB/s; a <-> b 1GB/s; b <-> c 2GB/s");
  const ForestPlan plan = checked_plan(trimmed, Collective::make(trimmed, {}));
  EXPECT_EQ(plan.seconds_per_byte, plan.bound.seconds_per_byte);
}

// Bandwidths as measured: their digits have nothing in common, so exact shares need as many digits as all together.
TEST(Forest, AnyBandwidthsArePlannedForOrRoundedAtAStatedLoss) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const uint64_t ranks = 2 + random() % 6;
    const auto odd_bandwidth = [&] {
      uint64_t most = 1'000'000'000;
      for (uint64_t digits = random() % 7; digits > 0; --digits) most *= 10;
      return std::to_string((most / 10 + random() % (most - most / 10)) | 1) + "B/s";
    };
    std::string text;
    for (uint64_t i = 0; i < ranks; ++i)
      text += "r" + std::to_string(i) + " -> r" + std::to_string((i + 1) % ranks) + " " + odd_bandwidth() + ";";
    for (uint64_t i = 0; i < ranks; ++i) {
      const uint64_t a = random() % ranks, b = random() % ranks;
      if (a != b) text += "r" + std::to_string(a) + " <-> r" + std::to_string(b) + " " + odd_bandwidth() + ";";
      if (random() % 3 == 0) text += "r" + std::to_string(a) + " <-> sw " + odd_bandwidth() + ";";
    }
    const Fabric fabric = fabric::parse_fabric_text(text);
    for (const CollectiveKind kind : kAllKinds) {
      SCOPED_TRACE(to_string(kind));
      const ForestPlan plan = checked_plan(fabric, Collective::make(fabric, {.kind = kind}));
      EXPECT_TRUE(plan.optimal || plan.guaranteed_excess > Fraction(0));
      const double bound = plan.bound.seconds_per_byte.to_double();
      EXPECT_LE(plan.seconds_per_byte.to_double(), bound + plan.guaranteed_excess.to_double() + 1e-12 * bound);
      EXPECT_LE(plan.guaranteed_excess.to_double(), 1e-4 * bound);
    }
  }
}

TEST(Forest, AnAllreduceWhoseDirectionsHaveNoCommonUnitIsPlanned) {
  const Fabric fabric = fabric::parse_fabric_text(
      "b <-> a 568670492kb/s; b -> a 293788936kb/s; a <-> c 970976904kb/s; b <-> a 1000000007B/s");
  const ForestPlan plan = checked_plan(fabric, Collective::make(fabric, {.kind = CollectiveKind::all_reduce}));
  EXPECT_LE(plan.seconds_per_byte, plan.bound.seconds_per_byte);
}

TEST(Forest, IsTheSameEveryTime) {
  const Fabric fabric = fabric::generate_fabric("mi250:2");
  const Collective allgather = Collective::make(fabric, {});
  const ForestPlan a = plan_forest(fabric, allgather), b = plan_forest(fabric, allgather);
  ASSERT_EQ(a.schedule.chunk_count(), b.schedule.chunk_count());
  for (size_t i = 0; i < a.schedule.chunk_count(); ++i) {
    EXPECT_EQ(a.schedule.chunk(i).units, b.schedule.chunk(i).units);
    EXPECT_TRUE(std::ranges::equal(a.schedule.chunk(i).out_tree, b.schedule.chunk(i).out_tree));
  }
}

TEST(Forest, OverlapsAnAllreduceOnUnevenFabricsUpToItsBound) {
  for (const char* text :
       {"a <-> b 1GB/s; b <-> c 1GB/s; c <-> d 1GB/s", "a <-> sw 8GB/s; b <-> sw 1GB/s; c <-> sw 1GB/s; d <-> sw 1GB/s",
        "h <-> a 3GB/s; h <-> b 3GB/s; h <-> c 3GB/s; h <-> d 3GB/s; "
        "a <-> b 1GB/s; b <-> c 1GB/s; c <-> d 1GB/s; d <-> a 1GB/s"}) {
    const Fabric fabric = fabric::parse_fabric_text(text);
    const ForestPlan plan = checked_plan(fabric, Collective::make(fabric, {.kind = CollectiveKind::all_reduce}));
    EXPECT_EQ(plan.seconds_per_byte, plan.bound.seconds_per_byte) << text;
  }
  for (const char* spec : {"mesh:4x4", "mesh:8x8", "kautz:n=64,d=4", "random:n=64,links=150,seed=1"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    const ForestPlan plan = checked_plan(fabric, Collective::make(fabric, {.kind = CollectiveKind::all_reduce}));
    EXPECT_EQ(plan.seconds_per_byte, plan.bound.seconds_per_byte) << spec;
  }
}

TEST(Forest, OverlapsAnAllreduceOnBoxesWithFailedAndDegradedNics) {
  std::string text;
  for (int gpu = 0; gpu < 64; ++gpu) {
    const std::string name = "gpu" + std::to_string(gpu);
    text += name + " <-> nvsw" + std::to_string(gpu / 8) + (gpu == 17 ? " 200 GB/s;" : " 450 GB/s;");
    if (gpu != 3) text += name + " <-> sw " + (gpu == 10 ? "25" : "50") + " GB/s;";
  }
  const Fabric fabric = fabric::parse_fabric_text(text);
  const ForestPlan plan = checked_plan(fabric, Collective::make(fabric, {.kind = CollectiveKind::all_reduce}));
  EXPECT_EQ(plan.seconds_per_byte, plan.bound.seconds_per_byte);
  EXPECT_NEAR(1e-9 / plan.seconds_per_byte.to_double(), 220.3125, 1e-9);  // two phases: 126.98
  EXPECT_LE(heights(plan.schedule).max, 12u);
}

TEST(Packing, ByRotationServesEveryRankOfAnOrbitAlike) {
  const Fabric fabric = fabric::generate_fabric("dgx-h100:8");
  ASSERT_FALSE(fabric.symmetries().empty());
  const Collective allgather = Collective::make(fabric, {});
  const Network network(fabric, allgather, false);
  const CutWitness witness = std::get<CutWitness>(compute_bound(fabric, allgather).witness);
  const TreeCapacities capacities = optimal_capacities({network, fabric, allgather, witness});
  const auto source = pack_by_rotation(network, fabric, capacities.capacity, capacities.supply, 2);
  ASSERT_NE(source, nullptr);
  const Packing rotated = collect(*source);
  std::vector<int64_t> trees(network.terminal_count(), 0), used(network.arcs().size(), 0);
  for (const PackedTree& tree : rotated.trees) {
    EXPECT_EQ(tree.height, rotated.trees.front().height);
    trees[tree.root] += tree.units;
    for (const uint32_t id : tree.paths) {
      for (const uint32_t arc : rotated.paths.path(id)) used[arc] += tree.units;
    }
  }
  EXPECT_EQ(trees, capacities.supply);
  for (size_t a = 0; a < used.size(); ++a) EXPECT_LE(used[a], capacities.capacity[a]);
  // A supply that the group does not share cannot be rotated.
  std::vector<int64_t> uneven = capacities.supply;
  uneven[0] = 0;
  EXPECT_EQ(pack_by_rotation(network, fabric, capacities.capacity, uneven, 2), nullptr);
}

TEST(Packing, WithoutShortcutsStillFindsEveryTree) {
  // Tight everywhere: every capacity of a torus is used up, so the last trees have no choice.
  const Fabric fabric = fabric::generate_fabric("torus:4x4@1GB/s");
  const Collective allgather = Collective::make(fabric, {});
  const Network network(fabric, allgather, false);
  const std::vector<int64_t> capacity(network.arcs().size(), 15), supply(network.terminal_count(), 4);
  const auto packing = pack_trees(network, capacity, supply);
  ASSERT_TRUE(packing.has_value());
  std::vector<int64_t> used(capacity.size(), 0), trees(supply.size(), 0);
  for (const PackedTree& tree : packing->trees) {
    trees[tree.root] += tree.units;
    for (const uint32_t id : tree.paths) {
      for (const uint32_t arc : packing->paths.path(id)) used[arc] += tree.units;
    }
  }
  EXPECT_EQ(trees, supply);
  EXPECT_EQ(used, capacity);
}

}  // namespace
}  // namespace banyan::plan
