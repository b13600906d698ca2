#include "bindings/torch/shared_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/compose/settings.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/fork_guard.h"
#include "bindings/torch/torch_version.h"

namespace banyan::pytorch {
namespace {

// Above PyTorch's own, which is registered with 0.
constexpr uint8_t kPriority = 1;

// Sizes are rounded up so that at most an eighth is wasted and few classes exist.
size_t class_of(size_t bytes) {
  const size_t step = std::max(std::bit_floor(bytes) / 8, size_t{4096});
  return (bytes + step - 1) / step * step;
}

// Blocks of one size class are cut from a slab, which is a region; there can be a few thousand regions.
constexpr size_t kSlabBytes = 4 << 20;

class Blocks {
 public:
  // Null when there is no shared memory left, or in a process that was forked: its parent uses the same blocks.
  void* take(size_t bytes) {
    if (fork_guard_.is_in_child()) return nullptr;
    const size_t size = class_of(bytes);
    const std::lock_guard lock(mutex_);
    std::vector<void*>& kept = kept_[size];
    if (kept.empty() && !add_slab(size, kept)) return nullptr;
    void* const block = kept.back();
    kept.pop_back();
    ++slab_of(block).used;
    usage_.used_bytes += size;
    usage_.kept_bytes -= size;
    return block;
  }

  // False when it is none of these.
  bool give(void* block) {
    const std::lock_guard lock(mutex_);
    const auto found = find(block);
    if (found == slabs_.end()) return false;
    --found->second.used;
    const size_t size = found->second.block_bytes;
    usage_.used_bytes -= size;
    usage_.kept_bytes += size;
    kept_[size].push_back(block);
    return true;
  }

  void trim() {
    if (fork_guard_.is_in_child()) return;
    const std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : kept_) {
      std::erase_if(blocks, [&](void* block) { return slab_of(block).used == 0; });
    }
    for (auto slab = slabs_.begin(); slab != slabs_.end();) {
      if (slab->second.used > 0) {
        ++slab;
        continue;
      }
      usage_.kept_bytes -= slab->second.blocks * slab->second.block_bytes;
      compose::region_pool().free(slab->first);
      slab = slabs_.erase(slab);
    }
  }

  SharedAllocator::Usage usage() {
    const std::lock_guard lock(mutex_);
    return usage_;
  }

 private:
  struct Slab {
    size_t block_bytes = 0, blocks = 0, used = 0;
  };
  using Slabs = std::map<std::byte*, Slab>;  // by where they begin

  Slabs::iterator find(void* block) {
    auto* const bytes = static_cast<std::byte*>(block);
    auto next = slabs_.upper_bound(bytes);
    if (next == slabs_.begin()) return slabs_.end();
    --next;
    return bytes < next->first + next->second.blocks * next->second.block_bytes ? next : slabs_.end();
  }
  Slab& slab_of(void* block) { return find(block)->second; }

  bool add_slab(size_t size, std::vector<void*>& kept) {
    const size_t blocks = std::max(kSlabBytes / size, size_t{1});
    std::byte* slab = nullptr;
    try {
      slab = compose::region_pool().allocate(blocks * size);
    } catch (const Error& error) {
      if (!std::exchange(has_warned_, true)) {
        BANYAN_LOG(warning) << "tensors are no longer made in shared memory: " << error.what();
      }
      return false;
    }
    slabs_[slab] = {.block_bytes = size, .blocks = blocks, .used = 0};
    for (size_t i = blocks; i-- > 0;) kept.push_back(slab + i * size);
    usage_.kept_bytes += blocks * size;
    return true;
  }

  const run::ForkGuard fork_guard_;
  std::mutex mutex_;  // protects the rest
  std::map<size_t, std::vector<void*>> kept_;
  Slabs slabs_;
  SharedAllocator::Usage usage_;
  bool has_warned_ = false;
};

Blocks& blocks() {
  static auto* const blocks = new Blocks();  // tensors may outlive everything
  return *blocks;
}

void give_back(void* block) { blocks().give(block); }

// Of memory that may come from either allocator.
void free_any(void* memory) {
  if (memory != nullptr && !blocks().give(memory)) c10::GetDefaultCPUAllocator()->raw_deallocate(memory);
}

// DataPtrs say themselves how they are freed, so that both allocators may be in use.
class Allocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) BANYAN_ALLOCATE_CONST override {
    if (bytes >= SharedAllocator::kLeastBytes) {
      if (void* const block = blocks().take(bytes)) {
        return {block, block, &give_back, c10::Device(c10::DeviceType::CPU)};
      }
    }
    return c10::GetDefaultCPUAllocator()->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_any; }
#ifdef BANYAN_ALLOCATOR_COPIES
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
#endif
};

std::atomic<bool> is_shared_now{false};

}  // namespace

void SharedAllocator::use(bool is_shared) {
  static auto* const allocator = new Allocator();
  blocks();
  compose::region_pool();
  c10::SetAllocator(c10::DeviceType::CPU,
                    is_shared ? static_cast<c10::Allocator*>(allocator) : c10::GetDefaultCPUAllocator(), kPriority);
  is_shared_now.store(is_shared);
}

bool SharedAllocator::is_used() { return is_shared_now.load(); }

void SharedAllocator::trim() { blocks().trim(); }

SharedAllocator::Usage SharedAllocator::usage() { return blocks().usage(); }

}  // namespace banyan::pytorch
