// Inside of banyan/sparse: one build of the loops behind selection.h, as a table of functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace banyan::sparse::internal {

// Selects those of the sums values[i], or values[i] + residual[i], whose magnitude is at least `least`: its bits, from
// 1 to 0x7fffffff. `rows` gets first + i, `sums` the sum. Both have room for count + kFilterSlack. A residual becomes
// the sum where that is finite, else it stays, or becomes 0 where it is not finite itself.
struct FilterTask {
  const float* values;
  float* residual;  // or null
  size_t count;
  uint32_t first;
  uint32_t least;
  uint32_t* rows;
  float* sums;
};
inline constexpr size_t kFilterSlack = 16;

struct Kernels {
  size_t (*filter)(const FilterTask& task);  // returns how many there are
};

// Those of another processor are declared everywhere and defined where they can be compiled.
const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

}  // namespace banyan::sparse::internal
