// The kernels for x86-64 with AVX-512 F, BW and VL. Compiled for such a machine: nothing here may be called on another.
#include "banyan/element/machine_avx512.h"
#include "banyan/element/reduce_loops.h"

namespace banyan::element::internal {

const Kernels& avx512_kernels() {
  static constexpr Kernels kKernels = kernels_of<Avx512>();
  return kKernels;
}

}  // namespace banyan::element::internal
