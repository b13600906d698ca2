#include "banyan/plan/baselines/library_rings.h"

#include <algorithm>
#include <map>

namespace banyan::plan {

std::vector<LibraryRings::Order> LibraryRings::by_box(std::span<const NodeId> members) const {
  std::vector<Order> parts;
  std::map<uint32_t, size_t> place;
  for (const NodeId member : members) {
    const auto [found, is_new] = place.emplace(box_of(member), parts.size());
    if (is_new) parts.emplace_back();
    parts[found->second].push_back(member);
  }
  return parts;
}

std::vector<MeshRings::Places> LibraryRings::walks(const std::vector<Order>& boxes) {
  const size_t size = boxes.front().size();
  const bool even = std::all_of(boxes.begin(), boxes.end(), [&](const Order& box) { return box.size() == size; });
  std::vector<MeshRings::Places> walks(boxes.size() > 1 && even ? size : 1);
  for (size_t c = 0; c < walks.size(); ++c) {
    for (size_t i = 0; i < size; ++i) walks[c].push_back(static_cast<uint32_t>((c + i) % size));
  }
  if (walks.size() == 1) return walks;
  const std::vector<MeshRings::Places> mesh = mesh_.find_places(fabric_, boxes.front());
  const bool alike = std::all_of(boxes.begin(), boxes.end(),
                                 [&](const Order& box) { return mesh_.find_places(fabric_, box) == mesh; });
  if (mesh.empty() || !alike) return walks;
  // Once round a ring of the mesh: of those that fewest walks have taken one that leaves the box where no other does.
  std::vector<uint32_t> taken(mesh.size(), 0), left(size, 0);
  for (uint32_t c = 0; c < size; ++c) {
    const auto before = [&](size_t r) {  // where a walk round ring r from c ends
      const auto at = std::find(mesh[r].begin(), mesh[r].end(), c);
      return at == mesh[r].begin() ? mesh[r].back() : *(at - 1);
    };
    size_t best = 0;
    for (size_t r = 1; r < mesh.size(); ++r) {
      if (std::pair(left[before(r)], taken[r]) < std::pair(left[before(best)], taken[best])) best = r;
    }
    ++left[before(best)];
    ++taken[best];
    walks[c] = mesh[best];
    std::rotate(walks[c].begin(), std::find(walks[c].begin(), walks[c].end(), c), walks[c].end());
  }
  return walks;
}

std::vector<LibraryRings::Order> LibraryRings::of(const std::vector<Order>& boxes) {
  if (boxes.size() == 1) {
    std::vector<Order> of_mesh = mesh_.find(fabric_, boxes.front());
    if (!of_mesh.empty()) return of_mesh;
  }
  std::vector<Order> rings;
  for (const MeshRings::Places& walk : walks(boxes)) {
    Order& ring = rings.emplace_back();
    for (size_t b = 0; b < boxes.size(); ++b) {
      const Order& box = boxes[b];
      // Boxes of another size than the first have one ring, in the order of their members.
      for (size_t i = 0; i < box.size(); ++i) {
        const size_t at = b % 2 == 0 ? i : box.size() - 1 - i;
        ring.push_back(box[box.size() == walk.size() ? walk[at] : at]);
      }
    }
  }
  return rings;
}

}  // namespace banyan::plan
