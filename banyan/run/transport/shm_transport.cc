#include "banyan/run/transport/shm_transport.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <new>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/run/system/futex.h"
#include "banyan/run/system/shared_memory.h"

namespace banyan {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kSmallestRing = 4096;
// How often a rank lets others run before it asks the kernel to put it to sleep, which costs more to undo.
constexpr int kYields = 16;

struct alignas(kCacheLine) RingHead {
  alignas(kCacheLine) std::atomic<uint64_t> written{0};
  alignas(kCacheLine) std::atomic<uint64_t> read{0};
  std::atomic<uint32_t> writer_waits{0};
};

struct alignas(kCacheLine) Doorbell {
  std::atomic<uint32_t> rings{0};
  std::atomic<uint32_t> asleep{0};

  void ring() {
    rings.fetch_add(1, std::memory_order_seq_cst);
    if (asleep.load(std::memory_order_seq_cst) != 0) futex_wake_all(rings);
  }
};

// One rank's hold of a ring; the bytes follow the head in memory.
struct Ring {
  RingHead* head = nullptr;
  std::byte* bytes = nullptr;
  size_t capacity = 0;  // a power of two

  std::byte* at(uint64_t position) const { return bytes + (position & (capacity - 1)); }
  size_t until_wrap(uint64_t position) const { return capacity - (position & (capacity - 1)); }
};

struct Peer {
  Ring to, from;
  Doorbell* doorbell = nullptr;
};

class ShmTransport : public Transport {
 public:
  ShmTransport(std::vector<Peer> peers, Doorbell& doorbell) : peers_(std::move(peers)), doorbell_(doorbell) {
    seen_ = doorbell_.rings.load(std::memory_order_acquire);
  }

  size_t write(uint32_t peer, std::span<const std::byte> head, std::span<const std::byte> body) override {
    const Ring& ring = peers_[peer].to;
    const size_t wanted = head.size() + body.size();
    const uint64_t position = ring.head->written.load(std::memory_order_relaxed);
    const size_t count = std::min(room(ring, position, wanted), wanted);
    if (count == 0) return 0;
    const size_t of_head = std::min(head.size(), count);
    copy_in(ring, position, head.first(of_head));
    copy_in(ring, position + of_head, body.first(count - of_head));
    ring.head->written.store(position + count, std::memory_order_release);
    peers_[peer].doorbell->ring();
    return count;
  }

  std::span<const std::byte> peek(uint32_t peer) override {
    const Ring& ring = peers_[peer].from;
    const uint64_t position = ring.head->read.load(std::memory_order_relaxed);
    const uint64_t arrived = ring.head->written.load(std::memory_order_acquire) - position;
    return {ring.at(position), std::min<size_t>(arrived, ring.until_wrap(position))};
  }

  void consume(uint32_t peer, size_t count) override {
    const Ring& ring = peers_[peer].from;
    const uint64_t position = ring.head->read.load(std::memory_order_relaxed);
    DCHECK(position + count <= ring.head->written.load(std::memory_order_relaxed)) << count << " bytes";
    // Sequentially consistent, with the writer's in room(): either it sees this position, or we see that it waits.
    ring.head->read.store(position + count, std::memory_order_seq_cst);
    if (ring.head->writer_waits.load(std::memory_order_seq_cst) == 0) return;
    ring.head->writer_waits.store(0, std::memory_order_relaxed);
    peers_[peer].doorbell->ring();
  }

  size_t read(uint32_t peer, std::span<std::byte> into) override {
    size_t done = 0;
    while (done < into.size()) {
      const std::span<const std::byte> arrived = peek(peer);
      const size_t count = std::min(arrived.size(), into.size() - done);
      if (count == 0) break;
      std::memcpy(into.data() + done, arrived.data(), count);
      consume(peer, count);
      done += count;
    }
    return done;
  }

  void wait(std::chrono::milliseconds at_most) override {
    for (int i = 0; i < kYields && doorbell_.rings.load(std::memory_order_acquire) == seen_; ++i) sched_yield();
    // A peer increases `rings` and then looks at `asleep`; we do it the other way round. In every order of the two,
    // either it wakes us or we do not sleep.
    doorbell_.asleep.store(1, std::memory_order_seq_cst);
    if (doorbell_.rings.load(std::memory_order_seq_cst) == seen_) futex_wait(doorbell_.rings, seen_, at_most);
    doorbell_.asleep.store(0, std::memory_order_relaxed);
    // What is rung from here on finds us awake, and makes the next wait() return at once.
    seen_ = doorbell_.rings.load(std::memory_order_acquire);
  }

 private:
  // How many bytes fit. When they are fewer than wanted, the reader will ring.
  static size_t room(const Ring& ring, uint64_t position, size_t wanted) {
    const auto free = [&](std::memory_order order) {
      return ring.capacity - static_cast<size_t>(position - ring.head->read.load(order));
    };
    if (const size_t now = free(std::memory_order_acquire); now >= wanted) return now;
    ring.head->writer_waits.store(1, std::memory_order_seq_cst);
    return free(std::memory_order_seq_cst);
  }

  static void copy_in(const Ring& ring, uint64_t position, std::span<const std::byte> bytes) {
    const size_t first = std::min(bytes.size(), ring.until_wrap(position));
    if (first > 0) std::memcpy(ring.at(position), bytes.data(), first);
    if (first < bytes.size()) std::memcpy(ring.at(position + first), bytes.data() + first, bytes.size() - first);
  }

  std::vector<Peer> peers_;
  Doorbell& doorbell_;
  uint32_t seen_;  // the doorbell's count when this rank last began to look at its rings
};

// The memory: a doorbell per rank, then for every pair of ranks the two rings between them.
class ShmMeeting : public Meeting {
 public:
  ShmMeeting(PeerLists peers, size_t ring_bytes)
      : peers_(std::move(peers)), ring_bytes_(ring_bytes), memory_(layout()) {
    for (size_t rank = 0; rank < peers_.size(); ++rank) new (doorbell(rank)) Doorbell;
    for (const auto& offsets : ring_offset_) {
      for (const size_t offset : offsets) new (memory_.data() + offset) RingHead;
    }
  }

  std::unique_ptr<Transport> join(uint32_t rank) override {
    std::vector<Peer> ends(peers_.size());
    for (size_t i = 0; i < peers_[rank].size(); ++i) {
      const uint32_t peer = peers_[rank][i];
      const auto back = std::lower_bound(peers_[peer].begin(), peers_[peer].end(), rank) - peers_[peer].begin();
      ends[peer] = {.to = ring(ring_offset_[rank][i]),
                    .from = ring(ring_offset_[peer][static_cast<size_t>(back)]),
                    .doorbell = doorbell(peer)};
    }
    return std::make_unique<ShmTransport>(std::move(ends), *doorbell(rank));
  }

 private:
  size_t layout() {
    size_t size = peers_.size() * sizeof(Doorbell);
    for (const auto& peers : peers_) {
      auto& offsets = ring_offset_.emplace_back();
      for (size_t i = 0; i < peers.size(); ++i) {
        offsets.push_back(size);
        size += sizeof(RingHead) + ring_bytes_;
      }
    }
    return size;
  }

  Doorbell* doorbell(size_t rank) const { return reinterpret_cast<Doorbell*>(memory_.data()) + rank; }
  Ring ring(size_t offset) const {
    return {.head = reinterpret_cast<RingHead*>(memory_.data() + offset),
            .bytes = memory_.data() + offset + sizeof(RingHead),
            .capacity = ring_bytes_};
  }

  PeerLists peers_;
  std::vector<std::vector<size_t>> ring_offset_;  // of the ring from a rank to each of its peers
  size_t ring_bytes_;
  SharedMemory memory_;
};

}  // namespace

std::unique_ptr<Meeting> make_shm_meeting(PeerLists peers, const ShmOptions& options) {
  size_t rings = 0;
  for (const auto& list : peers) rings += list.size();
  const size_t affordable = std::bit_floor(std::max(options.total_bytes / std::max<size_t>(rings, 1), kSmallestRing));
  const size_t wanted = std::bit_ceil(std::max(options.ring_bytes, kSmallestRing));
  return std::make_unique<ShmMeeting>(std::move(peers), std::min(affordable, wanted));
}

}  // namespace banyan
