#include "banyan/plan/baselines/baseline_trees.h"

#include <bit>

#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

// Height of a shape that spans 0 .. count-1 from the root, parents before children; fails the test otherwise.
uint32_t height_of_spanning_tree(const TreeShape& shape, uint32_t count, uint32_t root) {
  std::vector<int> depth(count, -1);
  depth.at(root) = 0;
  for (const TreeEdge& edge : shape) {
    EXPECT_GE(depth.at(edge.parent), 0) << edge.parent << " sends before it has";
    EXPECT_EQ(depth.at(edge.child), -1) << edge.child << " is reached twice";
    depth.at(edge.child) = depth.at(edge.parent) + 1;
  }
  EXPECT_THAT(depth, ::testing::Each(::testing::Ge(0)));
  return static_cast<uint32_t>(*std::max_element(depth.begin(), depth.end()));
}

std::set<uint32_t> inner_nodes(const TreeShape& shape, uint32_t root) {
  std::set<uint32_t> inner;
  for (const TreeEdge& edge : shape) {
    if (edge.parent != root) inner.insert(edge.parent);
  }
  return inner;
}

uint32_t floor_log2(uint32_t value) { return static_cast<uint32_t>(std::bit_width(value)) - 1; }

TEST(BaselineTrees, AllSpanFromEveryRootAtTheirHeight) {
  for (uint32_t count = 2; count <= 33; ++count) {
    for (uint32_t root = 0; root < count; ++root) {
      SCOPED_TRACE(::testing::Message() << "count=" << count << " root=" << root);
      EXPECT_EQ(height_of_spanning_tree(chain(count, root, true), count, root), count - 1);
      EXPECT_EQ(height_of_spanning_tree(chain(count, root, false), count, root), count - 1);
      EXPECT_EQ(height_of_spanning_tree(binary_tree(count, root), count, root), floor_log2(count));
      EXPECT_LE(height_of_spanning_tree(binomial_tree(count, root), count, root), floor_log2(count));
      for (const TreeShape& shape : double_binary_tree(count, root)) {
        EXPECT_LE(height_of_spanning_tree(shape, count, root), 1 + floor_log2(count - 1));
      }
      if (std::has_single_bit(count)) {
        EXPECT_EQ(height_of_spanning_tree(recursive_doubling_tree(count, root), count, root), floor_log2(count));
      }
    }
  }
}

TEST(BaselineTrees, BinaryTreesHaveAtMostTwoChildren) {
  for (const uint32_t count : {2u, 7u, 8u, 30u}) {
    std::vector<TreeShape> shapes{binary_tree(count, 1)};
    for (TreeShape& shape : double_binary_tree(count, 1)) shapes.push_back(std::move(shape));
    for (const TreeShape& shape : shapes) {
      std::vector<int> children(count, 0);
      for (const TreeEdge& edge : shape) ++children[edge.parent];
      EXPECT_THAT(children, ::testing::Each(::testing::Le(2))) << "count=" << count;
    }
  }
}

TEST(BaselineTrees, LeavesOfOneOfTheDoubleTreesAreInnerNodesOfTheOther) {
  for (uint32_t count = 3; count <= 40; ++count) {
    const auto [first, second] = double_binary_tree(count, 2);
    const std::set<uint32_t> inner_of_first = inner_nodes(first, 2), inner_of_second = inner_nodes(second, 2);
    std::vector<uint32_t> inner_of_both;
    std::set_intersection(inner_of_first.begin(), inner_of_first.end(), inner_of_second.begin(), inner_of_second.end(),
                          std::back_inserter(inner_of_both));
    EXPECT_THAT(inner_of_both, ::testing::IsEmpty()) << "count=" << count;
    // With an odd number of places below the root one of them is a leaf of both.
    EXPECT_EQ(inner_of_first.size() + inner_of_second.size(), (count - 1) / 2 * 2) << "count=" << count;
  }
}

TEST(BaselineTrees, RecursiveDoublingExchangesWithOnePartnerPerStep) {
  std::vector<std::set<uint32_t>> partners(4 * 8);
  for (uint32_t root = 0; root < 8; ++root) {
    for (const TreeEdge& edge : recursive_doubling_tree(8, root))
      partners[edge.step * 8 + edge.parent].insert(edge.child);
  }
  for (uint32_t rank = 0; rank < 8; ++rank) {
    EXPECT_THAT(partners[1 * 8 + rank], ::testing::ElementsAre(rank ^ 1));
    EXPECT_THAT(partners[2 * 8 + rank], ::testing::ElementsAre(rank ^ 2));
    EXPECT_THAT(partners[3 * 8 + rank], ::testing::ElementsAre(rank ^ 4));
  }
}

TEST(BaselineTrees, HierarchicalChainEntersEachBoxOnceInItsLane) {
  const std::vector<std::vector<uint32_t>> boxes{{0, 1, 2}, {3, 4}, {5, 6, 7}};
  const TreeShape shape = hierarchical_chain(boxes, 2, true);
  EXPECT_EQ(height_of_spanning_tree(shape, 8, 2), 4u);
  EXPECT_EQ(shape[0], (TreeEdge{.parent = 2, .child = 3}));  // lane 2 of two is lane 0
  EXPECT_EQ(shape[1], (TreeEdge{.parent = 3, .child = 7}));  // and back to lane 2
  EXPECT_EQ(shape[2], (TreeEdge{.parent = 2, .child = 0}));
}

}  // namespace
}  // namespace banyan::plan
