// The match between the links of two fabrics: of the same machine before and after something has changed.
//
// Nodes are told by their names. Among several links from one node to another, those of equal bandwidth are the same,
// in the order of their numbers; the rest are matched in that order, too, as links that became slower or faster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::plan {

// A link that only one of the fabrics has, or that is slower or faster than it was.
struct LinkChange {
  std::string from, to;
  std::optional<Bandwidth> before = {}, after = {};  // at least one
};

struct LinkMatch {
  std::vector<std::optional<LinkId>> now;  // by link of the old fabric
  std::vector<LinkChange> changes;         // by old link, then those that are new
};

// O(links log links).
LinkMatch match_links(const Fabric& before, const Fabric& after);

}  // namespace banyan::plan
