// Rings over the links that join ranks directly, as NVLinks do in a box without NVSwitch: as many as the mesh has, so
// that together they use the bandwidth of all of its links.
//
// A link counts as often as it is wider than the narrowest of them (a doubled NVLink is two); no ring uses more of a
// link than others have left. The search is one with backtracking for as many rings as the rank with the fewest links
// could have, and keeps the most that it finds within a number of steps: on the meshes of boxes (8 or 16 ranks) that is
// all there are, or nearly so. NCCL does the same (src/graph/search.cc).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::plan {

class MeshRings {
 public:
  // Each begins at the first member. None when the members have no ring of direct links, or are two or more than
  // kMostMembers. Answers are kept: of boxes that are alike, one is searched.
  std::vector<std::vector<NodeId>> find(const Fabric& fabric, std::span<const NodeId> members);
  // The same, by the members' places.
  using Places = std::vector<uint32_t>;
  std::vector<Places> find_places(const Fabric& fabric, std::span<const NodeId> members);

  static constexpr size_t kMostMembers = 64;

 private:
  std::map<Places, std::vector<Places>> known_;  // rings, by how often each member has a link to each other
};

}  // namespace banyan::plan
