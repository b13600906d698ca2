// The cost of a collective beyond the time of its bytes at the busiest link, by size: the form in which measured curves
// are taken to other fabrics.
//
//   time = alpha + (time that the busiest link needs for its bytes) / efficiency
//
// `link` is that of a rank (of a collective over boxes, the sum of a box's network cards). alpha and efficiency hold
// from a size on, as the library switches protocols. The busiest link's bytes come from the schedule that is simulated
// (or the closed form of a ring, busbw_factor); so a curve measured on a box of 8 says how well the library uses
// links, and another fabric says which links there are. Sizes are those of the whole collective (the total M of job.h),
// at the number of ranks it was measured with; alpha at n ranks is alpha * log2(n) / log2(ranks): the steps of trees
// grow so, and rings pipeline theirs.
//
// File: JSON, "banyan": "collective-cost/1", units in texts. Values; pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/job/job.h"
#include "banyan/predict/cost/curve.h"
#include "banyan/predict/cost/devices.h"

namespace banyan::predict {

struct CollectiveCostPiece {
  uint64_t from = 0;  // bytes; the first piece holds below it, too
  Picoseconds alpha{0};
  double efficiency = 1;  // of the bottleneck link, above 0. May exceed 1 where switches reduce.
};

struct CollectiveCost {
  CollectiveKind collective = CollectiveKind::all_reduce;
  uint32_t ranks = 2;  // it was measured with, 2 or more
  Bandwidth link;      // that the efficiencies are of
  // Nobody said which link it was: `link` is the bandwidth that the curve reaches, and takes the place of a fabric's
  // own links where these are not slower. So a prediction of what was measured is the measurement.
  bool as_measured = false;
  std::vector<CollectiveCostPiece> pieces;  // by ascending `from`, at least one
  std::string source;

  const CollectiveCostPiece& piece(uint64_t bytes) const;
  // `busiest`: seconds that the busiest link needs at its full bandwidth. `n`: ranks that take part.
  double seconds(uint64_t bytes, double busiest, uint32_t n) const;
};

struct CostFromCurve {
  CollectiveKind collective = CollectiveKind::all_reduce;
  uint32_t ranks = 0;
  Bandwidth link;  // of a rank, one direction. Zero: not known, so the curve is taken as_measured
  std::string source;
};
// Throws Error{invalid_input} with fewer than two ranks.
CollectiveCost make_collective_cost(const CollectiveCurve& curve, const CostFromCurve& options);

std::string format_collective_costs(std::span<const CollectiveCost> costs);
// Throws Error{invalid_input} with the place in the file.
std::vector<CollectiveCost> parse_collective_costs(std::string_view json);
std::vector<CollectiveCost> read_collective_costs(const std::string& path);  // also Error{not_found, io}

// The cost of this collective whose number of ranks is nearest (in ratio); nullptr if there is none. A reduce-scatter,
// allgather or allreduce stands in for another of the three that has none.
const CollectiveCost* nearest_cost(std::span<const CollectiveCost> costs, CollectiveKind collective, uint32_t ranks);

}  // namespace banyan::predict
