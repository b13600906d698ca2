// Cables: which links of a fabric are the two directions of one wire.
//
// The k-th link from one node to another and the k-th link back are one cable. A link that has no counterpart is a
// cable with one direction. Cables are numbered by their first link.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

struct Cable {
  NodeId a{}, b{};                              // a has the lower number
  uint32_t ordinal = 0;                         // among the cables between a and b
  std::optional<LinkId> forth = {}, back = {};  // from a to b, and from b to a; at least one

  NodeId other_end(NodeId end) const { return end == a ? b : a; }
  // The direction that begins at `end`.
  std::optional<LinkId> from(NodeId end) const { return end == a ? forth : back; }
};

class Cables {
 public:
  explicit Cables(const Fabric& fabric);  // O(links log links)

  const std::vector<Cable>& all() const { return cables_; }
  const Cable& operator[](uint32_t cable) const { return cables_[cable]; }
  uint32_t of(LinkId link) const { return of_link_[index(link)]; }

 private:
  std::vector<Cable> cables_;
  std::vector<uint32_t> of_link_;
};

// "a0-swa", or "a0-swa#2" for the third of several.
std::string name_of(const Cable& cable, const Fabric& fabric, bool is_one_of_several);

}  // namespace banyan::fabric
