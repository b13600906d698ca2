// Boxes: which ranks of a fabric stand together, as the GPUs of one server do. Found from the links alone.
//
// The rule, on the whole fabric, whoever takes part later:
//   1. Bandwidth tiers. Let B be the largest bandwidth such that the links of at least B join all ranks (directions do
//      not count). The groups that the links of at least 2 B still join are the boxes, if each has two ranks or more
//      and no link goes directly from a rank of one to a rank of another: NVLink joins a server, and only NICs and
//      switches join the servers, while the packages of one MI250 server are no boxes.
//   2. Else by direct links: the ranks that links from rank to rank join, switches left out, if each of these groups
//      has two ranks or more and its direct links together are at least twice as wide as its links to switches. Eight
//      MI300X, each with a link hardly wider than a NIC to each other, are a server. There may be one such group: a
//      torus, or a DGX-1 with its PCI switches.
//   3. Else by the first switch: the ranks whose fattest link to a switch ends at the same one (ties to the lower link
//      number), if that gives several boxes and not every rank one of its own: the hosts of a leaf.
//   4. Else everything is one box.
#pragma once

#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

struct Boxes {
  std::vector<std::vector<NodeId>> ranks;  // by box: its ranks, ascending; boxes by their first rank
  std::vector<uint32_t> box_of;            // by node number; a switch has the box of all its ranks, or kNone
  static constexpr uint32_t kNone = UINT32_MAX;

  size_t count() const { return ranks.size(); }
};

// A switch belongs to a box when every rank it is linked to is in that box and it is linked to at least one.
// Complexity O(links log links).
Boxes find_boxes(const Fabric& fabric);

// The bandwidth B of rule 1, and how much wider than it the links inside a box are.
constexpr uint64_t kBoxTier = 2;
Bandwidth joining_bandwidth(const Fabric& fabric);

}  // namespace banyan::fabric
