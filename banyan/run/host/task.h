// HostTask: what one operation asks of the ranks of a host. Data only; buffers are described, not owned.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "banyan/element/reduce.h"

namespace banyan::run {

// A stretch of bytes of a buffer.
struct Piece {
  uint64_t offset = 0, bytes = 0;
};

// One piece per rank: listed, or cut evenly from the front of a buffer, the last ones being shorter or empty.
class Pieces {
 public:
  Pieces() = default;
  // The listed ones belong to the caller.
  explicit Pieces(const Piece* listed) : listed_(listed) {}
  static Pieces even(uint64_t bytes_each, uint64_t total) { return {bytes_each, total, kEvery, false}; }
  // The same piece, from the front of the buffer, for every rank.
  static Pieces same(uint64_t total) { return {0, total, kEvery, true}; }
  // One piece, the front of the buffer, for one rank.
  static Pieces only(uint32_t rank, uint64_t total) { return {0, total, rank, true}; }

  // There are not two pieces that differ.
  bool is_single() const { return is_single_; }
  // Every rank gets the same.
  bool is_for_all() const { return is_single_ && only_ == kEvery; }
  // All there is, is for `rank`.
  bool is_only_for(uint32_t rank) const { return only_ == rank; }
  bool is_listed() const { return listed_ != nullptr; }
  Piece operator[](uint32_t rank) const {
    if (is_single_) return {0, only_ == kEvery || only_ == rank ? total_ : 0};
    if (listed_ != nullptr) return listed_[rank];
    const uint64_t offset = std::min(rank * bytes_each_, total_);
    return {offset, std::min(bytes_each_, total_ - offset)};
  }

  // Bytes of the largest one among `ranks`.
  uint64_t largest(uint32_t ranks) const {
    if (listed_ == nullptr) return is_single_ ? total_ : std::min(bytes_each_, total_);
    uint64_t largest = 0;
    for (uint32_t rank = 0; rank < ranks; ++rank) largest = std::max(largest, listed_[rank].bytes);
    return largest;
  }

 private:
  static constexpr uint32_t kEvery = UINT32_MAX;

  Pieces(uint64_t bytes_each, uint64_t total, uint32_t only, bool is_single)
      : bytes_each_(bytes_each), total_(total), only_(only), is_single_(is_single) {}

  const Piece* listed_ = nullptr;
  uint64_t bytes_each_ = 0, total_ = 0;
  uint32_t only_ = kEvery;
  bool is_single_ = false;
};

// Every rank offers pieces of its input. Either they are moved: what rank p offers to this rank goes to taken[p] of the
// output. Or they are reduced: what all ranks offer to this rank is reduced to its *share*, and shares are then taken
// by those who want them: that of rank p goes to taken[p] of the output.
struct HostTask {
  enum class Kind : uint8_t {
    move,
    reduce,      // whose shares stay with their ranks, or go to one or all: `taken` says so at each rank
    all_reduce,  // reduce, where every rank takes every share; small ones are reduced by everybody for himself
    meet         // nothing moves, but nobody is done before all have come
  };
  static constexpr uint32_t kAll = UINT32_MAX, kNobody = UINT32_MAX - 1;

  Kind kind = Kind::meet;
  bool overwrites_input = false;     // output is written where a peer may still read the input
  uint64_t signature = 0;            // of the call; must be equal on all ranks
  std::array<uint64_t, 4> record{};  // what is called, for peers that call something else
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  uint64_t input_bytes = 0, output_bytes = 0;
  Pieces offered{};  // of the input, by the rank that gets it
  Pieces taken{};    // of the output, by the rank it comes from

  // For reduce and all_reduce.
  element::ReduceTask reduction{};
  uint32_t element_bytes = 1;
  uint32_t share_takers = kNobody;  // who else takes this rank's share: kAll, kNobody, or a rank
};

}  // namespace banyan::run
