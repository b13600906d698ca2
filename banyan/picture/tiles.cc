// Large fabrics: gather nodes into units, put tiles into pods, pods below the levels of switches, and lead the cables.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "banyan/picture/layout.h"

namespace banyan::picture {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr double kLane = 5;  // between cables side by side
constexpr double kGap = 10;  // between tiles
constexpr double kBarHeight = 18;
constexpr double kLevelGap = 64;  // between levels of switches
constexpr double kPodPadding = 10;

// Blocks in rows, with room for lanes left of each column.
struct Grid {
  size_t columns = 1, rows = 1;
  double lane_room = 0, cell_width = 0, cell_height = 0;
  double width() const { return static_cast<double>(columns) * (lane_room + cell_width + kGap) - kGap; }
  double height() const { return static_cast<double>(rows) * (cell_height + kGap) - kGap; }
  Point corner(size_t place) const {
    return {static_cast<double>(place % columns) * (lane_room + cell_width + kGap) + lane_room,
            static_cast<double>(place / columns) * (cell_height + kGap)};
  }
};

// As near to `aspect` (width / height) as rows can make it. A block has `lanes` cables to the bar above.
Grid grid_of(size_t count, Extent cell, size_t lanes, double aspect) {
  Grid best;
  double least = HUGE_VAL;
  for (size_t rows = 1; rows <= count; ++rows) {
    Grid grid{.columns = (count + rows - 1) / rows, .rows = rows, .cell_width = cell.width, .cell_height = cell.height};
    if ((count + grid.columns - 1) / grid.columns < rows) continue;  // the last row would be empty
    grid.lane_room = lanes == 0 || rows == 1 ? 0 : static_cast<double>((rows - 1) * lanes + 1) * kLane;
    // Lanes that take more room than what they lead to are no good drawing either.
    const double crowd = grid.lane_room / (grid.lane_room + cell.width);
    const double misfit = std::abs(std::log(grid.width() / grid.height() / aspect)) + crowd;
    if (misfit >= least) continue;
    best = grid;
    least = misfit;
  }
  return best;
}

class TileMaker {
 public:
  explicit TileMaker(const Fabric& fabric) : fabric_(fabric), boxes_(boxes_to_draw(fabric)) {}

  Drawing make() && {
    gather_tiles();
    gather_switches();
    drawing_.cables = cables_between(fabric_, drawing_.unit_of);
    place();
    return std::move(drawing_);
  }

 private:
  void gather_tiles();
  void gather_switches();
  void add_tile(const std::vector<NodeId>& ranks);
  void merge_level(const std::vector<NodeId>& level);
  void find_pods();
  void size_tiles();
  void place();
  void place_on_ring();
  void place_level(const std::vector<uint32_t>& level, double width, double middle);
  std::vector<size_t> edges_up(uint32_t lower) const;
  void lead_up(uint32_t lower, const Grid& grid, size_t place);
  Point fastening(uint32_t bar, double x, bool below) const;
  void join_levels();

  const Fabric& fabric_;
  fabric::Boxes boxes_;
  Drawing drawing_;
  size_t tiles_ = 0;                           // units below this number are tiles
  std::vector<std::vector<uint32_t>> levels_;  // units of switches, the nearest to the tiles first
  std::vector<std::vector<uint32_t>> pods_;    // tiles; one pod when they do not hang on one bar each
  std::vector<uint32_t> pod_bar_;              // of several pods: the unit above the tiles of each
  std::vector<uint32_t> height_of_;            // by unit: 0 a tile, 1 the first level of switches, ...
  std::vector<std::vector<size_t>> edges_of_;  // by unit
  size_t lanes_ = 1;                           // edges that go up from a tile, at most
};

// "gpu8", "gpu8–15" where only a number differs, "a – b".
std::string range_name(const Fabric& fabric, NodeId first_node, NodeId last_node) {
  const std::string &first = fabric.name(first_node), &last = fabric.name(last_node);
  if (first_node == last_node) return first;
  const auto number_in = [](const std::string& name) { return name.find_last_not_of("0123456789") + 1; };
  const size_t number = number_in(first);
  const bool alike =
      number == number_in(last) && number < first.size() && first.compare(0, number, last, 0, number) == 0;
  return alike ? first + "–" + last.substr(number) : first + " – " + last;
}

void TileMaker::add_tile(const std::vector<NodeId>& ranks) {
  const auto number = static_cast<uint32_t>(drawing_.units.size());
  Unit unit{
      .name = range_name(fabric_, ranks.front(), ranks.back()), .kind = Unit::Kind::tile, .middle = {}, .ranks = ranks};
  for (const NodeId rank : ranks) drawing_.unit_of[index(rank)] = number;
  drawing_.units.push_back(std::move(unit));
}

void TileMaker::gather_tiles() {
  drawing_.ranks = fabric_.ranks().size();
  drawing_.unit_of.assign(fabric_.nodes().size(), kNone);
  std::vector<std::vector<NodeId>> things = boxes_.ranks;
  const bool one_box = things.size() == 1;
  if (one_box) {
    things.clear();
    for (const NodeId rank : fabric_.ranks()) things.push_back({rank});
  } else if (const auto groups = groups_of_boxes(fabric_, boxes_); groups.size() > 1) {
    things.assign(groups.size(), {});
    for (size_t i = 0; i < groups.size(); ++i) {
      for (const uint32_t box : groups[i])
        things[i].insert(things[i].end(), boxes_.ranks[box].begin(), boxes_.ranks[box].end());
    }
  }
  const size_t most = one_box ? 64 : Drawing::kMaxTiles;
  const size_t per_tile = std::max<size_t>((things.size() + most - 1) / most, one_box ? 8 : 1);
  std::vector<NodeId> ranks;
  for (size_t i = 0; i < things.size(); ++i) {
    ranks.insert(ranks.end(), things[i].begin(), things[i].end());
    if ((i + 1) % per_tile == 0 || i + 1 == things.size()) add_tile(std::exchange(ranks, {}));
  }
  tiles_ = drawing_.units.size();
  if (one_box) return;
  for (uint32_t node = 0; node < fabric_.nodes().size(); ++node) {
    if (drawing_.unit_of[node] != kNone || boxes_.box_of[node] == fabric::Boxes::kNone) continue;
    drawing_.unit_of[node] = drawing_.unit_of[index(boxes_.ranks[boxes_.box_of[node]].front())];
    ++drawing_.units[drawing_.unit_of[node]].switches;
  }
}

// Switches by their distance from the tiles; each level is gathered with the one below already in units.
void TileMaker::gather_switches() {
  std::vector<NodeId> nearest;
  for (uint32_t node = 0; node < fabric_.nodes().size(); ++node) {
    if (drawing_.unit_of[node] != kNone) nearest.push_back(NodeId{node});
  }
  std::vector<bool> seen(fabric_.nodes().size());
  for (const NodeId node : nearest) seen[index(node)] = true;
  while (!nearest.empty()) {
    std::vector<NodeId> level;
    for (const NodeId node : nearest) {
      const auto visit = [&](NodeId next) {
        if (seen[index(next)]) return;
        seen[index(next)] = true;
        level.push_back(next);
      };
      for (const LinkId id : fabric_.out_links(node)) visit(fabric_.link(id).to);
      for (const LinkId id : fabric_.in_links(node)) visit(fabric_.link(id).from);
    }
    std::sort(level.begin(), level.end());
    if (!level.empty()) merge_level(level);
    nearest = std::move(level);
  }
  // A switch without any cable stands with the lowest.
  std::vector<NodeId> alone;
  for (uint32_t node = 0; node < fabric_.nodes().size(); ++node) {
    if (drawing_.unit_of[node] == kNone) alone.push_back(NodeId{node});
  }
  if (!alone.empty()) merge_level(alone);
}

void TileMaker::merge_level(const std::vector<NodeId>& level) {
  std::vector<std::vector<uint32_t>> below;  // by switch of the level: the units below it
  size_t cables = 0;
  for (const NodeId node : level) {
    std::vector<uint32_t>& units = below.emplace_back();
    for (const LinkId id : fabric_.out_links(node)) units.push_back(drawing_.unit_of[index(fabric_.link(id).to)]);
    for (const LinkId id : fabric_.in_links(node)) units.push_back(drawing_.unit_of[index(fabric_.link(id).from)]);
    std::erase(units, kNone);
    std::sort(units.begin(), units.end());
    units.erase(std::unique(units.begin(), units.end()), units.end());
    cables += units.size();
  }
  std::map<std::vector<uint32_t>, uint32_t> alike;
  std::vector<std::pair<NodeId, uint32_t>> members;
  std::vector<uint32_t> units;
  for (size_t i = 0; i < level.size(); ++i) {
    const auto next = static_cast<uint32_t>(drawing_.units.size());
    const bool alone = cables <= Drawing::kMaxLevelCables;
    const uint32_t unit = alone ? next : alike.try_emplace(below[i], next).first->second;
    if (unit == next) {
      drawing_.units.push_back(
          {.name = fabric_.name(level[i]), .kind = Unit::Kind::switch_, .middle = {}, .ranks = {}});
      units.push_back(unit);
    }
    ++drawing_.units[unit].switches;
    members.emplace_back(level[i], unit);
  }
  // Only now: a level's switches are not below one another.
  std::vector<NodeId> first(drawing_.units.size()), last(drawing_.units.size());
  for (const auto& [node, unit] : members) {
    drawing_.unit_of[index(node)] = unit;
    last[unit] = node;
    if (drawing_.units[unit].name == fabric_.name(node)) first[unit] = node;
  }
  for (const uint32_t unit : units) {
    if (drawing_.units[unit].switches > 1) drawing_.units[unit].name = range_name(fabric_, first[unit], last[unit]);
  }
  levels_.push_back(std::move(units));
}

// Tiles by the one bar of the first level that they hang on, where there is a level above to join these.
void TileMaker::find_pods() {
  height_of_.resize(drawing_.units.size());
  for (uint32_t level = 0; level < levels_.size(); ++level) {
    for (const uint32_t unit : levels_[level]) height_of_[unit] = level + 1;
  }
  edges_of_.resize(drawing_.units.size());
  for (size_t i = 0; i < drawing_.cables.size(); ++i) {
    const Cable& edge = drawing_.cables[i];
    if (edge.a == edge.b) continue;
    edges_of_[edge.a].push_back(i);
    edges_of_[edge.b].push_back(i);
  }
  std::map<uint32_t, std::vector<uint32_t>> by_bar;
  bool one_each = levels_.size() > 1;
  for (uint32_t tile = 0; tile < tiles_; ++tile) {
    const std::vector<size_t> up = edges_up(tile);
    lanes_ = std::max(lanes_, up.size());
    one_each = one_each && up.size() == 1;
    if (one_each) by_bar[drawing_.cables[up.front()].a + drawing_.cables[up.front()].b - tile].push_back(tile);
  }
  if (!one_each || by_bar.size() < 2) {
    pods_.emplace_back();
    for (uint32_t tile = 0; tile < tiles_; ++tile) pods_.front().push_back(tile);
    return;
  }
  for (auto& [bar, tiles] : by_bar) {
    pods_.push_back(std::move(tiles));
    pod_bar_.push_back(bar);
  }
}

// Edges of a unit to the level above its own.
std::vector<size_t> TileMaker::edges_up(uint32_t lower) const {
  std::vector<size_t> up;
  for (const size_t i : edges_of_[lower]) {
    const uint32_t other = drawing_.cables[i].a + drawing_.cables[i].b - lower;
    if (height_of_[other] == height_of_[lower] + 1) up.push_back(i);
  }
  return up;
}

void TileMaker::size_tiles() {
  size_t most = 1;
  for (uint32_t tile = 0; tile < tiles_; ++tile) most = std::max(most, drawing_.units[tile].ranks.size());
  const size_t cells = most <= Drawing::kMaxCells && drawing_.ranks <= Drawing::kMaxAllCells ? most : 4;
  const auto columns = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(cells))));
  const size_t rows = (cells + columns - 1) / columns;
  for (uint32_t tile = 0; tile < tiles_; ++tile) {
    Unit& unit = drawing_.units[tile];
    unit.size.width = std::max(54.0, static_cast<double>(columns) * Drawing::kCell + 2 * Drawing::kTilePadding);
    unit.size.height = static_cast<double>(rows) * Drawing::kCell + 2 * Drawing::kTilePadding + Drawing::kTileTitle;
  }
}

void TileMaker::place() {
  find_pods();
  size_tiles();
  if (levels_.empty()) {
    place_on_ring();
    return;
  }
  const bool has_pods = !pod_bar_.empty();
  size_t largest = 0;
  for (const auto& pod : pods_) largest = std::max(largest, pod.size());
  const Unit& tile = drawing_.units.front();
  const Grid in_pod = grid_of(largest, tile.size, lanes_, has_pods ? 1.0 : 2.2);
  const double head = has_pods ? kPodPadding + kBarHeight + 22 : 0, padding = has_pods ? kPodPadding : 0;
  size_t pod_lanes = has_pods ? 1 : 0;
  for (const uint32_t bar : pod_bar_) pod_lanes = std::max(pod_lanes, edges_up(bar).size());
  const Grid of_pods =
      grid_of(pods_.size(), {in_pod.width() + 2 * padding, in_pod.height() + head + padding}, pod_lanes, 2.2);

  const size_t first_upper = has_pods ? 1 : 0;
  const size_t uppers = levels_.size() - std::min(levels_.size(), first_upper);
  const double top = static_cast<double>(uppers) * (kBarHeight + kLevelGap);
  drawing_.size.width = of_pods.width();
  drawing_.size.height = top + of_pods.height();
  for (size_t level = first_upper; level < levels_.size(); ++level) {
    const auto from_top = static_cast<double>(levels_.size() - 1 - level);
    place_level(levels_[level], drawing_.size.width, from_top * (kBarHeight + kLevelGap) + kBarHeight / 2);
  }
  for (size_t pod = 0; pod < pods_.size(); ++pod) {
    const Point at = of_pods.corner(pod);
    const Point corner{at.x, at.y + top};
    const Point origin{corner.x + padding, corner.y + head};
    if (has_pods) {
      drawing_.panels.push_back({.corner = corner, .size = {of_pods.cell_width, of_pods.cell_height}});
      Unit& bar = drawing_.units[pod_bar_[pod]];
      bar.size.width = in_pod.width();
      bar.size.height = kBarHeight;
      bar.middle = {origin.x + bar.size.width / 2, corner.y + kPodPadding + kBarHeight / 2};
    }
    for (size_t i = 0; i < pods_[pod].size(); ++i) {
      Unit& unit = drawing_.units[pods_[pod][i]];
      const Point place = in_pod.corner(i);
      unit.middle = {origin.x + place.x + unit.size.width / 2, origin.y + place.y + unit.size.height / 2};
    }
  }
  for (size_t pod = 0; pod < pods_.size(); ++pod) {
    for (size_t i = 0; i < pods_[pod].size(); ++i) lead_up(pods_[pod][i], in_pod, i);
    if (has_pods) lead_up(pod_bar_[pod], of_pods, pod);
  }
  join_levels();
}

// Tiles that are joined directly: no line between two of them crosses another.
void TileMaker::place_on_ring() {
  const Ring ring = ring_of(tiles_, drawing_.units.front().size, {.gap = kGap});
  drawing_.size = ring.size;
  for (size_t tile = 0; tile < tiles_; ++tile) drawing_.units[tile].middle = ring.middles[tile];
  join_levels();
}

void TileMaker::place_level(const std::vector<uint32_t>& level, double width, double middle) {
  const double step = width / static_cast<double>(level.size());
  for (size_t i = 0; i < level.size(); ++i) {
    Unit& unit = drawing_.units[level[i]];
    unit.size.width = level.size() == 1 ? width : std::clamp(step * 0.7, 6.0, 160.0);
    unit.size.height = kBarHeight;
    unit.middle = {(static_cast<double>(i) + 0.5) * step, middle};
    unit.labelled = unit.size.width > 40;
  }
}

// Where a cable that comes along at `x` meets a bar.
Point TileMaker::fastening(uint32_t bar, double x, bool below) const {
  const Unit& unit = drawing_.units[bar];
  const double reach = std::max(0.0, unit.size.width / 2 - 3);
  return {std::clamp(x, unit.middle.x - reach, unit.middle.x + reach),
          unit.middle.y + (below ? 1 : -1) * unit.size.height / 2};
}

// The cables of a block of a grid to the level above: from the first row straight up, from others through the lanes on
// their left, where lower rows keep further left, so that none crosses another on the way.
void TileMaker::lead_up(uint32_t lower, const Grid& grid, size_t place) {
  const std::vector<size_t> up = edges_up(lower);
  const Unit& unit = drawing_.units[lower];
  const double left = unit.middle.x - unit.size.width / 2;
  const size_t row = place / grid.columns;
  // The top of the grid, in which `unit` may stand at the head of a pod.
  const double cell_top = drawing_.units[lower].kind == Unit::Kind::tile
                              ? unit.middle.y - unit.size.height / 2
                              : unit.middle.y - unit.size.height / 2 - kPodPadding;
  const double top = cell_top - static_cast<double>(row) * (grid.cell_height + kGap) - kGap;
  for (size_t i = 0; i < up.size(); ++i) {
    Cable& edge = drawing_.cables[up[i]];
    const uint32_t upper = edge.a + edge.b - lower;
    const double nth = static_cast<double>(i), count = static_cast<double>(up.size());
    if (row == 0) {
      const double x = unit.middle.x + (count > 1 ? (nth / (count - 1) - 0.5) * 0.7 * unit.size.width : 0);
      edge.path = {{x, unit.middle.y - unit.size.height / 2}, {x, top}};
    } else {
      const double lanes_left = static_cast<double>((grid.rows - row) * up.size()) - nth;
      const double x = left - (unit.kind == Unit::Kind::tile ? 0 : kPodPadding) - grid.lane_room + lanes_left * kLane;
      const double y = unit.middle.y + (count > 1 ? (nth / (count - 1) - 0.5) * 0.6 * unit.size.height : 0);
      edge.path = {{left, y}, {x, y}, {x, top}};
    }
    edge.path.push_back(fastening(upper, edge.path.back().x, true));
    if (edge.a != lower) std::reverse(edge.path.begin(), edge.path.end());
  }
}

// Between levels of bars, straight.
void TileMaker::join_levels() {
  for (Cable& edge : drawing_.cables) {
    if (edge.a == edge.b || !edge.path.empty()) continue;
    const Unit &a = drawing_.units[edge.a], &b = drawing_.units[edge.b];
    if (a.kind == Unit::Kind::tile || b.kind == Unit::Kind::tile || height_of_[edge.a] == height_of_[edge.b]) {
      edge.path = {a.middle, b.middle};
      continue;
    }
    const bool a_below = a.middle.y > b.middle.y;
    const double x = a.size.width < b.size.width ? a.middle.x : b.middle.x;
    edge.path = {fastening(edge.a, x, !a_below), fastening(edge.b, x, a_below)};
  }
}

}  // namespace

Drawing lay_out_tiles(const Fabric& fabric) { return TileMaker(fabric).make(); }

}  // namespace banyan::picture
