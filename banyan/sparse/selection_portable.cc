// The kernels for any machine.
#include "banyan/sparse/selection_loops.h"

namespace banyan::sparse::internal {

const Kernels& portable_kernels() {
  static constexpr Kernels kKernels = {.filter = filter<OneLane>};
  return kKernels;
}

}  // namespace banyan::sparse::internal
