// The owner of each row of a sparse table: the rank that adds it up.
//
// Rows that are used are dense at the beginning of a table, since vocabularies are sorted by frequency: if shards were
// made of neighbouring rows, the busiest would have several times the mean. So rows are permuted first, row x to
//
//   y = a * x mod rows,   gcd(a, rows) = 1,   a near the golden ratio times rows,
//
// which spreads any run of neighbours evenly (three-distance theorem), needs no table, and loses no row for any number
// of rows and shards. Shard s holds the y from ceil(s * rows / shards) on; `position` counts from there.
// Shards differ by one row at most.
//
// Equal rows, shards and seed give equal shards on every machine. The idea of shards by hash is ZEN's (arXiv
// 2309.13254, section 3); there hash tables find the owner, here a bijection does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "banyan/sparse/row_list.h"

namespace banyan::sparse {

class RowShards {
 public:
  // Both at least 1. The seed chooses among the multipliers near the golden ratio; all ranks give the same.
  RowShards(uint32_t rows, uint32_t shards, uint64_t seed);

  uint32_t rows() const { return rows_; }
  uint32_t shards() const { return shards_; }
  uint32_t multiplier() const { return multiplier_; }
  uint32_t rows_of(uint32_t shard) const { return first_[shard + 1] - first_[shard]; }  // 0 where shards outnumber rows

  struct Place {
    uint32_t shard = 0, position = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  Place place_of(uint32_t row) const;     // row < rows(); O(1), some multiplications
  uint32_t row_at(Place place) const;     // its inverse
  uint32_t permuted(uint32_t row) const;  // y: by it, places are in the order of shards and then of positions
  uint32_t first_of(uint32_t shard) const { return first_[shard]; }  // the y of position 0; rows() behind the last

 private:
  uint32_t rows_, shards_;
  uint32_t multiplier_, inverse_;
  uint64_t multiplier_ratio_, inverse_ratio_, reciprocal_;  // see multiply_mod in the .cc
  std::vector<uint32_t> first_;
};

// Places of a list of rows, in the order of shards and of positions in them; rows that are there twice stay in the
// order of the list. Shard s has the entries [first[s], first[s + 1]).
struct RowPartition {
  std::vector<size_t> first;
  std::vector<uint32_t> positions;
  std::vector<uint32_t> sources;  // where in the list
};

// A radix sort: O(rows.size()), two passes up to 4 Mi rows of a table, three beyond. Throws Error{invalid_input}, which
// names the place in the list, for a row that the table does not have, and for 2^32 rows or more.
RowPartition partition(const RowShards& shards, std::span<const int64_t> rows);
RowPartition partition(const RowShards& shards, std::span<const uint32_t> rows);

// The rows of one shard by position, of a list whose entry i has values [i * width, (i + 1) * width). The values of a
// row that is there several times are added in the order of the list.
RowList rows_of_shard(const RowPartition& partition, uint32_t shard, std::span<const float> values, size_t width);

}  // namespace banyan::sparse
