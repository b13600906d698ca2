// Data to run collectives on, and the answer to expect, computed serially and without looking at any schedule.
//
// A sample depends on the rank and on the position in the whole buffer, so that no shard, slice or element can be taken
// for another: sample(r, i) = noise(r, i mod p) + i / p mod 8, with a prime p, since no buffer is cut into pieces that
// are multiples of it. In a product the second part is a sign instead; in a bitwise reduction, a rotation.
//
// Answers are exact, bit for bit, whatever the order in which ranks are combined and wherever a partial result is
// rounded to the type:
//   integers     wrap round, which no order changes. Samples are even, but odd in products.
//   sums         of floats are whole numbers, small enough that the sum of their magnitudes over all ranks is exact in
//                the type: that limits the ranks (most_ranks). An avg divides it once, in float32 or float64.
//   products     of floats are of 1 and -1, and of 2 and 1/2 on at most 8 ranks of a position.
//   band, bor,   of any bits but the lowest, which is 1 in every sample of band and 0 in those of the others. So many
//   bxor         bits of a sample are set that a quarter to three quarters of the answer's are, whatever the ranks.
//   premul_sum   expects rank r to scale its samples by factor(r).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "banyan/element/data_type.h"
#include "banyan/schedule/collective.h"

namespace banyan::run {

class KnownData {
 public:
  struct Options {
    uint32_t ranks = 1;
    bool reduces = false;  // else elements are moved, and the op plays no part
    element::Reduction reduction;
  };

  // Throws Error{unsupported} beyond most_ranks(), Error{invalid_input} for what expect_reducible() refuses when it
  // reduces. That costs 8 bytes for each of p positions, and p * ranks steps, for band and bor times log2(ranks).
  // Immutable: any thread may read.
  explicit KnownData(const Options& options);
  KnownData(const Collective& collective, const element::Reduction& reduction);

  // How many ranks can have an exact answer: 256 for a sum of bfloat16, 2,048 of float16, 2^20 where nothing limits
  // them.
  static uint32_t most_ranks(const Options& options);
  // What premul_sum multiplies the samples of a rank by: 1 or 2.
  static double factor(uint32_t rank) { return rank % 2 == 0 ? 1 : 2; }

  // Writes the samples of `rank` at positions [begin, end) of the buffer.
  void fill(std::span<std::byte> into, uint32_t rank, uint64_t begin, uint64_t end) const;
  // Writes what no right answer has anywhere, so that a place nobody wrote to is seen, and what ruins the result when
  // it is taken for an operand.
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
  // A sample or an answer: `whole` of integers, modulo 2^64, `real` of floats.
  union Value {
    int64_t whole;
    double real;
  };

  bool is_product() const { return options_.reduces && options_.reduction.op == element::ReduceOp::prod; }
  bool combines_bits() const { return options_.reduces && is_bitwise(options_.reduction.op); }
  void choose_range();
  void reduce_noise();
  Value noise(uint32_t rank, uint32_t position) const;
  int64_t noise_bits(uint32_t rank, uint32_t position) const;
  Value combined(Value left, Value right) const;
  // The noise of a position, or what became of it, at a position further on by `laps` periods.
  Value drifted(Value noise, uint64_t laps, int64_t summands) const;
  Value averaged(Value sum) const;
  void write_samples(std::span<std::byte> into, uint32_t rank, uint64_t begin) const;
  void write_answers(std::span<std::byte> into, uint32_t owner, uint64_t begin) const;
  template <typename Make>
  void write(std::span<std::byte> into, uint64_t begin, const Make& value_at) const;
  void encode(std::byte* into, std::span<const Value> values) const;
  template <typename T>
  void encode_as(std::byte* into, std::span<const Value> values) const;

  Options options_;
  bool is_floating_;
  int64_t least_ = 0, most_ = 0;  // of the noise, before it is made even
  uint64_t drifts_ = 1;
  uint32_t bits_ = 0;                 // of bitwise reductions: those of a sample above the lowest, which rotate
  uint32_t live_every_ = 1;           // in products of floats, one in so many ranks is not of magnitude 1
  std::vector<Value> reduced_noise_;  // over all ranks, by position mod p
};

}  // namespace banyan::run
