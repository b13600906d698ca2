// Where this binding depends on the version of PyTorch, and nowhere else. Built and tested with 1.13.1; what is said of
// later versions follows their headers.
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

// Since 2.3 an allocator may change when it allocates, and copies memory itself.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
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
