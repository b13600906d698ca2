#include "banyan/plan/baselines/baselines.h"

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/plan/baselines/baseline_order.h"
#include "banyan/plan/baselines/baseline_trees.h"
#include "banyan/plan/baselines/library_rings.h"

namespace banyan::plan {
namespace {

constexpr std::array<std::string_view, 7> kNames = {
    "ring",      "bidirectional-ring", "binary-tree", "double-binary-tree", "recursive-doubling", "hierarchical-ring",
    "nccl-rings"};
// 1 GiB of tree edges: 16,384 ranks that all root a tree.
constexpr uint64_t kMaxEdges = uint64_t{1} << 28;

Error unsupported(const std::string& message) { return Error(ErrorCode::unsupported, message); }

// The trees of one root, on participants' numbers; each carries an equal part. Out-trees that are walked backwards for
// gathering.
struct RootTrees {
  std::vector<TreeShape> gathering, spreading;
};

class BaselinePlanner {
 public:
  BaselinePlanner(Baseline baseline, const Fabric& fabric, const Collective& collective)
      : baseline_(baseline),
        fabric_(fabric),
        collective_(collective),
        count_(static_cast<uint32_t>(collective.participants().size())),
        routes_(fabric),
        builder_(fabric, collective) {}

  Schedule plan() && {
    if (baseline_ == Baseline::nccl_rings) find_library_rings();
    check_size();
    prepare();
    for (uint32_t root = 0; root < count_; ++root) {
      if (collective_.weights()[root] > 0) add_chunks(root);
    }
    return std::move(builder_).build();
  }

 private:
  void check_size() const;
  void prepare();
  void prepare_ring();
  void prepare_boxes();
  void find_library_rings();
  std::vector<TreeShape> shapes(uint32_t root, bool forward) const;
  std::vector<TreeShape> library_chains(uint32_t root, bool forward) const;
  std::vector<TreeShape> placed(std::vector<TreeShape> shapes) const;
  void add_chunks(uint32_t root);
  RouteId route(uint32_t from, uint32_t to);

  Baseline baseline_;
  const Fabric& fabric_;
  const Collective& collective_;
  uint32_t count_;
  fabric::Routing routes_;
  Schedule::Builder builder_;
  std::vector<uint32_t> order_;     // participants' numbers; trees are shaped on places in it
  std::vector<uint32_t> place_of_;  // the inverse
  bool order_is_path_ = false;      // from the root, not to be closed
  std::vector<std::vector<uint32_t>> boxes_;
  std::vector<std::vector<uint32_t>> rings_;  // of library_rings: participants' numbers
  std::unordered_map<uint64_t, RouteId> route_ids_;
};

void BaselinePlanner::check_size() const {
  const auto weights = collective_.weights();
  const uint64_t roots = static_cast<uint64_t>(std::ranges::count_if(weights, [](uint64_t w) { return w > 0; }));
  const uint64_t trees = baseline_ == Baseline::bidirectional_ring || baseline_ == Baseline::double_binary_tree ? 2
                         : baseline_ == Baseline::nccl_rings ? rings_.size()
                                                             : 1;
  const uint64_t phases = collective_.kind() == CollectiveKind::all_reduce ? 2 : 1;
  if (roots * trees * phases * (count_ - 1) > kMaxEdges) {
    throw unsupported(std::to_string(count_) + " ranks need " + std::to_string(roots * trees * phases * (count_ - 1)) +
                      " tree edges, the limit is " + std::to_string(kMaxEdges));
  }
}

void BaselinePlanner::prepare() {
  switch (baseline_) {
    case Baseline::ring:
    case Baseline::bidirectional_ring:
      prepare_ring();
      break;
    case Baseline::recursive_doubling:
      // Partners are told by the bits of the participants' numbers, so their order is kept.
      if (!collective_.is_rooted() && !std::has_single_bit(count_)) {
        throw unsupported("recursive doubling needs a power of two of ranks, not " + std::to_string(count_));
      }
      break;
    case Baseline::binary_tree:
    case Baseline::double_binary_tree:
    case Baseline::hierarchical_ring:
      prepare_boxes();
      break;
    case Baseline::nccl_rings:
      break;
  }
  if (order_.empty()) {
    for (uint32_t i = 0; i < count_; ++i) order_.push_back(i);
  }
  place_of_.resize(count_);
  for (uint32_t place = 0; place < count_; ++place) place_of_[order_[place]] = place;
}

void BaselinePlanner::prepare_ring() {
  try {
    order_ = ring_order(routes_, fabric_, collective_);
  } catch (const Error& error) {
    // A broadcast along one ring never uses the hop back into its root; so a path will do.
    if (error.code() != ErrorCode::unsupported || baseline_ != Baseline::ring || !collective_.is_rooted()) throw;
    order_ = path_order(routes_, collective_);
    order_is_path_ = true;
    if (order_.empty()) throw;
  }
}

// Trees as well are laid over the boxes one after the other, whatever the participants' order, so that they cross
// between boxes seldom.
void BaselinePlanner::prepare_boxes() {
  const auto boxes = box_orders(routes_, fabric_, collective_);
  for (const auto& box : boxes) {
    auto& places = boxes_.emplace_back();
    for (const uint32_t participant : box) {
      places.push_back(static_cast<uint32_t>(order_.size()));
      order_.push_back(participant);
    }
  }
  if (baseline_ != Baseline::hierarchical_ring) return;
  if (boxes_.size() == 1) throw unsupported("all ranks are in one box; a ring of boxes needs two or more");
  if (boxes_.size() == count_) throw unsupported("every box has one rank only; that is the plain ring");
}

void BaselinePlanner::find_library_rings() {
  LibraryRings library(fabric_);
  std::unordered_map<uint32_t, uint32_t> number;  // of a participant, by node
  for (uint32_t i = 0; i < count_; ++i) number.emplace(index(collective_.participants()[i]), i);
  for (const LibraryRings::Order& ring : library.of(library.by_box(collective_.participants()))) {
    auto& own = rings_.emplace_back();
    for (const NodeId rank : ring) own.push_back(number.at(index(rank)));
  }
}

// A chain round each ring.
std::vector<TreeShape> BaselinePlanner::library_chains(uint32_t root, bool forward) const {
  std::vector<TreeShape> chains;
  for (const std::vector<uint32_t>& ring : rings_) {
    const auto at = static_cast<uint32_t>(std::ranges::find(ring, root) - ring.begin());
    TreeShape& own = chains.emplace_back(chain(count_, at, forward));
    for (TreeEdge& edge : own) {
      edge.parent = ring[edge.parent];
      edge.child = ring[edge.child];
    }
  }
  return chains;
}

std::vector<TreeShape> BaselinePlanner::shapes(uint32_t root, bool forward) const {
  switch (baseline_) {
    case Baseline::ring:
      return {chain(count_, root, forward || order_is_path_)};
    case Baseline::bidirectional_ring:
      return {chain(count_, root, forward), chain(count_, root, !forward)};
    case Baseline::binary_tree:
      return {binary_tree(count_, root)};
    case Baseline::double_binary_tree: {
      auto [first, second] = double_binary_tree(count_, root);
      return {std::move(first), std::move(second)};
    }
    case Baseline::recursive_doubling:
      return {collective_.is_rooted() ? binomial_tree(count_, root) : recursive_doubling_tree(count_, root)};
    case Baseline::hierarchical_ring:
      return {hierarchical_chain(boxes_, root, forward)};
    case Baseline::nccl_rings:
      return library_chains(root, forward);
  }
  CHECK(false) << "baseline " << static_cast<int>(baseline_);
  return {};
}

// From places to participants.
std::vector<TreeShape> BaselinePlanner::placed(std::vector<TreeShape> shapes) const {
  for (TreeShape& shape : shapes) {
    for (TreeEdge& edge : shape) {
      edge.parent = order_[edge.parent];
      edge.child = order_[edge.child];
    }
  }
  return shapes;
}

void BaselinePlanner::add_chunks(uint32_t root) {
  RootTrees trees;
  // An in-tree is the opposite ring's out-tree walked backwards: its data then goes forward along the ring.
  if (collective_.reduces()) trees.gathering = placed(shapes(place_of_[root], false));
  if (collective_.spreads()) trees.spreading = placed(shapes(place_of_[root], true));
  uint32_t gathering_steps = 0;
  for (const TreeShape& shape : trees.gathering) {
    for (const TreeEdge& edge : shape) gathering_steps = std::max(gathering_steps, edge.step);
  }
  const size_t tree_count = std::max(trees.gathering.size(), trees.spreading.size());
  for (size_t t = 0; t < tree_count; ++t) {
    std::vector<RouteId> in_tree, out_tree;
    std::vector<uint32_t> in_steps, out_steps;
    if (!trees.gathering.empty()) {
      const TreeShape& shape = trees.gathering[t];
      for (auto edge = shape.rbegin(); edge != shape.rend(); ++edge) {
        in_tree.push_back(route(edge->child, edge->parent));
        if (edge->step > 0) in_steps.push_back(gathering_steps - edge->step + 1);
      }
    }
    if (!trees.spreading.empty()) {
      for (const TreeEdge& edge : trees.spreading[t]) {
        out_tree.push_back(route(edge.parent, edge.child));
        if (edge.step > 0) out_steps.push_back(gathering_steps + edge.step);
      }
    }
    builder_.add_chunk({.root = collective_.participants()[root],
                        .units = collective_.weights()[root],
                        .in_tree = in_tree,
                        .out_tree = out_tree,
                        .in_steps = in_steps,
                        .out_steps = out_steps});
  }
}

RouteId BaselinePlanner::route(uint32_t from, uint32_t to) {
  const auto [known, is_new] = route_ids_.try_emplace(uint64_t{from} << 32 | to);
  if (is_new) {
    const NodeId source = collective_.participants()[from], destination = collective_.participants()[to];
    std::vector<LinkId> links;
    if (!routes_.find_first(source, destination, links)) {
      throw unsupported("no route from " + fabric_.name(source) + " to " + fabric_.name(destination) +
                        " without passing through a rank");
    }
    known->second = builder_.add_route(links);
  }
  return known->second;
}

}  // namespace

std::string_view to_string(Baseline baseline) { return kNames[static_cast<size_t>(baseline)]; }

Schedule plan_baseline(Baseline baseline, const Fabric& fabric, const Collective& collective) {
  return BaselinePlanner(baseline, fabric, collective).plan();
}

}  // namespace banyan::plan
