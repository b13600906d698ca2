// RankPlan: a schedule seen from one rank, for a buffer of a given number of elements. Data only; the engine follows
// it.
//
// A tree edge that carries data from rank a to rank b is one *stream* of the pair (a, b). Streams of a pair are
// numbered from zero in the order of the schedule (chunk by chunk, in-tree before out-tree), so both ends know the
// numbers without talking.
//
// `steps` of the schedule, which allow edges to share a message, are not used: slices of different chunks travel alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/schedule/schedule.h"

namespace banyan {

// This rank's end of a tree edge.
struct StreamEnd {
  uint32_t peer = 0;    // the participant at the other end
  uint32_t number = 0;  // of the streams of this directed pair
};

// What this rank does for one chunk. The root of a chunk has no parent.
struct Role {
  uint64_t begin = 0, end = 0;  // the chunk's elements within the whole buffer; never empty
  bool is_root = false;
  std::vector<StreamEnd> in_children;  // contributions are added in this order
  std::optional<StreamEnd> in_parent;
  std::optional<StreamEnd> out_parent;
  std::vector<StreamEnd> out_children;
};

struct RankPlan {
  uint32_t rank = 0;
  uint32_t ranks = 0;
  uint64_t elements = 0;                           // of the whole buffer
  uint64_t input_begin = 0, input_end = 0;         // the part of it that is this rank's input
  uint64_t output_begin = 0, output_end = 0;       // and its output; empty when it has none
  std::vector<Role> roles;                         // of chunks that have elements, in the order of the schedule
  std::vector<uint32_t> streams_to, streams_from;  // how many, by peer
};

// Those that this rank exchanges anything with, ascending.
std::vector<uint32_t> peers_of(const RankPlan& plan);
// The same of each plan.
std::vector<std::vector<uint32_t>> peer_lists(std::span<const RankPlan> plans);

// One plan per participant, in their order. Throws Error{invalid_input} naming the chunk when the schedule is not what
// the engine can follow: trees that do not span the participants or are not ordered, trees missing for the kind, a
// chunk outside the shard of its root. (It does not prove that the schedule is right; verify.h does.) O(edges).
std::vector<RankPlan> make_rank_plans(const Schedule& schedule, uint64_t elements);

}  // namespace banyan
