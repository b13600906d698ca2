#include "banyan/sparse/cost.h"

#include <array>

namespace banyan::sparse {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"dense", "gather_rows", "permuted_shards", "contiguous_shards"};

}  // namespace

std::string_view to_string(Way way) { return kNames[static_cast<size_t>(way)]; }

double bytes_sent(Way way, const SparseShape& shape) {
  const double others = shape.ranks - 1;
  // A rank's own rows: values and positions.
  const double own = shape.rank_share * (shape.value_bytes + shape.position_bytes / shape.width);
  if (way == Way::dense) return shape.values * 2 * shape.dense_value_bytes * others / shape.ranks;
  if (way == Way::gather_rows) return shape.values * own * others;
  // The owners' answers: the rows of the union, and a bitmap.
  const double answer = shape.union_share * shape.value_bytes + 1 / (8 * shape.width);
  const double permuted = shape.values * (own + answer) * others / shape.ranks;
  return way == Way::permuted_shards ? permuted : permuted * shape.skew;
}

double seconds(Way way, const SparseShape& shape, const LinkCost& link) {
  const double steps = way == Way::gather_rows ? 1 : 2;
  return bytes_sent(way, shape) / link.bytes_per_second + steps * link.latency_seconds;
}

Way choose_way(const SparseShape& shape, const LinkCost& link) {
  Way best = Way::dense;
  for (const Way way : {Way::gather_rows, Way::permuted_shards, Way::contiguous_shards}) {
    if (seconds(way, shape, link) < seconds(best, shape, link)) best = way;
  }
  return best;
}

}  // namespace banyan::sparse
