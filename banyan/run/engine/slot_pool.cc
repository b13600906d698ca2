#include "banyan/run/engine/slot_pool.h"

#include <bit>
#include <new>

#include "banyan/base/check.h"

namespace banyan::run {
namespace {

constexpr std::align_val_t kLine{64};

size_t exponent(size_t bytes) { return bytes <= 64 ? 6 : static_cast<size_t>(std::bit_width(bytes - 1)); }

}  // namespace

SlotPool::~SlotPool() {
  CHECK_EQ(taken_bytes_, 0u) << "bytes of slots are still in use";
  for (const std::vector<std::byte*>& blocks : free_) {
    for (std::byte* const block : blocks) ::operator delete(block, kLine);
  }
}

std::byte* SlotPool::take(size_t bytes) {
  const size_t k = exponent(bytes), size = size_t{1} << k;
  std::vector<std::byte*>& blocks = free_[k];
  if (!blocks.empty()) {
    std::byte* const block = blocks.back();
    blocks.pop_back();
    taken_bytes_ += size;
    return block;
  }
  // Room for all that can come back, so that giving back needs no memory.
  if (blocks.capacity() <= made_[k]) blocks.reserve(2 * made_[k] + 4);
  auto* const block = static_cast<std::byte*>(::operator new(size, kLine));
  ++made_[k];
  held_bytes_ += size;
  taken_bytes_ += size;
  return block;
}

void SlotPool::give_back(std::byte* block, size_t bytes) noexcept {
  const size_t k = exponent(bytes);
  taken_bytes_ -= size_t{1} << k;
  free_[k].push_back(block);
}

}  // namespace banyan::run
