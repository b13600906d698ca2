#include "banyan/plan/forest/tree_source.h"

#include "banyan/fabric/generate.h"
#include "banyan/plan/forest/capacities.h"
#include "banyan/plan/forest/rotation.h"
#include "banyan/plan/forest/shortest_paths.h"
#include "banyan/plan/forest/symmetry.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

// An allgather on a fabric, with all that a packing of it needs.
struct Allgather {
  Fabric fabric;
  Collective collective = Collective::make(fabric, {});
  Network network{fabric, collective, false};
  TreeCapacities problem = optimal_capacities(
      {network, fabric, collective, std::get<CutWitness>(compute_bound(fabric, collective).witness)});
};

Allgather generated(const char* spec) { return {.fabric = fabric::generate_fabric(spec)}; }

// Every tree spans, leads from parents to children and is as high as it says; all together stay within the capacities
// and give every root what it owes; the sizes that were announced are right, and no path is there twice.
void expect_trees(TreeSource& source, const Allgather& allgather) {
  const Network& network = allgather.network;
  const TreeSource::Sizes sizes = source.sizes();
  const uint32_t height = source.height();
  const Packing packing = collect(source);
  EXPECT_EQ(packing.paths.size(), sizes.paths);
  EXPECT_EQ(packing.paths.arcs(), sizes.path_arcs);
  EXPECT_EQ(packing.trees.size(), sizes.trees);
  std::set<std::vector<uint32_t>> distinct;
  for (uint32_t id = 0; id < packing.paths.size(); ++id) {
    const auto path = packing.paths.path(id);
    EXPECT_TRUE(distinct.emplace(path.begin(), path.end()).second) << "path " << id << " is there twice";
  }
  std::vector<int64_t> used(network.arcs().size(), 0), owed(allgather.problem.supply);
  std::vector<uint8_t> path_used(packing.paths.size(), 0);
  size_t edges = 0;
  uint32_t highest = 0;
  for (const PackedTree& tree : packing.trees) {
    std::vector<int> depth(network.vertex_count(), -1);
    depth[tree.root] = 0;
    owed[tree.root] -= tree.units;
    edges += tree.paths.size();
    ASSERT_EQ(tree.paths.size() + 1, network.terminal_count());
    int deepest = 0;
    for (const uint32_t id : tree.paths) {
      path_used[id] = 1;
      const auto path = packing.paths.path(id);
      const uint32_t from = network.arcs()[path.front()].tail, to = network.arcs()[path.back()].head;
      ASSERT_GE(depth[from], 0);
      ASSERT_LT(depth[to], 0);
      depth[to] = depth[from] + 1;
      deepest = std::max(deepest, depth[to]);
      for (size_t i = 0; i < path.size(); ++i) {
        used[path[i]] += tree.units;
        if (i == 0) continue;
        ASSERT_EQ(network.arcs()[path[i - 1]].head, network.arcs()[path[i]].tail);
      }
    }
    EXPECT_EQ(static_cast<uint32_t>(deepest), tree.height);
    highest = std::max(highest, tree.height);
  }
  EXPECT_EQ(edges, sizes.edges);
  EXPECT_EQ(highest, height);
  EXPECT_EQ(owed, std::vector<int64_t>(owed.size(), 0));
  EXPECT_EQ(path_used, std::vector<uint8_t>(path_used.size(), 1)) << "a path that no tree takes";
  for (size_t a = 0; a < used.size(); ++a) EXPECT_LE(used[a], allgather.problem.capacity[a]);
}

TEST(RotatedTrees, ImagesAreTreesWithinTheCapacities) {
  for (const char* spec : {"dgx-h100:4", "dgx-a100:3", "fat-tree:k=4", "leaf-spine:leaves=4,hosts=4,spines=2",
                           "rail:boxes=4,gpus=4", "star:7", "dragonfly:groups=9,routers=4,hosts=2"}) {
    SCOPED_TRACE(spec);
    const Allgather allgather = generated(spec);
    const auto trees =
        pack_by_rotation(allgather.network, allgather.fabric, allgather.problem.capacity, allgather.problem.supply);
    ASSERT_NE(trees, nullptr);
    expect_trees(*trees, allgather);
  }
}

TEST(RotatedTrees, EnterALeafOnceWherePathsToEverybodyWouldBeTooMany) {
  const Allgather allgather = generated("fat-tree:k=8");
  const auto pack = [&](size_t many_path_bytes) {
    return pack_by_rotation(allgather.network, allgather.fabric, allgather.problem.capacity, allgather.problem.supply,
                            {}, many_path_bytes);
  };
  const auto straight = pack(kManyPathBytes), lean = pack(0);
  EXPECT_EQ(straight->height(), 1u);
  EXPECT_EQ(straight->sizes().paths, 128u * 127u);
  EXPECT_EQ(lean->height(), 2u);
  // From every rank to one of each of 31 other leaves, and to the three others of its own.
  EXPECT_EQ(lean->sizes().paths, 128u * (31u + 3u));
  expect_trees(*lean, allgather);
}

TEST(RotatedTrees, StayUnderAHeightHoweverManyPathsThatTakes) {
  const Allgather allgather = generated("fat-tree:k=4");
  const auto trees =
      pack_by_rotation(allgather.network, allgather.fabric, allgather.problem.capacity, allgather.problem.supply, 1, 0);
  ASSERT_NE(trees, nullptr);
  EXPECT_EQ(trees->height(), 1u);
}

TEST(ShortestPathTrees, AreTreesWithinTheCapacities) {
  for (const char* spec : {"torus:4x4", "torus:3x5", "torus:3x3x3", "hypercube:5", "full:6", "ring:7",
                           "circulant:16,3,4", "kautz:n=16,d=4"}) {
    SCOPED_TRACE(spec);
    const Allgather allgather = generated(spec);
    const auto trees =
        pack_along_shortest_paths(allgather.network, allgather.problem.capacity, allgather.problem.supply);
    ASSERT_NE(trees, nullptr);
    expect_trees(*trees, allgather);
  }
}

TEST(ShortestPathTrees, AreNotThereWithSwitchesOrWhereReceiversCannotBeBalanced) {
  for (const char* spec : {"star:4", "dgx1-v100:1"}) {
    SCOPED_TRACE(spec);
    const Allgather allgather = generated(spec);
    EXPECT_EQ(pack_along_shortest_paths(allgather.network, allgather.problem.capacity, allgather.problem.supply),
              nullptr);
  }
}

// More columns than are read at a time.
TEST(ShortestPathTrees, ReachEverybodyOnLargerTori) {
  const Allgather allgather = generated("torus:6x13");
  const auto trees = pack_along_shortest_paths(allgather.network, allgather.problem.capacity, allgather.problem.supply);
  ASSERT_NE(trees, nullptr);
  EXPECT_EQ(trees->height(), 9u);
  expect_trees(*trees, allgather);
}

TEST(Symmetry, WalksEveryElementOnceAndTakesPathsHome) {
  for (const char* spec : {"dgx-h100:4", "fat-tree:k=4", "torus:3x4", "hypercube:4", "ring:9"}) {
    SCOPED_TRACE(spec);
    const Allgather allgather = generated(spec);
    const Network& network = allgather.network;
    const auto symmetry = Symmetry::of(network, allgather.fabric, allgather.problem.capacity, allgather.problem.supply);
    ASSERT_TRUE(symmetry.has_value());
    const uint32_t terminals = network.terminal_count();
    EXPECT_EQ(symmetry->order() * symmetry->representatives().size(), terminals);
    std::vector<uint32_t> points;
    for (uint32_t t = 0; t < terminals; ++t) points.push_back(symmetry->point_of_vertex(t));
    for (uint32_t a = 0; a < network.arcs().size(); ++a) points.push_back(symmetry->point_of_arc(a));
    std::set<uint32_t> images_of_first;
    symmetry->walk(points, [&](Symmetry::Points images) {
      images_of_first.insert(images[0]);
      for (uint32_t a = 0; a < network.arcs().size(); ++a) {
        // An automorphism: arcs go where their ends go.
        const uint32_t image = symmetry->arc_of_point(images[terminals + a]);
        const Arc &before = network.arcs()[a], &after = network.arcs()[image];
        EXPECT_EQ(network.bandwidths()[a], network.bandwidths()[image]);
        if (network.is_terminal(before.tail)) {
          EXPECT_EQ(after.tail, images[before.tail]);
        }
        if (network.is_terminal(before.head)) {
          EXPECT_EQ(after.head, images[before.head]);
        }
      }
    });
    EXPECT_EQ(images_of_first.size(), symmetry->order());
    // An arc out of a terminal comes home to one out of the representative.
    for (uint32_t a = 0; a < network.arcs().size(); ++a) {
      const uint32_t tail = network.arcs()[a].tail;
      if (!network.is_terminal(tail)) continue;
      std::vector<uint32_t> arcs{a};
      symmetry->bring_home(tail, arcs);
      const auto all = symmetry->representatives();
      EXPECT_NE(std::ranges::find(all, network.arcs()[arcs[0]].tail), all.end());
      EXPECT_EQ(symmetry->classes().of[a], symmetry->classes().of[arcs[0]]);
    }
  }
}

TEST(PathTable, InternsPathsBesideAppendedOnes) {
  PathTable table;
  EXPECT_EQ(table.append(std::vector<uint32_t>{1, 2}), 0u);
  EXPECT_EQ(table.intern(std::vector<uint32_t>{3}), 1u);
  EXPECT_EQ(table.intern(std::vector<uint32_t>{1, 2}), 0u);
  EXPECT_EQ(table.append(std::vector<uint32_t>{4}), 2u);
  EXPECT_EQ(table.intern(std::vector<uint32_t>{4}), 2u);
  EXPECT_EQ(table.find(std::vector<uint32_t>{3}), std::optional(1u));
  EXPECT_EQ(table.find(std::vector<uint32_t>{5}), std::nullopt);
  EXPECT_EQ(table.arcs(), 4u);
}

}  // namespace
}  // namespace banyan::plan
