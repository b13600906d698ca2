// Data to run collectives on, and the answer to expect, computed serially and without looking at any schedule.
//
// A sample depends on the rank and on the position in the whole buffer, so that no shard, slice or element can be taken
// for another: sample(r, i) = noise(r, i mod p) + i / p mod 8, with a prime p, since no buffer is cut into pieces that
// are multiples of it. Samples are small whole numbers; sums over all ranks are exact in every type, in every order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "banyan/run/element/data_type.h"
#include "banyan/schedule/collective.h"

namespace banyan {

class SampleData {
 public:
  static constexpr uint32_t kMaxRanks =
      32'768;  // 2^15 samples below 2^9 sum to less than a float32 counts exactly, 2^24

  // Throws Error{unsupported} beyond kMaxRanks. Costs a few bytes for each of p positions, and their sums over ranks.
  SampleData(const Collective& collective, const Reduction& reduction);

  // Writes the samples of `rank` at positions [begin, end) of the buffer.
  void fill(std::span<std::byte> into, uint32_t rank, uint64_t begin, uint64_t end) const;
  // Writes what no right answer has anywhere, so that a place nobody wrote to is seen.
  void spoil(std::span<std::byte> into) const;

  struct Comparison {
    uint64_t wrong = 0;
    uint64_t first = 0;            // position of the first wrong element
    double got = 0, expected = 0;  // there
  };
  // Compares with what the collective promises at positions [begin, end). `owner` says whose samples they are when
  // nothing is reduced.
  Comparison compare(std::span<const std::byte> got, uint32_t owner, uint64_t begin, uint64_t end) const;

 private:
  int32_t sample(uint32_t rank, uint64_t position) const;
  int32_t expected(uint32_t owner, uint64_t position) const;

  Reduction reduction_;
  bool reduces_;
  uint32_t ranks_;
  std::vector<int32_t> reduced_noise_;  // over all ranks, by position mod p
};

}  // namespace banyan
