// The one place where this binding depends on the version of PyTorch. Built and tested with 1.13.1, 2.6.0 and 2.14.1;
// what is said of other versions follows their headers.
#pragma once

#include <torch/version.h>

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#if TORCH_VERSION_MAJOR > 1
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#define BANYAN_TORCH_SINCE(MAJOR, MINOR) \
  (TORCH_VERSION_MAJOR > (MAJOR) || (TORCH_VERSION_MAJOR == (MAJOR) && TORCH_VERSION_MINOR >= (MINOR)))

// Since 2.1 backends have calls for several tensors at once, on which functional collectives stand, and hand out one
// work for the calls between startCoalescing() and endCoalescing().
#if BANYAN_TORCH_SINCE(2, 1)
#define BANYAN_BACKEND_COALESCES
#endif

// torch.distributed can end a group and change its timeout. Some version after 2.6 began with it; 2.14 has it.
#if BANYAN_TORCH_SINCE(2, 14)
#define BANYAN_BACKEND_ABORTS
#endif

// Groups can be made of groups, by name of `split` and `merge`. As above, 2.14 has it.
#if BANYAN_TORCH_SINCE(2, 14)
#define BANYAN_BACKEND_SPLITS
#endif

// Since 2.3 an allocator may change when it allocates, and copies memory itself.
#if BANYAN_TORCH_SINCE(2, 3)
#define BANYAN_ALLOCATE_CONST
#define BANYAN_ALLOCATOR_COPIES
#else
#define BANYAN_ALLOCATE_CONST const
#endif

static_assert(TORCH_VERSION_MAJOR > 1 || (TORCH_VERSION_MAJOR == 1 && TORCH_VERSION_MINOR >= 13),
              "PyTorch 1.13 or later is needed");

namespace banyan::pytorch {

// Since 2.0 a ProcessGroup dispatches to Backends by device; before, it was the backend itself.
#if TORCH_VERSION_MAJOR > 1
using BackendBase = c10d::Backend;
#else
using BackendBase = c10d::ProcessGroup;
#endif

}  // namespace banyan::pytorch
