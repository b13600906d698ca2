// SlotPool: blocks of memory that are taken and given back often. A block that is given back serves later takers of
// about the same size, so that a steady load allocates nothing.
//
// One thread. Every block has been given back before the pool ends, as CHECK demands.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace banyan::run {

class SlotPool {
 public:
  SlotPool() = default;
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;
  ~SlotPool();

  // At least so many bytes, in cache lines of their own. Blocks are of 2^k bytes.
  std::byte* take(size_t bytes);
  // `bytes` as it was asked for.
  void give_back(std::byte* block, size_t bytes) noexcept;

  // Bytes of all blocks, taken or not; of those taken.
  size_t held_bytes() const { return held_bytes_; }
  size_t taken_bytes() const { return taken_bytes_; }

 private:
  static constexpr size_t kClasses = 64;

  std::array<std::vector<std::byte*>, kClasses> free_{};  // by the exponent of the size
  size_t made_[kClasses] = {};                            // blocks that there are, taken or free
  size_t held_bytes_ = 0, taken_bytes_ = 0;
};

}  // namespace banyan::run
