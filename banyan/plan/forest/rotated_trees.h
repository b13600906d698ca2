// The images of a few trees under a symmetry, made one element of the group after the other.
//
// A path that leaves terminal u is the image of one that leaves the representative of u's orbit, by the element that
// takes the representative to u. So every path of every image is known by two numbers: which path out of a
// representative it is the image of, and by which element. With P such paths and elements in the order of
// Symmetry::walk, path p's image by element e has number e * P + p: paths need no index, and an edge of an image costs
// one look into the images of terminals. A path that leaves a switch is told by the participant that it leads to, or by
// the root of its tree, instead: several elements may keep a switch in place. 16,384 ranks of DGX boxes have 268
// million edges and 34 million paths.
//
// Paths that a tree takes from many places, as inside a box, come first and are numbered apart from those that it takes
// once: whoever walks along a tree finds them close together, in 2 MB instead of 400.
//
// Memory: what the few trees need, a number per participant and those of Symmetry.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "banyan/plan/forest/packing.h"
#include "banyan/plan/forest/symmetry.h"
#include "banyan/plan/forest/tree_source.h"

namespace banyan::plan {

class RotatedTrees : public TreeSource {
 public:
  // The trees in `grown` and their images. Nothing where numbers of paths would need more than 32 bits. The network
  // need not outlive the trees.
  static std::unique_ptr<RotatedTrees> make(const Network& network, Symmetry symmetry, const Packing& grown);

  Sizes sizes() const override;
  uint32_t height() const override { return height_; }
  void visit_paths(const std::function<void(Path)>& visit) const override;
  void visit_trees(const std::function<void(const Tree&)>& visit) override;

 private:
  explicit RotatedTrees(Symmetry symmetry) : symmetry_(std::move(symmetry)) {}
  void part_paths(const PathTable& homes, std::span<const uint32_t> uses);
  void number_elements(uint32_t participants);

  // Paths out of representatives whose images are numbered together, by one element after the other.
  struct Group {
    PathTable home;
    uint32_t first = 0;  // number of the first path by the identity
  };
  static constexpr uint32_t kGroups = 2;
  void visit_paths(const PathTable& home, const std::function<void(Path)>& visit) const;

  struct Edge {
    uint32_t tail = 0;  // kGroups times its place in tails_, plus the group of the path
    uint32_t path = 0;  // into the group's home
  };
  struct GrownTree {
    uint32_t root = 0;  // into tails_
    int64_t units = 0;
    uint32_t height = 0;
    std::vector<Edge> edges;
  };

  Symmetry symmetry_;
  std::array<Group, kGroups> groups_;
  std::vector<uint32_t> tails_;  // roots and participants that tell paths, as points
  std::vector<GrownTree> trees_;
  uint32_t height_ = 0;
  std::vector<uint32_t> element_of_;  // by participant: which element of the walk takes its representative to it
};

}  // namespace banyan::plan
