#include "banyan/picture/drawing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "banyan/picture/layout.h"

namespace banyan::picture {

bool Drawing::has_cells(const Unit& tile) const {
  return tile.kind == Unit::Kind::tile && tile.ranks.size() <= kMaxCells && ranks <= kMaxAllCells;
}

size_t Drawing::cell_columns(const Unit& tile) {
  return static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(tile.ranks.size()))));
}

Point Drawing::cell_corner(const Unit& tile, size_t rank) const {
  const size_t columns = cell_columns(tile);
  return {tile.middle.x + (static_cast<double>(rank % columns) - static_cast<double>(columns) / 2) * kCell + 1,
          tile.middle.y - tile.size.height / 2 + kTilePadding + kTileTitle +
              static_cast<double>(rank / columns) * kCell - 1};
}

std::vector<Cable> cables_between(const Fabric& fabric, const std::vector<uint32_t>& unit_of) {
  std::vector<Cable> cables;
  std::map<std::pair<uint32_t, uint32_t>, size_t> known;
  for (uint32_t number = 0; number < fabric.links().size(); ++number) {
    const Link& link = fabric.link(LinkId{number});
    const uint32_t from = unit_of[index(link.from)], to = unit_of[index(link.to)];
    const auto [entry, is_new] = known.try_emplace(std::minmax(from, to), cables.size());
    if (is_new) cables.push_back({.a = from, .b = to});
    Cable& cable = cables[entry->second];
    const bool forth = from == cable.a;
    (forth ? cable.forth : cable.back).push_back(LinkId{number});
    (forth ? cable.forth_bandwidth : cable.back_bandwidth) += link.bandwidth.bytes_per_second();
    cable.assumed |= link.assumed;
  }
  return cables;
}

Drawing draw(const Fabric& fabric) {
  const bool is_small = fabric.ranks().size() <= Drawing::kMaxDetailed;
  const bool has_few_cables = fabric.links().size() <= 2 * Drawing::kMaxCables;
  if (has_few_cables && (is_small || !grid_places(fabric).empty())) return lay_out_nodes(fabric);
  return lay_out_tiles(fabric);
}

}  // namespace banyan::picture
