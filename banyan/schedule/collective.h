// Collective: what is asked of a fabric.
//
// base/collective_kind.h says what each kind does with its buffer. Shards lie in it in the order of the participants;
// shard i is weight(i) / total_weight() of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/base/collective_kind.h"
#include "banyan/fabric/fabric.h"

namespace banyan::schedule {

class Collective {
 public:
  static constexpr uint64_t kMaxWeight = 1'000'000;

  struct Options {
    CollectiveKind kind = CollectiveKind::all_gather;
    std::vector<NodeId> ranks = {};      // in shard order; empty: all ranks of the fabric
    std::optional<NodeId> root = {};     // broadcast and reduce; absent: the first participant
    std::vector<uint64_t> weights = {};  // allgather and reduce-scatter, one per participant; empty: all equal
  };

  // Throws Error{invalid_input}: a kind that no planner makes schedules of (is_planned), fewer than two participants, a
  // switch or a repeated rank among them, a root that does not take part or is not asked for, weights whose number does
  // not match, are all zero or above kMaxWeight.
  static Collective make(const Fabric& fabric, const Options& options);

  CollectiveKind kind() const { return kind_; }
  std::span<const NodeId> participants() const { return participants_; }
  NodeId root() const { return root_; }  // of broadcast and reduce; the first participant otherwise

  bool reduces() const { return banyan::reduces(kind_); }
  bool spreads() const { return kind_ != CollectiveKind::reduce_scatter && kind_ != CollectiveKind::reduce; }
  bool is_rooted() const { return banyan::is_rooted(kind_); }
  // Whether the pieces that a participant roots are prescribed (all but allreduce, where any distribution is right).
  bool fixes_roots() const { return kind_ != CollectiveKind::all_reduce; }

  // One per participant, in lowest terms: the shards, or 1 for the root and 0 for the others, or all 1 for allreduce.
  std::span<const uint64_t> weights() const { return weights_; }
  uint64_t total_weight() const { return total_weight_; }

  friend bool operator==(const Collective&, const Collective&) = default;

 private:
  CollectiveKind kind_ = CollectiveKind::all_gather;
  NodeId root_{};
  std::vector<NodeId> participants_;
  std::vector<uint64_t> weights_;
  uint64_t total_weight_ = 0;
};

}  // namespace banyan::schedule

namespace banyan {
using schedule::Collective;
}  // namespace banyan
