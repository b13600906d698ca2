#include "banyan/sparse/row_shards.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/hash.h"
#include "banyan/base/text.h"

namespace banyan::sparse {
namespace {

using Wide = unsigned __int128;

// floor(2^64 * factor / rows), for factor < rows.
uint64_t ratio_of(uint32_t factor, uint32_t rows) { return static_cast<uint64_t>((Wide{factor} << 64) / rows); }

// factor * x mod rows without a division (Shoup): the quotient is found from the ratio, at most one too small, since
// x < 2^64.
uint32_t multiply_mod(uint32_t factor, uint64_t ratio, uint32_t x, uint32_t rows) {
  // One subtraction at most mends the quotient.
  const auto quotient = static_cast<uint64_t>((Wide{ratio} * x) >> 64);
  const uint64_t rest = uint64_t{factor} * x - quotient * rows;
  return static_cast<uint32_t>(rest >= rows ? rest - rows : rest);
}

// The nearest to golden ratio * rows + something from the seed that has no divisor in common with `rows`. The something
// is less than rows / 1024: within it, no fraction of a denominator below 21 is near, which would leave gaps.
uint32_t choose_multiplier(uint32_t rows, uint64_t seed) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / 1.618...
  const auto golden = static_cast<uint32_t>((Wide{kGolden} * rows) >> 64);
  // The seed moves the multiplier by so much at most; then the nearest one without a common divisor is taken.
  const uint32_t reach = rows / 1024;
  const auto offset = static_cast<uint32_t>(mix(seed) % (2 * uint64_t{reach} + 1));
  const int64_t wanted = int64_t{golden} - reach + offset;
  for (int64_t distance = 0;; ++distance) {
    for (const int64_t candidate : {wanted + distance, wanted - distance}) {
      if (candidate < 0 || candidate >= rows) continue;
      if (std::gcd(candidate, int64_t{rows}) == 1) return static_cast<uint32_t>(candidate);
    }
  }
}

// Extended Euclid.
uint32_t inverse_of(uint32_t factor, uint32_t rows) {
  int64_t remainder = rows, next_remainder = factor, coefficient = 0, next_coefficient = 1;
  while (next_remainder > 1) {
    const int64_t quotient = remainder / next_remainder;
    remainder = std::exchange(next_remainder, remainder - quotient * next_remainder);
    coefficient = std::exchange(next_coefficient, coefficient - quotient * next_coefficient);
  }
  return static_cast<uint32_t>(rows == 1 ? 0 : next_coefficient < 0 ? next_coefficient + rows : next_coefficient);
}

// Sorts by the upper half, which is less than `limit`; what is equal there stays in order. `other` is as long.
void radix_sort(std::vector<uint64_t>& keys, std::vector<uint64_t>& other, uint32_t limit) {
  constexpr unsigned kDigitBits = 11;
  constexpr size_t kDigits = size_t{1} << kDigitBits, kMostPasses = 3;
  const auto bits = static_cast<unsigned>(std::bit_width(limit - 1));
  const unsigned passes = std::max(1U, (bits + kDigitBits - 1) / kDigitBits);
  const auto digit = [](uint64_t key, unsigned pass) {
    return static_cast<size_t>(key >> (32 + pass * kDigitBits)) & (kDigits - 1);
  };
  // One look at the keys counts the digits of all passes.
  std::vector<std::array<uint32_t, kDigits>> counts(kMostPasses);
  for (const uint64_t key : keys) {
    for (unsigned pass = 0; pass < passes; ++pass) ++counts[pass][digit(key, pass)];
  }
  for (unsigned pass = 0; pass < passes; ++pass) {
    // Each digit's keys go behind those of all smaller digits, in their order: so each pass keeps what the last one has
    // sorted.
    uint32_t before = 0;
    for (uint32_t& count : counts[pass]) before += std::exchange(count, before);
    for (const uint64_t key : keys) other[counts[pass][digit(key, pass)]++] = key;
    keys.swap(other);
  }
}

template <typename Row>
RowPartition partition_of(const RowShards& shards, std::span<const Row> rows) {
  if (rows.size() > UINT32_MAX) {
    throw invalid("a list of " + with_thousands(rows.size()) + " rows is too long; give less than 2^32 at a time");
  }
  // A key is the permuted row above the place in the list: sorted by the row, equal rows stay in the order of the list.
  std::vector<uint64_t> keys(rows.size()), other(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<uint64_t>(rows[i]);
    if (row >= shards.rows()) {
      throw invalid("entry " + std::to_string(i) + " of the list is row " + std::to_string(rows[i]) +
                    "; the table has rows 0 to " + std::to_string(shards.rows() - 1));
    }
    keys[i] = uint64_t{shards.permuted(static_cast<uint32_t>(row))} << 32 | i;
  }
  radix_sort(keys, other, shards.rows());

  RowPartition result;
  result.first.reserve(shards.shards() + 1);
  result.positions.resize(rows.size());
  result.sources.resize(rows.size());
  // Shards are ranges of permuted rows, so each one is a stretch of the sorted keys.
  size_t i = 0;
  for (uint32_t shard = 0; shard < shards.shards(); ++shard) {
    result.first.push_back(i);
    const uint32_t begin = shards.first_of(shard), end = shards.first_of(shard + 1);
    for (; i < keys.size() && keys[i] >> 32 < end; ++i) {
      result.positions[i] = static_cast<uint32_t>(keys[i] >> 32) - begin;
      result.sources[i] = static_cast<uint32_t>(keys[i]);
    }
  }
  result.first.push_back(i);
  return result;
}

}  // namespace

RowShards::RowShards(uint32_t rows, uint32_t shards, uint64_t seed)
    : rows_(rows), shards_(shards), multiplier_(0), inverse_(0) {
  CHECK(rows > 0 && shards > 0) << rows << " " << shards;
  multiplier_ = choose_multiplier(rows, seed);
  inverse_ = inverse_of(multiplier_, rows);
  // Ratios of both multipliers save a division for each row.
  multiplier_ratio_ = ratio_of(multiplier_, rows);
  inverse_ratio_ = ratio_of(inverse_, rows);
  reciprocal_ = UINT64_MAX / rows;
  first_.reserve(size_t{shards} + 1);
  for (uint64_t shard = 0; shard <= shards; ++shard) {
    first_.push_back(static_cast<uint32_t>((shard * rows + shards - 1) / shards));
  }
}

uint32_t RowShards::permuted(uint32_t row) const { return multiply_mod(multiplier_, multiplier_ratio_, row, rows_); }

RowShards::Place RowShards::place_of(uint32_t row) const {
  DCHECK(row < rows_);
  const uint32_t y = permuted(row);
  // y * shards / rows; the quotient by the reciprocal is at most one too small.
  const uint64_t product = uint64_t{y} * shards_;
  auto shard = static_cast<uint32_t>((Wide{product} * reciprocal_) >> 64);
  if (product - uint64_t{shard} * rows_ >= rows_) ++shard;
  return {.shard = shard, .position = y - first_[shard]};
}

uint32_t RowShards::row_at(Place place) const {
  return multiply_mod(inverse_, inverse_ratio_, first_[place.shard] + place.position, rows_);
}

RowPartition partition(const RowShards& shards, std::span<const int64_t> rows) { return partition_of(shards, rows); }
RowPartition partition(const RowShards& shards, std::span<const uint32_t> rows) { return partition_of(shards, rows); }

RowList rows_of_shard(const RowPartition& partition, uint32_t shard, std::span<const float> values, size_t width) {
  RowList result;
  const size_t begin = partition.first[shard], end = partition.first[shard + 1];
  result.rows.reserve(end - begin);
  result.values.resize((end - begin) * width);
  float* to = result.values.data();
  for (size_t i = begin; i < end; ++i) {
    CHECK((partition.sources[i] + size_t{1}) * width <= values.size()) << partition.sources[i] << " " << values.size();
    const float* from = values.data() + partition.sources[i] * width;
    // A row that comes again is added to the one just written.
    if (i > begin && partition.positions[i] == partition.positions[i - 1]) {
      for (size_t j = 0; j < width; ++j) to[j - width] += from[j];
    } else {
      result.rows.push_back(partition.positions[i]);
      std::memcpy(to, from, width * sizeof(float));
      to += width;
    }
  }
  result.values.resize(result.rows.size() * width);
  return result;
}

}  // namespace banyan::sparse
