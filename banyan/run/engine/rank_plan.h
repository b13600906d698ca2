// RankPlan: what one rank does in one collective, tree by tree. Data only; the engine follows it.
//
// A tree edge that carries data from rank a to rank b is one *stream* of the pair (a, b). Streams of a pair are
// numbered from zero in an order that both ends know without talking: that of the schedule (chunk by chunk, in-tree
// before out-tree), or that of the calls that made a direct plan (direct_plan.h).
//
// A stream runs along a *lane*: one of the connections between its ends, each along its own path of links. The routes
// that a schedule uses between two ranks, in either direction, are numbered in order of first appearance; a route and
// its way back share a lane.
//
// `steps` of the schedule, which allow edges to share a message, are not used: slices of different chunks travel alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "banyan/schedule/schedule.h"

namespace banyan::run {

// This rank's end of a tree edge.
struct StreamEnd {
  uint32_t peer = 0;         // the participant at the other end
  uint32_t lane = 0;         // of the connections with it
  uint32_t number = 0;       // of the streams of this directed pair
  bool is_windowed = false;  // its receiver keeps few slices at a time, and gives credit: all of an in-tree are
};

// The part of this rank in one chunk. Contributions go up the in-tree: that of this rank (from its input, if it has
// any) with those of the children, in their order, reduced. The root's result then goes down the out-tree, and into the
// output of every rank that has one. Without an in-tree, the root sends its input as it is.
struct Role {
  uint64_t length = 0;  // elements; of nothing, one empty message goes along every edge
  std::optional<uint64_t> input_at = {},
                          output_at = {};  // where the elements stand in this rank's input and in its output
  std::vector<StreamEnd> in_children = {};
  std::optional<StreamEnd> in_parent = {};
  std::optional<StreamEnd> out_parent = {};
  std::vector<StreamEnd> out_children = {};
  // This rank sends in it only when it has received, reduced and copied all that the other roles are about. It has
  // no length; at most one of a plan says anything.
  bool is_confirmation = false;

  bool says_anything() const { return in_parent || !out_children.empty(); }
  bool is_root() const { return !in_parent && !out_parent; }
};

// A lane that the plan uses, and the links it crosses; those of a direction that no tree uses are empty.
struct PlanLane {
  uint32_t peer = 0, lane = 0;
  std::vector<LinkId> to_peer = {}, from_peer = {};
  uint64_t bytes_per_second = 0;  // that the plan sends to the peer along it, when it goes as it should; 0: not known
};

struct RankPlan {
  uint32_t rank = 0;
  uint32_t ranks = 0;
  uint64_t input_elements = 0, output_elements = 0;  // how large the buffers of this rank are
  // The piece that moves at once, in bytes on the wire at most (but at least one block of a codec), and how many of
  // them a receiver keeps of a stream; 0: as the engine is set. Equal on all ranks.
  uint64_t slice_bytes = 0;
  uint32_t window = 0;
  double busy_seconds = 0;  // that the busiest link needs for it; 0: not known
  // True if the input of a role may lie where another's output does when input and output are the same buffer.
  bool shuffles = false;
  std::vector<Role> roles = {};
  std::vector<uint32_t> streams_to = {}, streams_from = {};  // how many, by peer
  std::vector<PlanLane> lanes = {};                          // none for direct plans, which know of no links

  // The next stream of the pair: for those who make plans.
  StreamEnd add_stream_to(uint32_t peer, uint32_t lane = 0);
  StreamEnd add_stream_from(uint32_t peer, uint32_t lane = 0);
};

// The number of elements that this rank sends in one execution.
uint64_t elements_sent(const RankPlan& plan);

// The parts of the whole buffer that are a participant's input and output; [0, 0) when it has none.
struct BufferParts {
  uint64_t input_begin = 0, input_end = 0;
  uint64_t output_begin = 0, output_end = 0;
};
BufferParts buffer_parts(const Schedule& schedule, uint32_t participant, uint64_t elements);

// Plans for a whole buffer of so many elements, one per participant, in their order; of an all-to-all, whose ranks have
// even_pairs(). Chunks without elements are left out. Throws Error{invalid_input} naming the chunk when the schedule is
// not what the engine can follow: trees that do not span the participants or are not ordered, that have switches for
// nodes, trees missing for the kind, a chunk outside the shard of its root. (It does not prove that the schedule is
// right; verify.h does.) O(edges + chunks * participants).
std::vector<RankPlan> make_rank_plans(const Schedule& schedule, uint64_t elements);
// One of them, O(edges).
RankPlan make_rank_plan(const Schedule& schedule, uint64_t elements, uint32_t participant);

// Elements of a buffer that belong to one rank.
struct Block {
  uint64_t at = 0, count = 0;
};

// The plan of a participant for shards of any size: those of a schedule for allgather or reduce-scatter, each of its
// trees carrying the same part of its root's block as it does of its root's shard. `blocks`, one per participant, say
// where the shards stand in the output of an allgather, or in the input of a reduce-scatter; the other buffer is this
// rank's block alone. Empty shards are left out. Throws as above, Error{invalid_input} for another kind of collective,
// and where a rank has a block but no tree.
RankPlan make_block_plan(const Schedule& schedule, std::span<const Block> blocks, uint32_t participant);

// Elements that the ranks of an all-to-all have for each other.
struct PairBlocks {
  // All pairs: what `from` sends `to`, equal on all ranks.
  std::function<uint64_t(uint32_t from, uint32_t to)> elements;
  // Places of these in the input and in the output of the rank whose plan is made, indexed by peer, itself included;
  // their counts are those of `elements`.
  std::vector<Block> send = {}, receive = {};
};
// Pairs whose elements lie one block after the other, as Collective::block_elements says.
PairBlocks even_pairs(const Collective& collective, uint64_t elements, uint32_t participant);
// The plan of a participant, O(chunks + edges). Throws as above, Error{invalid_input} for another kind of collective,
// and where a pair has a block but no path.
RankPlan make_pair_plan(const Schedule& schedule, const PairBlocks& blocks, uint32_t participant);

}  // namespace banyan::run
