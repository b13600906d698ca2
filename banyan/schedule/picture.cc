#include "banyan/schedule/picture.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/schedule/picture_model.h"
#include "banyan/schedule/picture_render.h"

namespace banyan {
namespace picture {

void check_drawable(const Fabric& fabric) {
  if (fabric.nodes().size() <= kMaxNodes) return;
  throw Error(ErrorCode::unsupported, "a picture of " + std::to_string(fabric.nodes().size()) +
                                          " nodes shows nothing; the limit is " + std::to_string(kMaxNodes));
}

std::string plural(size_t count, std::string_view noun) {
  const bool hisses = noun.ends_with("ch") || noun.ends_with("x");
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : hisses ? "es" : "s");
}

std::string bandwidth_text(uint64_t bytes_per_second) {
  return Bandwidth::bytes_per_second(bytes_per_second).to_string();
}

std::string Shade::label() const {
  return least == most ? bandwidth_text(most) : bandwidth_text(least) + " to " + bandwidth_text(most);
}

double Wiring::line_width(const Cable& cable, double thin, double thick) const {
  return thin + (thick - thin) * std::sqrt(static_cast<double>(cable.widest()) / static_cast<double>(widest));
}

Wiring wire(const Fabric& fabric) {
  Wiring wiring;
  std::map<std::pair<NodeId, NodeId>, size_t> known;
  for (const Link& link : fabric.links()) {
    const auto [entry, is_new] = known.try_emplace(std::minmax(link.from, link.to), wiring.cables.size());
    if (is_new) wiring.cables.push_back({.a = link.from, .b = link.to});
    Cable& cable = wiring.cables[entry->second];
    (link.from == cable.a ? cable.forth : cable.back) += link.bandwidth.bytes_per_second();
    ++cable.links;
  }
  std::vector<uint64_t> speeds;
  for (const Cable& cable : wiring.cables) speeds.push_back(cable.widest());
  std::sort(speeds.begin(), speeds.end(), std::greater<>());
  speeds.erase(std::unique(speeds.begin(), speeds.end()), speeds.end());
  wiring.widest = speeds.front();
  const size_t shades = std::min(speeds.size(), kPalette.size());
  for (size_t i = 0; i < shades; ++i) {
    // Distinct bandwidths are dealt evenly when there are more than colours.
    const size_t begin = i * speeds.size() / shades, end = (i + 1) * speeds.size() / shades;
    wiring.shades.push_back({.least = speeds[end - 1], .most = speeds[begin], .colour = kPalette[i]});
  }
  for (Cable& cable : wiring.cables) {
    while (cable.widest() < wiring.shades[cable.shade].least) ++cable.shade;
  }
  return wiring;
}

std::string describe(const Cable& cable, const Fabric& fabric) {
  const std::string a = fabric.name(cable.a), b = fabric.name(cable.b);
  if (cable.back == 0) return a + " → " + b + ": " + bandwidth_text(cable.forth);
  if (cable.is_even()) return a + " – " + b + ": " + bandwidth_text(cable.forth) + " each way";
  return a + " → " + b + ": " + bandwidth_text(cable.forth) + ", back: " + bandwidth_text(cable.back);
}

namespace {

Tree read_tree(const Schedule& schedule, size_t number, bool gathers, const Boxes& boxes) {
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
      throw Error(ErrorCode::invalid_input, "chunk " + std::to_string(number) + " has no tree: its edge from '" +
                                                fabric.name(route.from) + "' to '" + fabric.name(route.to) +
                                                "' does not fit; banyan verify says more");
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

Grove pick_trees(const Schedule& schedule, const TreePicture& options) {
  check_drawable(schedule.fabric());
  const Boxes boxes = find_boxes(schedule.fabric());
  const NodeId root = options.root.value_or(schedule.chunk(0).root);
  Grove grove;
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
    if (!chunk.in_tree.empty()) grove.trees.push_back(read_tree(schedule, i, true, boxes));
    if (!chunk.out_tree.empty()) grove.trees.push_back(read_tree(schedule, i, false, boxes));
  }
  if (grove.trees.empty()) {
    const bool known = index(root) < schedule.fabric().nodes().size();
    throw Error(ErrorCode::not_found, "no tree to draw of root '" +
                                          (known ? schedule.fabric().name(root) : std::to_string(index(root))) + "'");
  }
  const Collective& collective = schedule.collective();
  grove.title = std::string(to_string(collective.kind())) + " among " +
                plural(collective.participants().size(), "rank") + ": " +
                (drawn < chunks ? std::to_string(drawn) + " of the " : std::string()) + plural(chunks, "chunk") +
                " of " + schedule.fabric().name(root);
  for (const Tree& tree : grove.trees) {
    for (const TreeEdge& edge : tree.edges) grove.several_boxes |= edge.crosses_boxes;
  }
  return grove;
}

}  // namespace picture

std::string draw_fabric(const Fabric& fabric, PictureFormat format) {
  picture::check_drawable(fabric);
  return format == PictureFormat::svg ? picture::fabric_as_svg(fabric) : picture::fabric_as_dot(fabric);
}

std::string draw_trees(const Schedule& schedule, PictureFormat format, const TreePicture& options) {
  const picture::Grove grove = picture::pick_trees(schedule, options);
  return format == PictureFormat::svg ? picture::trees_as_svg(schedule.fabric(), grove)
                                      : picture::trees_as_dot(schedule.fabric(), grove);
}

}  // namespace banyan
