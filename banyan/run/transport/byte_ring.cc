#include "banyan/run/transport/byte_ring.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::run {
namespace {

constexpr size_t kCacheLine = 64;

}  // namespace

// The bytes follow it in memory.
struct alignas(kCacheLine) ByteRing::Head {
  alignas(kCacheLine) std::atomic<uint64_t> written{0};
  alignas(kCacheLine) std::atomic<uint64_t> read{0};
  alignas(kCacheLine) std::atomic<uint32_t> writer_waits{0};
  alignas(kCacheLine) std::atomic<uint32_t> reader_waits{0};
};

size_t ByteRing::memory_bytes(size_t capacity) { return sizeof(Head) + capacity; }

void ByteRing::create(std::byte* memory) { new (memory) Head; }

ByteRing::ByteRing(std::byte* memory, size_t capacity)
    : head_(reinterpret_cast<Head*>(memory)), bytes_(memory + sizeof(Head)), capacity_(capacity) {
  CHECK(std::has_single_bit(capacity)) << capacity << " bytes";
}

size_t ByteRing::room() const {
  const uint64_t taken = head_->written.load(std::memory_order_relaxed) - head_->read.load(std::memory_order_seq_cst);
  if (taken > capacity_) throw Error(ErrorCode::io, "a reader in shared memory does not keep to the rules");
  return capacity_ - static_cast<size_t>(taken);
}

size_t ByteRing::write(std::span<const std::byte> head, std::span<const std::byte> body) {
  const size_t count = std::min(room(), head.size() + body.size());
  if (count == 0) return 0;
  const uint64_t position = head_->written.load(std::memory_order_relaxed);
  const size_t of_head = std::min(head.size(), count);
  copy_in(position, head.first(of_head));
  copy_in(position + of_head, body.first(count - of_head));
  head_->written.store(position + count, std::memory_order_seq_cst);
  return count;
}

void ByteRing::copy_in(uint64_t position, std::span<const std::byte> bytes) const {
  const size_t first = std::min(bytes.size(), until_wrap(position));
  if (first > 0) std::memcpy(at(position), bytes.data(), first);
  if (first < bytes.size()) std::memcpy(at(position + first), bytes.data() + first, bytes.size() - first);
}

size_t ByteRing::taken() const {
  const uint64_t taken = head_->written.load(std::memory_order_seq_cst) - head_->read.load(std::memory_order_relaxed);
  if (taken > capacity_) throw Error(ErrorCode::io, "a writer in shared memory does not keep to the rules");
  return static_cast<size_t>(taken);
}

std::span<const std::byte> ByteRing::peek() const {
  const uint64_t position = head_->read.load(std::memory_order_relaxed);
  return {at(position), std::min(taken(), until_wrap(position))};
}

void ByteRing::consume(size_t count) {
  const uint64_t position = head_->read.load(std::memory_order_relaxed);
  DCHECK(position + count <= head_->written.load(std::memory_order_relaxed)) << count << " bytes";
  head_->read.store(position + count, std::memory_order_seq_cst);
}

size_t ByteRing::read(std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size()) {
    const std::span<const std::byte> arrived = peek();
    const size_t count = std::min(arrived.size(), into.size() - done);
    if (count == 0) break;
    std::memcpy(into.data() + done, arrived.data(), count);
    consume(count);
    done += count;
  }
  return done;
}

// ---- Sleeping ----

bool ByteRing::reader_sleeps() {
  head_->reader_waits.store(1, std::memory_order_seq_cst);
  return taken() > 0;
}

bool ByteRing::writer_sleeps() {
  head_->writer_waits.store(1, std::memory_order_seq_cst);
  return room() >= capacity_ / 2;
}

// Mostly it is down, and a load does.
bool ByteRing::lower(std::atomic<uint32_t>& flag) {
  return flag.load(std::memory_order_seq_cst) != 0 && flag.exchange(0, std::memory_order_relaxed) != 0;
}

bool ByteRing::shall_wake_reader() { return lower(head_->reader_waits); }

// Half a ring of room is worth a wake-up; a reader that waits for more bytes has emptied it, so this much will come.
bool ByteRing::shall_wake_writer() {
  if (head_->writer_waits.load(std::memory_order_seq_cst) == 0) return false;
  return taken() <= capacity_ / 2 && lower(head_->writer_waits);
}

}  // namespace banyan::run
