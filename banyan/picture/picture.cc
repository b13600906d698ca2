#include "banyan/picture/picture.h"

#include <algorithm>
#include <map>

#include "banyan/base/error.h"
#include "banyan/base/text.h"
#include "banyan/fabric/boxes.h"
#include "banyan/picture/shades.h"
#include "banyan/picture/trees.h"

namespace banyan::picture {
namespace {

constexpr size_t kMaxNodes = 20'000;       // beyond this nobody sees anything
constexpr size_t kMaxTreeNodes = 200'000;  // over all trees of one picture

void check_drawable(const Fabric& fabric) {
  if (fabric.nodes().size() <= kMaxNodes) return;
  throw Error(ErrorCode::unsupported, "a picture of " + std::to_string(fabric.nodes().size()) +
                                          " nodes shows nothing; the limit is " + std::to_string(kMaxNodes));
}

Tree read_tree(const Schedule& schedule, size_t number, bool gathers, const fabric::Boxes& boxes) {
  const Fabric& fabric = schedule.fabric();
  const Chunk chunk = schedule.chunk(number);
  Tree tree{.chunk = number, .gathers = gathers, .root = chunk.root, .edges = {}, .title = {}, .subtitle = {}};
  std::map<NodeId, uint32_t> depth{{chunk.root, 0}};
  const std::span<const RouteId> list = gathers ? chunk.in_tree : chunk.out_tree;
  for (size_t i = 0; i < list.size(); ++i) {
    const Route route = schedule.route(gathers ? list[list.size() - 1 - i] : list[i]);
    TreeEdge edge{.parent = gathers ? route.to : route.from, .child = gathers ? route.from : route.to, .via = {}};
    const auto parent = depth.find(edge.parent);
    if (parent == depth.end() || !depth.try_emplace(edge.child, parent->second + 1).second) {
      throw invalid("chunk " + std::to_string(number) + " has no tree: its edge from '" + fabric.name(route.from) +
                    "' to '" + fabric.name(route.to) + "' does not fit; banyan verify says more");
    }
    edge.depth = parent->second + 1;
    edge.crosses_boxes = boxes.box_of[index(edge.parent)] != boxes.box_of[index(edge.child)];
    for (const LinkId id : route.links.subspan(1)) {
      edge.via += (edge.via.empty() ? "" : ", ") + fabric.name(fabric.link(id).from);
    }
    tree.height = std::max(tree.height, edge.depth);
    tree.edges.push_back(std::move(edge));
  }
  const Fraction share(static_cast<int128>(chunk.units), static_cast<int128>(schedule.total_units()));
  tree.title = (gathers ? "to " : "from ") + fabric.name(chunk.root);
  tree.subtitle = (share == Fraction(1) ? std::string("the whole") : share.to_string() + " of the") +
                  " buffer, height " + std::to_string(tree.height);
  return tree;
}

}  // namespace

PickedTrees pick_trees(const Schedule& schedule, const TreeOptions& options) {
  check_drawable(schedule.fabric());
  const fabric::Boxes boxes = find_boxes(schedule.fabric());
  const NodeId root = options.root.value_or(schedule.chunk(0).root);
  PickedTrees picked;
  size_t chunks = 0, drawn = 0, nodes = 0;
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    if (chunk.root != root || ++chunks > options.max_trees) continue;
    ++drawn;
    nodes += chunk.in_tree.size() + chunk.out_tree.size();
    if (nodes > kMaxTreeNodes) {
      throw Error(ErrorCode::unsupported,
                  "the trees have more than " + std::to_string(kMaxTreeNodes) + " edges together; draw fewer of them");
    }
    if (!chunk.in_tree.empty()) picked.trees.push_back(read_tree(schedule, i, true, boxes));
    if (!chunk.out_tree.empty()) picked.trees.push_back(read_tree(schedule, i, false, boxes));
  }
  if (picked.trees.empty()) {
    const bool known = index(root) < schedule.fabric().nodes().size();
    throw Error(ErrorCode::not_found, "no tree to draw of root '" +
                                          (known ? schedule.fabric().name(root) : std::to_string(index(root))) + "'");
  }
  const Collective& collective = schedule.collective();
  picked.title = (options.name.empty() ? "" : options.name + ": ") + std::string(to_string(collective.kind())) +
                 " among " + plural(collective.participants().size(), "rank") + ", " +
                 (drawn < chunks ? std::to_string(drawn) + " of the " : std::string()) + plural(chunks, "chunk") +
                 " of " + schedule.fabric().name(root);
  if (!options.title.empty()) picked.title = options.title;
  for (const Tree& tree : picked.trees) {
    for (const TreeEdge& edge : tree.edges) picked.several_boxes |= edge.crosses_boxes;
  }
  return picked;
}

std::string draw_fabric(const Fabric& fabric, Format format, const std::string& name) {
  check_drawable(fabric);
  return format == Format::svg ? fabric_as_svg(fabric, name) : fabric_as_dot(fabric, name);
}

std::string draw_trees(const Schedule& schedule, Format format, const TreeOptions& options) {
  const PickedTrees picked = pick_trees(schedule, options);
  return format == Format::svg ? trees_as_svg(schedule.fabric(), picked) : trees_as_dot(schedule.fabric(), picked);
}

}  // namespace banyan::picture
