#include "banyan/fabric/cables.h"

#include <algorithm>
#include <array>
#include <map>

namespace banyan::fabric {

Cables::Cables(const Fabric& fabric) {
  // Of each pair, lower node first: its cables, and how many links there were so far in each direction.
  struct Pair {
    std::vector<uint32_t> cables;
    std::array<uint32_t, 2> links{};
  };
  std::map<std::pair<NodeId, NodeId>, Pair> pairs;
  for (uint32_t number = 0; number < fabric.links().size(); ++number) {
    const Link& link = fabric.links()[number];
    const auto [a, b] = std::minmax(link.from, link.to);
    Pair& pair = pairs[{a, b}];
    const bool is_back = link.from != a;
    const uint32_t ordinal = pair.links[is_back ? 1 : 0]++;
    if (ordinal == pair.cables.size()) {
      pair.cables.push_back(static_cast<uint32_t>(cables_.size()));
      cables_.push_back({.a = a, .b = b, .ordinal = ordinal});
    }
    const uint32_t cable = pair.cables[ordinal];
    (is_back ? cables_[cable].back : cables_[cable].forth) = LinkId{number};
    of_link_.push_back(cable);
  }
}

std::string name_of(const Cable& cable, const Fabric& fabric, bool is_one_of_several) {
  std::string name = fabric.name(cable.a) + "-" + fabric.name(cable.b);
  if (is_one_of_several) name += "#" + std::to_string(cable.ordinal);
  return name;
}

}  // namespace banyan::fabric
