// Routing: which links a message from one rank to another crosses, as a network would send it.
//
// A way is a shortest one by links, of these a widest one (by its narrowest link), and of these one that a hash of the
// two ends and a salt picks link by link, as equal-cost multipath does: different pairs spread over equal ways, the
// same pair with the same salt always takes the same. It goes through switches only; where no such way exists (tori),
// through ranks as well.
//
// Complexity: the first way to a rank costs a search over the whole fabric, O(links); further ones to the same rank
// only their own length. Memory: for each destination 4 bytes a node and 4 for each link that leads there, of the
// destinations asked for last, kMostKept bytes in all. One thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan {

class Routing {
 public:
  static constexpr size_t kMostKept = size_t{256} << 20;

  explicit Routing(Fabric fabric) : fabric_(std::move(fabric)) {}

  // Appends the links to `way`. `from` and `to` are different ranks.
  void find(NodeId from, NodeId to, uint64_t salt, std::vector<LinkId>& way);

 private:
  // Where to go on, for one destination: by node, the first links of all its best ways.
  struct Signs {
    std::vector<uint32_t> start;  // one longer than nodes
    std::vector<LinkId> links;
    bool leads_on(NodeId node) const { return start[index(node)] < start[index(node) + 1]; }
  };
  struct Ways {
    Signs by_switches, by_ranks;  // the second where the first does not lead from all ranks
  };

  const Ways& ways_to(NodeId to);
  Signs search(NodeId to, bool through_ranks) const;

  Fabric fabric_;
  std::unordered_map<uint32_t, Ways> ways_;  // by destination
  size_t kept_ = 0;                          // bytes in ways_
};

}  // namespace banyan
