// The largest values of a gradient, chosen exactly or by a threshold; the rest stays behind in a residual.
//
// The residual, if there is one, is added first: u = value + residual. A chosen u is sent and leaves 0 behind, any
// other stays as the residual. So sent + residual afterwards == values + residual before, but for the rounding of u.
//
// Magnitudes are ordered as their bits: NaN above infinity above all else. So what is not finite is sent first, and it
// does not stay: the residual is then what it was, or 0 where it was not finite itself. Zeros are never chosen.
//
// Portable code, AVX2 and AVX-512 (element/isa.h) choose the same values. `residual` is empty or as long as `values`,
// which has less than 2^32. Results are rows of width 1, ascending by index; `chosen` is overwritten and keeps its
// memory, since to take new memory costs as much as to select.
#pragma once

#include <cstddef>
#include <span>

#include "banyan/sparse/row_list.h"

namespace banyan::sparse {

// The `most` largest, and of equal magnitudes those of the least index; fewer where fewer are not 0.
//
// One pass over the values: a sample tells a threshold that somewhat more than `most` values very likely reach, and
// among those that do, two histograms find where the largest end: one of the upper 16 bits of the magnitudes, one of
// the lower bits of the last bin. If too few reach it, a second pass finds a threshold by a histogram of all values. So
// the result does not depend on the sample. O(values), and 8 bytes for each of those that reach the threshold.
void select_largest(std::span<const float> values, std::span<float> residual, size_t most, RowList& chosen);
inline RowList select_largest(std::span<const float> values, std::span<float> residual, size_t most) {
  RowList chosen;
  select_largest(values, residual, most, chosen);
  return chosen;
}

// A magnitude that about `most` of the sums reach, from one in a hundred of them, drawn all over: the mean number is
// `most`, its standard deviation 10 sqrt(most). (Deep Gradient Compression, arXiv 1712.01887, section 3.2.) Not 0; of
// less than 10,000 values it is exact, ties aside.
float sampled_threshold(std::span<const float> values, std::span<const float> residual, size_t most);

// All that reach the magnitude, which is finite or infinite, in one pass. All of them: to cut a list off by index would
// send low indices only.
void select_above(std::span<const float> values, std::span<float> residual, float threshold, RowList& chosen);
inline RowList select_above(std::span<const float> values, std::span<float> residual, float threshold) {
  RowList chosen;
  select_above(values, residual, threshold, chosen);
  return chosen;
}

}  // namespace banyan::sparse
