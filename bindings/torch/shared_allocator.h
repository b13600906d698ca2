// SharedAllocator: tensors in memory that the ranks of a host read directly.
//
// PyTorch asks one allocator for all CPU memory. While this one is in its place, storages from kLeastBytes on are cut
// from registered regions (run/host/regions.h); smaller ones, and all where no shared memory is left, come from
// PyTorch's own. Memory that is freed is kept for the next tensor of the same size class, since regions are dear to
// make and peers have them mapped.
#pragma once

#include <cstddef>
#include <cstdint>

namespace banyan::pytorch {

class SharedAllocator {
 public:
  static constexpr size_t kLeastBytes = 64 << 10;

  // Puts this allocator in its place, or PyTorch's own back. Memory that either has allocated stays valid. Any thread;
  // those that allocate meanwhile may use either.
  static void use(bool is_shared);
  static bool is_used();
  // Gives memory that no tensor uses back to the system.
  static void trim();

  struct Usage {
    uint64_t used_bytes = 0, kept_bytes = 0;
  };
  static Usage usage();
};

}  // namespace banyan::pytorch
