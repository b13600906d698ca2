// The arcs over which every receiver of a breadth-first broadcast takes each shard: the balance problems of bfb.h, made
// and solved.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/plan/direct/balance.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

// A piece of a source's shard, from where the piece before it ends up to end / unit, in units of weight.
struct ShardPiece {
  uint32_t arc = 0;  // over which it comes in
  int128 end = 0, unit = 1;
};

// Pieces of one shard, in order; the last ends with the shard.
using ShardPieces = std::vector<ShardPiece>;

// The arc over which a receiver takes each source's shard; a shard that comes in pieces has an entry in `pieces`.
class ReceiverRow {
 public:
  static constexpr uint32_t kInPieces = UINT32_MAX, kNone = UINT32_MAX - 1;

  std::vector<uint32_t> arc;                                  // by source; kInPieces, or kNone for the receiver itself
  std::vector<std::pair<uint32_t, ShardPieces>> pieces = {};  // by ascending source
};

// Solves receivers one after the other, in a network of terminals only. One thread.
class ReceiverSolver {
 public:
  // `weights` by terminal; the network outlives the solver.
  ReceiverSolver(const Network& network, std::span<const uint64_t> weights);

  // The loads (weight per bandwidth in units of the network) of the receiver's most loaded arc, step by step, and into
  // `row`, unless it is null, how. Nothing when some terminal cannot reach the receiver.
  std::optional<std::vector<Fraction>> solve(uint32_t receiver, ReceiverRow* row);

 private:
  bool search(uint32_t receiver);
  Fraction solve_step(std::span<const uint32_t> sources, std::span<const uint32_t> arcs, ReceiverRow* row);
  void deal_out(std::span<const uint32_t> members, const SourceGroup& group, std::span<const int128> parts, int128 unit,
                std::span<const uint32_t> arcs, ReceiverRow& row) const;
  std::span<uint64_t> usable(uint32_t source) { return std::span(usable_).subspan(source * words_, words_); }

  const Network& network_;
  std::span<const uint64_t> weights_;
  size_t words_ = 0;              // of 64 places, for each set of arcs
  std::vector<uint64_t> usable_;  // by source: through which of the receiver's arcs its shard may come
  std::vector<int32_t> distance_;
  std::vector<uint32_t> order_;  // of the search: by distance
};

}  // namespace banyan::plan
