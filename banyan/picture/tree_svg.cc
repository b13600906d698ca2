// Trees as SVG: every tree a card, root on top, levels below each other.
#include <algorithm>
#include <cmath>
#include <map>

#include "banyan/picture/drawing.h"
#include "banyan/picture/shades.h"
#include "banyan/picture/trees.h"

namespace banyan::picture {
namespace {

constexpr double kMargin = 28;
constexpr double kCardPadding = 18;
constexpr double kCardHead = 46;
constexpr double kUprightFrom = 900;  // a wider row of labels is turned

class TreeCard {
 public:
  TreeCard(const Fabric& fabric, const Tree& tree) : fabric_(fabric), tree_(tree) {
    labelled_ = tree.edges.size() < Drawing::kMaxDetailed;
    children_[tree.root];
    for (const TreeEdge& edge : tree.edges) children_[edge.parent].push_back(edge.child);
    measure();
    place();
  }

  Extent size() const { return size_; }
  void draw(Canvas& canvas, Point corner) const;

 private:
  void measure();
  void place();
  void draw_edge(Canvas& canvas, const TreeEdge& edge) const;
  void draw_node(Canvas& canvas, NodeId node) const;

  const Fabric& fabric_;
  const Tree& tree_;
  bool labelled_ = true;
  bool upright_ = false;
  Extent node_{10, 10};  // all nodes alike
  double across_ = 14, down_ = 40;
  std::map<NodeId, std::vector<NodeId>> children_;
  std::map<NodeId, Point> at_;
  Extent size_;
};

void TreeCard::measure() {
  if (labelled_) {
    node_ = node_extent(fabric_.name(tree_.root), true);
    for (const TreeEdge& edge : tree_.edges) {
      node_.width = std::max(node_.width, node_extent(fabric_.name(edge.child), true).width);
    }
  }
  const size_t inner =
      static_cast<size_t>(std::ranges::count_if(children_, [](const auto& entry) { return !entry.second.empty(); }));
  const double leaves = static_cast<double>(tree_.edges.size() + 1 - inner);
  upright_ = labelled_ && leaves * (node_.width + 8) > kUprightFrom;
  if (upright_) std::swap(node_.width, node_.height);
  across_ = node_.width + (labelled_ ? 8 : 3);
  const double height = std::max(1u, tree_.height);
  down_ = node_.height + std::clamp(700 / height, labelled_ ? 20.0 : 10.0, labelled_ ? 48.0 : 40.0);
}

// Leaves from left to right, a parent over the middle of its children. The order of visits is a stack's, not recursion:
// a ring's tree is as deep as it has ranks.
void TreeCard::place() {
  struct Visit {
    NodeId node;
    uint32_t depth;
    size_t next = 0;
  };
  std::vector<Visit> stack{{tree_.root, 0}};
  double next_leaf = 0;
  while (!stack.empty()) {
    Visit& visit = stack.back();
    const auto entry = children_.find(visit.node);
    const size_t count = entry == children_.end() ? 0 : entry->second.size();
    if (visit.next < count) {
      const NodeId child = entry->second[visit.next++];
      const uint32_t depth = visit.depth + 1;
      stack.push_back({child, depth});
      continue;
    }
    double x = next_leaf + across_ / 2;
    if (count == 0) {
      next_leaf += across_;
    } else {
      x = (at_.at(entry->second.front()).x + at_.at(entry->second.back()).x) / 2;
    }
    at_[visit.node] = {x, visit.depth * down_ + node_.height / 2};
    stack.pop_back();
  }
  const double head = std::max(text_width(tree_.title, 15) * 1.05, text_width(tree_.subtitle, 12));
  const double width = std::max(next_leaf, head);
  for (auto& [node, point] : at_) {
    point.x += kCardPadding + (width - next_leaf) / 2;
    point.y += kCardPadding + kCardHead;
  }
  size_ = {width + 2 * kCardPadding, kCardHead + tree_.height * down_ + node_.height + 2 * kCardPadding};
}

void TreeCard::draw(Canvas& canvas, Point corner) const {
  canvas.open("g", {{"class", "tree"}, {"transform", "translate(" + number(corner.x) + " " + number(corner.y) + ")"}});
  canvas.draw("rect", {{"width", number(size_.width)},
                       {"height", number(size_.height)},
                       {"rx", "12"},
                       {"fill", "#F8FAFC"},
                       {"stroke", "#CBD5E0"}});
  const double middle = size_.width / 2;
  canvas.text({middle, kCardPadding + 4}, tree_.title, {.size = 15, .bold = true});
  canvas.text({middle, kCardPadding + 24}, tree_.subtitle, {.size = 12, .colour = "#4A5568"});
  for (const TreeEdge& edge : tree_.edges) draw_edge(canvas, edge);
  draw_node(canvas, tree_.root);
  for (const TreeEdge& edge : tree_.edges) draw_node(canvas, edge.child);
  canvas.close("g");
}

void TreeCard::draw_edge(Canvas& canvas, const TreeEdge& edge) const {
  Point from = at_.at(edge.parent), to = at_.at(edge.child);
  from.y += node_.height / 2;
  to.y -= node_.height / 2;
  NodeId source = edge.parent, destination = edge.child;
  if (tree_.gathers) {
    std::swap(from, to);
    std::swap(source, destination);
  }
  const double bend = (from.y + to.y) / 2;
  const std::string path = "M" + number(from.x) + " " + number(from.y) + " C" + number(from.x) + " " + number(bend) +
                           " " + number(to.x) + " " + number(bend) + " " + number(to.x) + " " + number(to.y);
  const std::string way = edge.via.empty() ? ", direct" : ", through " + edge.via;
  canvas.draw("path",
              {{"class", "edge"},
               {"data-from", fabric_.name(source)},
               {"data-to", fabric_.name(destination)},
               {"d", path},
               {"fill", "none"},
               {"stroke", edge.crosses_boxes ? kVermillion : kBlue},
               {"stroke-width", labelled_ ? "1.8" : "1"},
               {"stroke-dasharray", edge.via.empty() ? "none" : "6 3"},
               {"marker-end", labelled_ ? "url(#arrow)" : "none"}},
              fabric_.name(source) + " -> " + fabric_.name(destination) + way);
}

void TreeCard::draw_node(Canvas& canvas, NodeId node) const {
  const Point at = at_.at(node);
  const bool is_root = node == tree_.root, is_switch = !fabric_.is_rank(node);
  canvas.open("g",
              {{"class", is_root     ? "root"
                         : is_switch ? "switch"
                                     : "rank"},
               {"data-name", fabric_.name(node)}},
              fabric_.name(node));
  canvas.draw("rect", {{"x", number(at.x - node_.width / 2)},
                       {"y", number(at.y - node_.height / 2)},
                       {"width", number(node_.width)},
                       {"height", number(node_.height)},
                       {"rx", number(is_switch ? 2 : std::min(node_.width, node_.height) / 2)},
                       {"fill", is_root ? "#FFD34E" : "#FFFFFF"},
                       {"stroke", "#2D3748"},
                       {"stroke-width", is_root ? "2" : "1.2"}});
  if (labelled_) {
    canvas.text(at, shown_name(fabric_.name(node)), {.size = kLabelSize, .bold = is_root, .upright = upright_});
  }
  canvas.close("g");
}

// One entry for each kind of line that occurs, drawn as it is.
Extent draw_legend(Canvas& canvas, const PickedTrees& picked, Point corner, double scale) {
  double x = corner.x;
  for (const bool crosses : {false, true}) {
    for (const bool direct : {true, false}) {
      const auto is_such = [&](const TreeEdge& edge) {
        return edge.crosses_boxes == crosses && edge.via.empty() == direct;
      };
      const bool occurs =
          std::ranges::any_of(picked.trees, [&](const Tree& tree) { return std::ranges::any_of(tree.edges, is_such); });
      if (!occurs) continue;
      const std::string way = direct ? "by a direct link" : "through a switch";
      const std::string where = crosses ? "from box to box, " : picked.several_boxes ? "inside a box, " : "";
      canvas.draw("line", {{"class", "legend"},
                           {"x1", number(x)},
                           {"y1", number(corner.y)},
                           {"x2", number(x + 34 * scale)},
                           {"y2", number(corner.y)},
                           {"stroke", crosses ? kVermillion : kBlue},
                           {"stroke-width", "2"},
                           {"stroke-dasharray", direct ? "none" : "6 3"}});
      canvas.text({x + 42 * scale, corner.y}, where + way, {.size = 12 * scale, .anchor = "start"});
      x += 66 * scale + text_width(where + way, 12 * scale);
    }
  }
  return {x - corner.x, 20 * scale};
}

// Cards in rows, whatever comes nearest to a slide's shape; both trees of a chunk stand side by side or one above the
// other.
size_t cards_in_row(const std::vector<TreeCard>& cards, const PickedTrees& picked) {
  constexpr double kShape = 1.7;  // width over height
  Extent largest;
  for (const TreeCard& card : cards) {
    largest = {std::max(largest.width, card.size().width + kMargin),
               std::max(largest.height, card.size().height + kMargin)};
  }
  const bool has_pairs = picked.trees.front().gathers && cards.size() > 1 && !picked.trees[1].gathers;
  const auto misfit = [&](size_t columns) {
    const size_t rows = (cards.size() + columns - 1) / columns;
    return std::abs(
        std::log(static_cast<double>(columns) * largest.width / (static_cast<double>(rows) * largest.height) / kShape));
  };
  size_t best = 1;
  for (size_t columns = has_pairs ? 2 : 1; columns <= cards.size(); columns += has_pairs ? 2 : 1) {
    if (misfit(columns) < misfit(best)) best = columns;
  }
  return best;
}

}  // namespace

std::string trees_as_svg(const Fabric& fabric, const PickedTrees& picked) {
  std::vector<TreeCard> cards;
  for (const Tree& tree : picked.trees) cards.emplace_back(fabric, tree);
  const size_t columns = cards_in_row(cards, picked);
  std::vector<Point> corners;
  Point corner{kMargin, 0};
  Extent page;
  for (size_t i = 0; i < cards.size(); ++i) {
    if (i > 0 && i % columns == 0) corner = {kMargin, page.height + kMargin};
    corners.push_back(corner);
    corner.x += cards[i].size().width + kMargin;
    page = {std::max(page.width, corner.x), std::max(page.height, corner.y + cards[i].size().height)};
  }
  const double scale = title_scale(page);
  const double top = (kMargin + 30) * scale;
  Canvas canvas;
  canvas.text({kMargin, kMargin * scale}, picked.title, {.size = 18 * scale, .anchor = "start", .bold = true});
  for (size_t i = 0; i < cards.size(); ++i) cards[i].draw(canvas, {corners[i].x, corners[i].y + top});
  const double bottom = top + page.height + 26 * scale;
  const Extent legend = draw_legend(canvas, picked, {kMargin, bottom}, scale);
  const double width =
      std::max({page.width, text_width(picked.title, 18 * scale) + 2 * kMargin, legend.width + 2 * kMargin});
  return canvas.finish(width, bottom + legend.height + kMargin / 2, picked.title);
}

}  // namespace banyan::picture
