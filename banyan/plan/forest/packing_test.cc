#include "banyan/plan/forest/packing.h"

#include "banyan/fabric/text.h"
#include "banyan/plan/forest/capacities.h"
#include "banyan/testing/random_fabric.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

// A Clos of two tiers: hosts on leaves, leaves on spines, uplinks narrower than what they carry, some of them missing.
Fabric random_clos(uint64_t seed) {
  std::mt19937_64 random(seed);
  const uint64_t leaves = 2 + random() % 3, hosts = 1 + random() % 3, spines = 1 + random() % 3;
  std::string text;
  for (uint64_t leaf = 0; leaf < leaves; ++leaf) {
    const std::string name = "leaf" + std::to_string(leaf);
    for (uint64_t host = 0; host < hosts + random() % 2; ++host)
      text += name + "h" + std::to_string(host) + " <-> " + name + " " + std::to_string(2 + random() % 3) + "GB/s;";
    text += name + " <-> spine0 " + std::to_string(1 + random() % 3) + "GB/s;";
    for (uint64_t spine = 1; spine < spines; ++spine) {
      if (random() % 4 != 0) text += name + " <-> spine" + std::to_string(spine) + " 1GB/s;";
    }
    if (random() % 4 == 0) text += name + "h0 <-> spine0 1GB/s;";  // a host on two tiers
  }
  return fabric::parse_fabric_text(text);
}

// Boxes of 8 GPUs on an NVSwitch. GPU g of each box of a pod has its NIC on rail g of the pod, and the spines join all
// rails; the uplinks of a rail carry a `narrower`-th of its NICs. Without a declared symmetry.
struct RailPods {
  uint64_t boxes = 32, pods = 4, spines = 4, narrower = 2;
  uint64_t failed_percent = 0, seed = 0;  // NICs that are not there

  Fabric make() const {
    constexpr uint64_t kGpus = 8, kNic = 50'000;
    std::mt19937_64 random(seed);
    std::string text;
    for (uint64_t gpu = 0; gpu < boxes * kGpus; ++gpu) {
      const std::string name = "gpu" + std::to_string(gpu), pod = std::to_string(gpu / kGpus * pods / boxes);
      text += name + " <-> nvsw" + std::to_string(gpu / kGpus) + " 450GB/s;";
      const bool failed = random() % 100 < failed_percent;
      if (!failed) text += name + " <-> sw" + pod + "r" + std::to_string(gpu % kGpus) + " 50GB/s;";
    }
    const std::string uplink = std::to_string(kNic * boxes / pods / spines / narrower) + "MB/s;";
    for (uint64_t rail = 0; rail < pods * kGpus; ++rail) {
      for (uint64_t spine = 0; spine < spines; ++spine)
        text += "sw" + std::to_string(rail / kGpus) + "r" + std::to_string(rail % kGpus) + " <-> swspine" +
                std::to_string(spine) + " " + uplink;
    }
    return fabric::parse_fabric_text(text);
  }
};

void expect_packing(const Packing& packing, const Network& network, const TreeCapacities& problem) {
  std::vector<int64_t> used(problem.capacity.size(), 0), trees(problem.supply.size(), 0);
  for (const PackedTree& tree : packing.trees) {
    std::vector<uint8_t> reached(network.terminal_count(), 0);
    reached[tree.root] = 1;
    trees[tree.root] += tree.units;
    for (const uint32_t id : tree.paths) {
      const std::span path = packing.paths.path(id);
      uint32_t at = network.arcs()[path.front()].tail;
      EXPECT_TRUE(network.is_terminal(at) && reached[at]);
      for (const uint32_t a : path) {
        EXPECT_EQ(network.arcs()[a].tail, at);
        at = network.arcs()[a].head;
        used[a] += tree.units;
      }
      ASSERT_TRUE(network.is_terminal(at));
      EXPECT_FALSE(reached[at]);
      reached[at] = 1;
    }
    EXPECT_EQ(tree.paths.size() + 1, network.terminal_count());
  }
  EXPECT_EQ(trees, problem.supply);
  for (size_t a = 0; a < used.size(); ++a) EXPECT_LE(used[a], problem.capacity[a]);
}

void expect_sure_packing(const Fabric& fabric, const Collective& collective) {
  const Network network(fabric, collective, false);
  const CutWitness witness = std::get<CutWitness>(compute_bound(fabric, collective).witness);
  const TreeCapacities problem = optimal_capacities({network, fabric, collective, witness});
  const auto packing = pack_trees(network, problem.capacity, problem.supply, {.lower = false, .guess = false});
  ASSERT_TRUE(packing.has_value());
  EXPECT_EQ(packing->growths, 0u);
  expect_packing(*packing, network, problem);
}

TEST(Packing, WithoutAnyGuessFindsEveryTreeOfRandomClosNetworks) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Fabric fabric = random_clos(seed);
    expect_sure_packing(fabric, Collective::make(fabric, {}));
  }
}

TEST(Packing, WithoutAnyGuessFindsEveryTreeOfRandomSwitchFabrics) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Fabric fabric = testing::random_fabric({.ranks = 2 + static_cast<uint32_t>(random() % 6),
                                                  .switches = 1 + static_cast<uint32_t>(random() % 5),
                                                  .extra_cables = static_cast<uint32_t>(random() % 12),
                                                  .max_gigabytes = 1 + static_cast<uint32_t>(random() % 8),
                                                  .directed = random() % 2 == 0,
                                                  .seed = seed});
    Collective::Options options;
    for (size_t i = 0; i < fabric.ranks().size(); ++i) options.weights.push_back(random() % 3 + (i == 0));
    expect_sure_packing(fabric, Collective::make(fabric, options));
  }
}

// One tree that is grown surely takes as long here as all guesses together should.
TEST(Packing, RailsWithNarrowSpinesOrFailedNicsArePackedByGuesses) {
  const RailPods cases[] = {{.narrower = 1},
                            {.narrower = 2},
                            {.narrower = 4},
                            {.boxes = 64, .spines = 8, .narrower = 2},
                            {.failed_percent = 2, .seed = 1},
                            {.boxes = 64, .failed_percent = 1, .seed = 2}};
  for (const RailPods& rails : cases) {
    SCOPED_TRACE(::testing::Message() << rails.boxes << " boxes, uplinks 1:" << rails.narrower << ", seed "
                                      << rails.seed);
    const Fabric fabric = rails.make();
    ASSERT_TRUE(fabric.symmetries().empty());
    const Collective allgather = Collective::make(fabric, {});
    const Network network(fabric, allgather, false);
    const TreeCapacities problem = optimal_capacities(
        {network, fabric, allgather, std::get<CutWitness>(compute_bound(fabric, allgather).witness)});
    const auto packing = pack_trees(network, problem.capacity, problem.supply, {.lower = false});
    ASSERT_TRUE(packing.has_value());
    expect_packing(*packing, network, problem);
    EXPECT_EQ(packing->sure_trees, 0u);
    EXPECT_LT(packing->checks, 2 * packing->trees.size());
    EXPECT_LT(packing->growths, 4 * packing->trees.size());
  }
}

}  // namespace
}  // namespace banyan::plan
