// The kernels for any machine: vectors of 16 bytes in the instructions that every x86-64 has, or whatever the compiler
// makes of them elsewhere.
#include "banyan/element/machine_portable.h"
#include "banyan/element/reduce_loops.h"

namespace banyan::element::internal {

const Kernels& portable_kernels() {
  static constexpr Kernels kKernels = kernels_of<Portable>();
  return kKernels;
}

}  // namespace banyan::element::internal
