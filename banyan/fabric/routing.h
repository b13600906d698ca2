// Routing: which links a message from one rank to another crosses, as a network would send it.
//
// A way is a shortest one by links, of these a widest one (by its narrowest link), and of these one that a hash of the
// two ends and a salt picks link by link, as equal-cost multipath does: different pairs spread over equal ways, the
// same pair with the same salt always takes the same. It goes through switches only; where no such way exists (tori),
// through ranks as well.
//
// Complexity: the first way to a rank costs a search over the whole fabric, O(links); further ones to the same rank
// only their own length times the links of a node. Memory: 12 bytes per node for each of the last kMostKept
// destinations. One thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan {

class Routing {
 public:
  static constexpr size_t kMostKept = 4096;

  explicit Routing(Fabric fabric) : fabric_(std::move(fabric)) {}

  // Appends the links to `way`. `from` and `to` are different ranks.
  void find(NodeId from, NodeId to, uint64_t salt, std::vector<LinkId>& way);

 private:
  struct Reach {
    uint32_t hops = UINT32_MAX;  // to the destination; UINT32_MAX: none
    uint64_t width = 0;          // bytes per second of the narrowest link of the widest shortest way
  };
  using Tree = std::vector<Reach>;  // by node
  struct Trees {
    Tree switches, ranks;  // the second where the first does not reach all ranks
  };

  const Trees& trees_to(NodeId to);
  Tree search(NodeId to, bool through_ranks) const;

  Fabric fabric_;
  std::unordered_map<uint32_t, Trees> trees_;  // by destination
};

}  // namespace banyan
