// Schedule: a forest. For every chunk of the buffer, an in-tree that reduces it towards a root and an out-tree that
// spreads it from there; each tree edge says which links of the fabric it crosses.
//
//   allgather, broadcast        out-trees only
//   reduce-scatter, reduce      in-trees only
//   allreduce                   both, joined at the root, so that spreading one slice overlaps reducing the next
//   all-to-all                  out-trees that are paths: from a root to the one rank that the chunk is for, its target
//
// A node of a tree is a participant, or a switch with the power to do what the tree needs there: to multicast in an
// out-tree, to reduce in an in-tree. All other switches on the way are parts of routes.
//
// Shares are exact: chunk c carries chunk.units / total_units() of what all chunks carry, which is the buffer, or of an
// all-to-all collective().carried_per_byte() buffers. A chunk's place follows from the units alone (element_range,
// block_range), so every rank computes the same byte offsets without communication.
//
// Memory: a tree edge is one RouteId, 4 bytes; a route is stored once however many trees use it, in 4 bytes and 4 per
// link. 1024 ranks with one tree each are 1 M edges, 16,384 are 268 M.
//
// A Schedule is only *well formed* by construction: ids are in range, routes are connected paths of links, units are
// positive and fit. That it does what the collective promises is the verifier's to say (verify.h), because a schedule
// comes from planners and files alike. Immutable value; copies are deep, move it.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/fabric/fabric.h"
#include "banyan/schedule/collective.h"

namespace banyan::schedule {

enum class RouteId : uint32_t {};
constexpr uint32_t index(RouteId id) { return static_cast<uint32_t>(id); }

// A directed path from one node of a tree to another. Only switches lie between them (the verifier sees to it).
struct Route {
  NodeId from{}, to{};
  std::span<const LinkId> links;
};

// One chunk. In the out-tree an edge goes from parent to child and stands after the edge that brings the data to its
// parent; in the in-tree an edge goes from child to parent and stands after all edges that end at that child. So both
// lists can be walked front to back. Trees span the participants, except those of an all-to-all.
struct Chunk {
  NodeId root{};
  uint64_t units = 0;         // share of the buffer: units / Schedule::total_units()
  uint64_t offset_units = 0;  // where it starts in the buffer, in the same units
  std::span<const RouteId> in_tree, out_tree;
  // Ties for latency: edges of any chunks with the same route ends and the same non-zero step may travel as one
  // message. Parallel to the tree, or empty when nothing is tied.
  std::span<const uint32_t> in_steps, out_steps;
};

class Schedule {
 public:
  class Builder;

  const Fabric& fabric() const { return fabric_; }
  const Collective& collective() const { return collective_; }
  uint64_t total_units() const { return total_units_; }

  size_t chunk_count() const { return chunks_.size(); }
  Chunk chunk(size_t i) const;

  size_t route_count() const { return route_start_.size() - 1; }
  Route route(RouteId id) const {
    const uint32_t begin = route_start_[index(id)], end = route_start_[index(id) + 1];
    const std::span links = std::span(route_links_).subspan(begin, end - begin);
    return {
        .from = fabric_links_[index(links.front())].from, .to = fabric_links_[index(links.back())].to, .links = links};
  }

  // The rank that a chunk is for: of an all-to-all, where its path ends. Chunks of other kinds are for all: their root.
  NodeId target(size_t i) const;

  // [begin, end) of chunk i, in elements of a buffer of `elements` (M / element size). The ranges of all chunks are
  // disjoint and cover the buffer, for every number of elements, divisible or not. Not of an all-to-all, whose chunks
  // lie in buffers of their own.
  std::pair<uint64_t, uint64_t> element_range(size_t i, uint64_t elements) const;
  // The same of participant p's shard: allgather, reduce-scatter; the whole buffer for the other kinds.
  std::pair<uint64_t, uint64_t> shard_range(size_t participant, uint64_t elements) const;

  // [begin, end) of chunk i in its block of so many elements. A chunk's block is the shard of its root (allgather,
  // reduce-scatter), what its root has for its target (all-to-all), or the whole buffer (the other kinds). The chunks
  // of a block are disjoint and cover it.
  std::pair<uint64_t, uint64_t> block_range(size_t i, uint64_t elements) const;

 private:
  struct ChunkRow {
    NodeId root{};
    uint64_t units = 0, offset_units = 0;
    uint64_t block_begin = 0, block_units = 0;  // in units: where what it is a part of begins, and how large that is
    uint64_t in_begin = 0, in_end = 0, out_begin = 0, out_end = 0;  // into edges_ (and steps_)
  };

  Schedule(Fabric fabric, Collective collective)
      : fabric_(std::move(fabric)), fabric_links_(fabric_.links()), collective_(std::move(collective)) {}

  Fabric fabric_;
  std::span<const Link> fabric_links_;  // of fabric_; all copies of a fabric share them
  Collective collective_;
  uint64_t total_units_ = 0;
  std::vector<ChunkRow> chunks_;
  std::vector<RouteId> edges_;
  std::vector<uint32_t> steps_;  // parallel to edges_, or empty where nothing is tied
  std::vector<uint32_t> route_start_{0};
  std::vector<LinkId> route_links_;
};

// Single use, one thread. Chunks are laid out per root in the order in which they are added: shard by shard for
// allgather and reduce-scatter, per root and target for all-to-all, one after the other for the rest.
class Schedule::Builder {
 public:
  Builder(Fabric fabric, Collective collective);

  // The sizes of what is to come, if known: memory for it is taken once, instead of growing twofold again and again.
  struct Sizes {
    size_t routes = 0, route_links = 0;
    size_t chunks = 0, edges = 0;
  };
  void reserve(const Sizes& sizes);

  // Throws Error{invalid_input} when `links` is empty or no connected path, Error{unsupported} when all routes together
  // cross more than 2^32 - 1 links. Does not look for an equal route.
  RouteId add_route(std::span<const LinkId> links);

  struct NewChunk {
    NodeId root{};
    uint64_t units = 0;
    std::span<const RouteId> in_tree = {}, out_tree = {};
    std::span<const uint32_t> in_steps = {}, out_steps = {};  // as long as the tree, or empty
  };
  // Throws Error{invalid_input}: units of zero, a root that does not take part, an unknown route, steps of another
  // length; for all-to-all, no path, or one that ends at its root or where nobody takes part.
  void add_chunk(const NewChunk& chunk);

  // Lays chunks out in the order of their roots among the participants, those of one root in the order in which they
  // were added. For allgather and reduce-scatter build() does so anyway.
  void order_by_root();

  // Throws Error{invalid_input} when there is no chunk, or units sum beyond 2^62.
  Schedule build() &&;

 private:
  void lay_out();

  Schedule schedule_;
  std::vector<uint32_t> participant_of_;  // by node; kNobody where it does not take part
};

}  // namespace banyan::schedule

namespace banyan {
using schedule::Chunk;
using schedule::Route;
using schedule::RouteId;
using schedule::Schedule;
}  // namespace banyan
