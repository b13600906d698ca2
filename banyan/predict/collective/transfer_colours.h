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

  // Both outlive it. `routes`: those of the schedule. With cores, what nodes do to slices that they send or take
  // counts, too: as if each route crossed the core of either end, and each root its own.
  TransferColours(const Schedule& schedule, std::span<const RouteRow> routes, bool with_cores = false);

  // Splits colours until none splits any more; false when that takes more rounds than are worth it. O(edges + hops of
  // routes) a round.
  bool refine();

  Colour link(uint32_t link) const { return link_colours_[link]; }  // 0: nothing crosses it
  Colour core(uint32_t node) const { return core_colours_[node]; }  // with cores; 0: it does nothing

  // The colours of a chunk's edges, to be asked for in the order of its lists, with root() between both: from those of
  // their routes and of what they need. One at a time.
  class OfChunk {
   public:
    OfChunk(TransferColours& colours, const Chunk& chunk);
    ~OfChunk();
    OfChunk(const OfChunk&) = delete;
    Colour in_edge(RouteId route);
    Colour root();  // of what the root does, where there are cores
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
  void colour_cores();

  const Schedule& schedule_;
  const std::span<const RouteRow> routes_;
  const bool with_cores_;
  std::vector<Colour> at_node_, on_route_, route_colours_, link_colours_;
  std::vector<Colour> core_colours_, at_roots_;  // by node, where there are cores: all zero elsewhere
};

}  // namespace banyan::predict
