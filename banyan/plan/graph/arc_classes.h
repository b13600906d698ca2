// Classes of arcs, and of terminals, that are alike: a question without favourites need not tell them apart.
//
// Alike are the images of each other under a group of automorphisms: those that the fabric declares, where they keep
// the participants, and the exchange of parallel arcs of the same bandwidth. A linear program whose answer may be
// replaced by its average over the group needs one variable a class. The classes also tell if the network is its own
// reverse: every arc has an opposite of the same bandwidth, and every switch has both powers, to multicast and to
// reduce, or none.
//
// O(arcs * generators * log arcs).
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/plan/graph/network.h"

namespace banyan::plan {

class ArcClasses {
 public:
  // With the automorphisms said above; `alone`: every arc and every terminal is a class of its own.
  ArcClasses(const Network& network, const Fabric& fabric);
  static ArcClasses alone(const Network& network);

  uint32_t arc_classes() const { return static_cast<uint32_t>(arc_sizes_.size()); }
  uint32_t vertex_classes() const { return static_cast<uint32_t>(vertex_sizes_.size()); }
  uint32_t of_arc(uint32_t arc) const { return of_arc_[arc]; }
  uint32_t of_vertex(uint32_t vertex) const { return of_vertex_[vertex]; }
  int64_t arc_size(uint32_t of) const { return arc_sizes_[of]; }
  int64_t vertex_size(uint32_t of) const { return vertex_sizes_[of]; }
  bool is_symmetric() const { return !opposite_.empty(); }
  // Only where is_symmetric(): the opposite of an arc, and the class of the opposites of a class. Among parallel arcs
  // of one bandwidth the first has the first for its opposite, and so on.
  uint32_t opposite_arc(uint32_t arc) const { return opposite_arc_[arc]; }
  uint32_t opposite(uint32_t of) const { return opposite_[of]; }

 private:
  ArcClasses() = default;

  std::vector<uint32_t> of_arc_, of_vertex_, opposite_, opposite_arc_;
  std::vector<int64_t> arc_sizes_, vertex_sizes_;
};

}  // namespace banyan::plan
