// The kernels for x86-64 with AVX2 and F16C. Compiled for such a machine: nothing here may be called on another.
#include "banyan/element/machine_avx2.h"
#include "banyan/element/reduce_loops.h"

namespace banyan::element::internal {

const Kernels& avx2_kernels() {
  static constexpr Kernels kKernels = kernels_of<Avx2>();
  return kKernels;
}

}  // namespace banyan::element::internal
