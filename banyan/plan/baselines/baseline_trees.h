// The shapes of the baselines' trees, on places 0 .. count-1, without any fabric.
//
// All are out-trees, parents before children. An in-tree is one of them walked backwards: last edge first, from child
// to parent. For rings the in-tree is made of the chain against the ring, so that its data too travels along the ring.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace banyan::plan {

struct TreeEdge {
  uint32_t parent = 0, child = 0;
  uint32_t step = 0;  // edges of the same step between the same two places may travel as one message; 0: untied
  friend bool operator==(const TreeEdge&, const TreeEdge&) = default;
};
using TreeShape = std::vector<TreeEdge>;

// root, root + 1, ... around the ring of `count` places, or root, root - 1, ...
TreeShape chain(uint32_t count, uint32_t root, bool forward);

// Balanced: the places after the root are halved, the middle of each half is a child, and so on, so that neighbours
// stay in one subtree and few edges leave a box. Height floor(log2 count).
TreeShape binary_tree(uint32_t count, uint32_t root);

// Two trees, each for half the data, whose leaves are the other's inner nodes (Sanders, Speck, Träff, "Two-tree
// algorithms for full bandwidth broadcast, reduction and scan", 2009). The root feeds both. Over the p = count - 1
// places after the root, numbered 1 .. p, the first is the in-order tree whose leaves are the odd numbers; the second
// is its mirror image for even p, and the first shifted by one for odd p, where one place then is a leaf of both.
// Height at most 1 + floor(log2 p).
std::array<TreeShape, 2> double_binary_tree(uint32_t count, uint32_t root);

// The tree of the root's shard in recursive doubling: in step s (1, 2, ...) every place that has it sends it to the
// place whose number differs in bit s - 1. `count` is a power of two. Height log2 count.
TreeShape recursive_doubling_tree(uint32_t count, uint32_t root);

// The binomial tree of MPI libraries' broadcast, for any count: counted from the root, a place's parent is its number
// without the lowest one bit. Largest subtrees come first. Untied.
TreeShape binomial_tree(uint32_t count, uint32_t root);

// `boxes` are lists of places, each a ring. From the root along the ring of boxes, always entering the next box at the
// place of the same rank in its list (modulo its size), and from each entry along the ring of its box.
TreeShape hierarchical_chain(const std::vector<std::vector<uint32_t>>& boxes, uint32_t root, bool forward);

}  // namespace banyan::plan
