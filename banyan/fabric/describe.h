// A fabric in a few words.
#pragma once

#include <string>

#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

// "64 ranks, 9 switches, 256 links".
inline std::string describe_counts(const Fabric& fabric) {
  const size_t ranks = fabric.ranks().size(), switches = fabric.nodes().size() - ranks, links = fabric.links().size();
  return std::to_string(ranks) + (ranks == 1 ? " rank, " : " ranks, ") + std::to_string(switches) +
         (switches == 1 ? " switch, " : " switches, ") + std::to_string(links) + (links == 1 ? " link" : " links");
}

}  // namespace banyan::fabric
