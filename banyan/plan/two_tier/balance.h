// BoxBalance: what the GPUs of one box pass to each other before their box sends to another one, so that every GPU
// holds the same amount for it.
//
// Let GPU a of the sending box hold D(a,j) bytes for GPU j of the receiving box, and all together T. Afterwards GPU i
// holds floor(T/G) bytes, and one more where i < T mod G. Only what a GPU holds too much moves, so no balance moves
// fewer bytes. GPU i will send to GPU i of the receiving box, so of the bytes that may move those for GPU i go to GPU i
// first: they arrive where they belong. The other bytes that GPU a gives away are for the targets a-1, a-2, ..., a
// itself last: the end of the order in which it sends (two_tier.h).
//
// Complexity O(G^2) for a pair of boxes, one reading of D.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace banyan::plan {

// GPUs are numbered in their box.
struct TwoTierMove {
  uint64_t bytes = 0;
  uint16_t from = 0, to = 0;  // of the sending box
  uint16_t target = 0;        // of the receiving box
};

class BoxBalance {
 public:
  explicit BoxBalance(uint32_t gpus);

  // D is gpus x gpus in a matrix whose rows are `stride` apart. Appends the moves; returns T, which must be below 2^63.
  uint64_t add_moves(const uint64_t* bytes, size_t stride, std::vector<TwoTierMove>& moves);

  // The most moves of one pair.
  static size_t most_moves(uint32_t gpus) { return size_t{gpus} * gpus + 2 * gpus + gpus * gpus / 4; }

 private:
  void give_to_targets(const uint64_t* bytes, size_t stride, std::vector<TwoTierMove>& moves);
  void give_the_rest(const uint64_t* bytes, size_t stride, std::vector<TwoTierMove>& moves);

  uint32_t gpus_;
  std::vector<uint64_t> held_, surplus_, lack_;
  std::vector<uint16_t> givers_, takers_;
  std::vector<uint64_t> given_;  // by giver and target
};

}  // namespace banyan::plan
