// The largest values of a gradient, chosen exactly; the rest stays behind in a residual.
//
// Where `residual` is given, it is added first: u = value + residual. A chosen u is sent and leaves 0 behind, any other
// stays as the residual. So sent + residual afterwards == values + residual before, but for the rounding of u.
//
// Magnitudes are ordered as their bits: NaN above infinity above all else. So what is not finite is sent first, and it
// does not stay: the residual is then what it was, or 0 where it was not finite itself. Zeros are never chosen. Of
// equal magnitudes those of the least index are chosen.
#pragma once

#include <cstddef>
#include <span>

#include "banyan/sparse/row_list.h"

namespace banyan::sparse {

// The `most` largest, ascending by index (rows of width 1); fewer where fewer are not 0. `residual` is empty or as long
// as `values`, which has less than 2^32. By a histogram of the upper 16 bits of the magnitudes and one of the lower
// bits of the last bin: three passes, O(values), 0.4 MiB.
RowList select_largest(std::span<const float> values, std::span<float> residual, size_t most);

}  // namespace banyan::sparse
