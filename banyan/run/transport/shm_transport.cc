#include "banyan/run/transport/shm_transport.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <new>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/run/system/futex.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/run/transport/byte_ring.h"

namespace banyan::run {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kSmallestRing = 4096;
// How often a rank lets others run before it asks the kernel to put it to sleep, which costs more to undo.
constexpr int kYields = 16;

struct alignas(kCacheLine) Doorbell {
  std::atomic<uint32_t> rings{0};
  std::atomic<uint32_t> asleep{0};

  void ring() {
    rings.fetch_add(1, std::memory_order_seq_cst);
    if (asleep.load(std::memory_order_seq_cst) != 0) futex_wake_all(rings);
  }
};

struct Peer {
  ByteRing to, from;
  Doorbell* doorbell = nullptr;
};

class ShmTransport : public Transport {
 public:
  ShmTransport(std::vector<Peer> peers, Doorbell& doorbell) : peers_(std::move(peers)), doorbell_(doorbell) {
    seen_ = doorbell_.rings.load(std::memory_order_acquire);
  }

  size_t write(uint32_t peer, std::span<const std::byte> head, std::span<const std::byte> body) override {
    ByteRing& ring = peers_[peer].to;
    size_t count = ring.write(head, body);
    if (count < head.size() + body.size()) {
      // Whoever reads from here on will ring; what was read before makes room now.
      ring.writer_waits().store(1, std::memory_order_seq_cst);
      if (count == 0) count = ring.write(head, body);
    }
    if (count > 0) peers_[peer].doorbell->ring();
    return count;
  }

  std::span<const std::byte> peek(uint32_t peer) override { return peers_[peer].from.peek(); }

  void consume(uint32_t peer, size_t count) override {
    peers_[peer].from.consume(count);
    ring_for_room(peers_[peer]);
  }

  size_t read(uint32_t peer, std::span<std::byte> into) override {
    const size_t count = peers_[peer].from.read(into);
    if (count > 0) ring_for_room(peers_[peer]);
    return count;
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
  static void ring_for_room(Peer& peer) {
    if (peer.from.writer_waits().load(std::memory_order_seq_cst) == 0) return;
    peer.from.writer_waits().store(0, std::memory_order_relaxed);
    peer.doorbell->ring();
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
      for (const size_t offset : offsets) ByteRing::create(memory_.data() + offset);
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
        size += ByteRing::memory_bytes(ring_bytes_);
      }
    }
    return size;
  }

  Doorbell* doorbell(size_t rank) const { return reinterpret_cast<Doorbell*>(memory_.data()) + rank; }
  ByteRing ring(size_t offset) const { return {memory_.data() + offset, ring_bytes_}; }

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

}  // namespace banyan::run
