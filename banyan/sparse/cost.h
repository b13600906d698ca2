// The bytes that each way to add up a sparse gradient sends, and the quickest way: laws, not measurements.
//
// Per rank and value of the table, with d the share of rows that one rank has, D that of their union, w the values of a
// row, v the bytes of a value, p those of a position, n ranks:
//
//   dense              2 v (n-1)/n                                       two steps
//   gather_rows        d (v + p/w) (n-1)                                 one step
//   permuted_shards    (d (v + p/w) + D v + 1/(8w)) (n-1)/n              two steps
//   contiguous_shards  as permuted_shards, times the busiest owner's part of the mean
//
// The owners' answers have a bitmap, 1/(8w). With w = 1 this is what ZEN sends (arXiv 2309.13254).
#pragma once

#include <cstdint>
#include <string_view>

namespace banyan::sparse {

enum class Way : uint8_t { dense, gather_rows, permuted_shards, contiguous_shards };
std::string_view to_string(Way way);

struct SparseShape {
  double values = 0;       // of the table
  double rank_share = 1;   // d
  double union_share = 1;  // D; that of the step before, since it changes slowly
  double width = 1;        // w
  double ranks = 1;        // n
  double value_bytes = 4;  // v of the sparse ways; a codec has fewer
  double dense_value_bytes = 4;
  double position_bytes = 4;  // p; gaps are shorter
  double skew = 1;            // busiest owner of contiguous shards over the mean
};

// Bytes that a rank sends; of contiguous_shards, the busiest.
double bytes_sent(Way way, const SparseShape& shape);

struct LinkCost {
  double bytes_per_second = 0;  // of a rank, in each direction
  double latency_seconds = 0;   // of a step
};
double seconds(Way way, const SparseShape& shape, const LinkCost& link);

// The quickest; among equals the first of the enumerators.
Way choose_way(const SparseShape& shape, const LinkCost& link);

}  // namespace banyan::sparse
