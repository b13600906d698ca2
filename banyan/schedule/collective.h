// Collective: what is asked of a fabric.
//
// base/collective_kind.h says what each kind does with its buffer. Shards lie in it in the order of the participants;
// shard i is weight(i) / total_weight() of it.
//
// An all-to-all has a traffic matrix: participant i sends j so many parts of what all buffers hold together,
// traffic(i, j) over the sum of the matrix. M is then the mean over the participants of what one holds. Without a
// matrix every pair is one part, a rank with itself too. A rank's part for itself crosses no link.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/base/collective_kind.h"
#include "banyan/base/fraction.h"
#include "banyan/fabric/fabric.h"

namespace banyan::schedule {

class Collective {
 public:
  static constexpr uint64_t kMaxWeight = 1'000'000;
  static constexpr uint64_t kMaxTraffic = uint64_t{1} << 60;  // of a pair; of all pairs together, four times that

  struct Options {
    CollectiveKind kind = CollectiveKind::all_gather;
    std::vector<NodeId> ranks = {};      // in shard order; empty: all ranks of the fabric
    std::optional<NodeId> root = {};     // broadcast and reduce; absent: the first participant
    std::vector<uint64_t> weights = {};  // allgather and reduce-scatter, one per participant; empty: all equal
    std::vector<uint64_t> traffic = {};  // all-to-all, one row per sender; empty: all equal
  };

  // Throws Error{invalid_input}: a kind that no planner makes schedules of (is_planned), fewer than two participants, a
  // switch or a repeated rank among them, a root that does not take part or is not asked for, weights whose number does
  // not match, are all zero or above kMaxWeight; a traffic matrix that is not square, in which no rank sends anything
  // to another, or of numbers above kMaxTraffic.
  static Collective make(const Fabric& fabric, const Options& options);

  CollectiveKind kind() const { return kind_; }
  std::span<const NodeId> participants() const { return participants_; }
  NodeId root() const { return root_; }  // of broadcast and reduce; the first participant otherwise

  bool reduces() const { return banyan::reduces(kind_); }
  bool spreads() const { return kind_ != CollectiveKind::reduce_scatter && kind_ != CollectiveKind::reduce; }
  // True if each chunk is for one rank, its target, so that its out-tree is a path; else chunks are for all.
  bool is_personal() const { return banyan::is_personal(kind_); }
  bool is_rooted() const { return banyan::is_rooted(kind_); }
  // True if the pieces that a participant roots are prescribed (all but allreduce, where any distribution is right).
  bool fixes_roots() const { return kind_ != CollectiveKind::all_reduce; }

  // One per participant, in lowest terms: the shards, or 1 for the root and 0 for the others, or all 1 for allreduce.
  // For an all-to-all, what each sends to others.
  std::span<const uint64_t> weights() const { return weights_; }
  uint64_t total_weight() const { return total_weight_; }

  // The parts that the participant `from` of an all-to-all has for `to`, in lowest terms.
  uint64_t traffic(size_t from, size_t to) const {
    return traffic_.empty() ? 1 : traffic_[from * participants_.size() + to];
  }
  bool has_traffic() const { return !traffic_.empty(); }  // a matrix whose pairs are not all equal
  // The same in elements, where M is `elements` of them: rounded down to whole ones.
  uint64_t block_elements(size_t from, size_t to, uint64_t elements) const;

  // The bytes that all chunks of a schedule carry together, as a multiple of M: 1, but for an all-to-all what all ranks
  // send to others.
  Fraction carried_per_byte() const;

  friend bool operator==(const Collective&, const Collective&) = default;

 private:
  void set_traffic(std::vector<uint64_t> traffic);

  CollectiveKind kind_ = CollectiveKind::all_gather;
  NodeId root_{};
  std::vector<NodeId> participants_;
  std::vector<uint64_t> weights_;
  uint64_t total_weight_ = 0;
  std::vector<uint64_t> traffic_;  // of an all-to-all of unequal pairs, one row per sender
  uint64_t total_traffic_ = 0;     // what ranks have for themselves as well
};

}  // namespace banyan::schedule

namespace banyan {
using schedule::Collective;
}  // namespace banyan
