// Colours of transfers and links of a schedule: equal colours are alike. transfer_graph.h says what that is for and why
// it is right. Private to transfer_graph.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/schedule/schedule.h"

namespace banyan::predict {

class TransferColours {
 public:
  using Colour = uint64_t;
  struct RouteRow {
    uint32_t from, to;
    Picoseconds delay;
  };

  // Both outlive it. `routes`: those of the schedule.
  TransferColours(const Schedule& schedule, std::span<const RouteRow> routes);

  // Splits colours until none splits any more; false when that takes more rounds than are worth it. O(edges + hops of
  // routes) a round.
  bool refine();

  Colour link(uint32_t link) const { return link_colours_[link]; }  // 0: nothing crosses it

  // The colours of a chunk's edges, to be asked for in the order of its lists, with root() between both: from those of
  // their routes and of what they need. One at a time.
  class OfChunk {
   public:
    OfChunk(TransferColours& colours, const Chunk& chunk);
    ~OfChunk();
    OfChunk(const OfChunk&) = delete;
    Colour in_edge(RouteId route);
    void root();
    Colour out_edge(RouteId route);

   private:
    TransferColours& colours_;
    std::vector<Colour>& at_node_;  // by node, what has arrived there; all zero between chunks
    const Chunk& chunk_;
    const Colour in_base_, out_base_;
  };

 private:
  void colour_routes();
  void colour_edges();
  void colour_links();

  const Schedule& schedule_;
  const std::span<const RouteRow> routes_;
  std::vector<Colour> at_node_, on_route_, route_colours_, link_colours_;
};

}  // namespace banyan::predict
