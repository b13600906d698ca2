#include "banyan/plan/forest/tree_source.h"

#include <algorithm>
#include <utility>

namespace banyan::plan {
namespace {

class PackedTrees : public TreeSource {
 public:
  explicit PackedTrees(Packing packing) : packing_(std::move(packing)) {}

  Sizes sizes() const override {
    Sizes sizes{.paths = packing_.paths.size(), .path_arcs = packing_.paths.arcs(), .trees = packing_.trees.size()};
    for (const PackedTree& tree : packing_.trees) sizes.edges += tree.paths.size();
    return sizes;
  }

  uint32_t height() const override {
    uint32_t height = 0;
    for (const PackedTree& tree : packing_.trees) height = std::max(height, tree.height);
    return height;
  }

  void visit_paths(const std::function<void(Path)>& visit) const override {
    for (uint32_t id = 0; id < packing_.paths.size(); ++id) visit(packing_.paths.path(id));
  }

  void visit_trees(const std::function<void(const Tree&)>& visit) override {
    for (PackedTree& tree : packing_.trees) {
      visit({.root = tree.root, .units = tree.units, .height = tree.height, .paths = tree.paths});
      // Each tree's memory goes when it has been handed over.
      tree.paths = {};
    }
  }

 private:
  Packing packing_;
};

}  // namespace

std::unique_ptr<TreeSource> hand_over(Packing packing) { return std::make_unique<PackedTrees>(std::move(packing)); }

Packing collect(TreeSource& source) {
  Packing packing;
  // Paths come in the order of their numbers, so trees may keep the numbers.
  source.visit_paths([&](TreeSource::Path path) { packing.paths.append(path); });
  packing.trees.reserve(source.sizes().trees);
  source.visit_trees([&](const TreeSource::Tree& tree) {
    packing.trees.push_back({.root = tree.root,
                             .units = tree.units,
                             .height = tree.height,
                             .paths = {tree.paths.begin(), tree.paths.end()}});
  });
  std::ranges::stable_sort(packing.trees, {}, &PackedTree::root);
  return packing;
}

}  // namespace banyan::plan
