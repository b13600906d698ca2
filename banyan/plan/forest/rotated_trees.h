// The images of a few trees under a symmetry, made one element of the group after the other.
//
// A path that leaves terminal u is the image of one that leaves the representative of u's orbit, by the element that
// takes the representative to u. So every path of every image is known by two numbers: which path out of a
// representative it is the image of, and by which element. With P such paths and elements in the order of
// Symmetry::walk, path p's image by element e has number e * P + p: paths need no index, and an edge of an image costs
// one look into the images of terminals. 16,384 ranks of DGX boxes have 268 million edges and 34 million paths.
//
// Memory: what the few trees need, a number per terminal and those of Symmetry.
#pragma once

#include <memory>
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
  void number_elements(uint32_t terminals);

  struct Edge {
    uint32_t tail = 0;  // into tails_
    uint32_t path = 0;  // into home_
  };
  struct GrownTree {
    uint32_t root = 0;  // into tails_
    int64_t units = 0;
    uint32_t height = 0;
    std::vector<Edge> edges;
  };

  Symmetry symmetry_;
  PathTable home_;               // paths out of representatives
  std::vector<uint32_t> tails_;  // roots and terminals that edges leave, as points
  std::vector<GrownTree> trees_;
  uint32_t height_ = 0;
  std::vector<uint32_t> element_of_;  // by terminal: which element of the walk takes its representative to it
};

}  // namespace banyan::plan
