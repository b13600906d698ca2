// Collective: what is asked of a fabric.
//
// The buffer. Every collective is about one buffer of M bytes, the *total*:
//   allgather       every participant holds its shard; at the end all hold all M bytes
//   reduce-scatter  every participant holds M bytes; at the end each holds its shard, reduced
//   allreduce       every participant holds M bytes; at the end all hold them reduced
//   broadcast       the root holds M bytes; at the end all do
//   reduce          every participant holds M bytes; at the end the root holds them reduced
// algbw is M over the time, as in nccl-tests. Shards lie in the buffer in the order of the participants; shard i is
// weight(i) / total_weight() of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::schedule {

enum class CollectiveKind : uint8_t { allgather, reduce_scatter, allreduce, broadcast, reduce };

std::string_view to_string(CollectiveKind kind);
// Throws Error{invalid_input} with the known names.
CollectiveKind parse_collective_kind(std::string_view text);

class Collective {
 public:
  static constexpr uint64_t kMaxWeight = 1'000'000;

  struct Options {
    CollectiveKind kind = CollectiveKind::allgather;
    std::vector<NodeId> ranks = {};      // in shard order; empty: all ranks of the fabric
    std::optional<NodeId> root = {};     // broadcast and reduce; absent: the first participant
    std::vector<uint64_t> weights = {};  // allgather and reduce-scatter, one per participant; empty: all equal
  };

  // Throws Error{invalid_input}: fewer than two participants, a switch or a repeated rank among them, a root that does
  // not take part or is not asked for, weights whose number does not match, are all zero or above kMaxWeight.
  static Collective make(const Fabric& fabric, const Options& options);

  CollectiveKind kind() const { return kind_; }
  std::span<const NodeId> participants() const { return participants_; }
  NodeId root() const { return root_; }  // of broadcast and reduce; the first participant otherwise

  bool reduces() const { return kind_ != CollectiveKind::allgather && kind_ != CollectiveKind::broadcast; }
  bool spreads() const { return kind_ != CollectiveKind::reduce_scatter && kind_ != CollectiveKind::reduce; }
  bool is_rooted() const { return kind_ == CollectiveKind::broadcast || kind_ == CollectiveKind::reduce; }
  // Whether the pieces that a participant roots are prescribed (all but allreduce, where any distribution is right).
  bool fixes_roots() const { return kind_ != CollectiveKind::allreduce; }

  // One per participant, in lowest terms: the shards, or 1 for the root and 0 for the others, or all 1 for allreduce.
  std::span<const uint64_t> weights() const { return weights_; }
  uint64_t total_weight() const { return total_weight_; }

  friend bool operator==(const Collective&, const Collective&) = default;

 private:
  CollectiveKind kind_ = CollectiveKind::allgather;
  NodeId root_{};
  std::vector<NodeId> participants_;
  std::vector<uint64_t> weights_;
  uint64_t total_weight_ = 0;
};

}  // namespace banyan::schedule

namespace banyan {
using schedule::Collective;
using schedule::CollectiveKind;
}  // namespace banyan
