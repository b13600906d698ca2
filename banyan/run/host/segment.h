// Segment: the memory in which the ranks of one host that belong to a communicator meet.
//
// For every local rank it holds
//   posts      what this rank offers in its last kPosts operations, written once per operation. The sequence number,
//              stored last, says that the rest is there. A little data travels in the post itself, so that a small
//              operation costs a cache line or two from each peer and nothing else.
//   records    what it calls in these operations, for those who find that they called something else.
//   progress   three counters, a cache line each: blocks staged, reduced and collected. A counter is
//              `operation << kBlockBits | blocks` and only grows; when an operation is over it becomes that of the
//              next.
//   here       whether it has come.
//   staging    kBlocks blocks in which the data of buffers that peers cannot see passes by, and as many for results.
//              Data that is offered whole takes less than a block: for it the same memory is kSlots slots.
//   boxes      one for each peer, through which messages to this peer are offered (mailboxes.h), and some memory for
//              each, in which a message lies until it is taken, even when its sender has left.
//   bell       a word to sleep on, and whether it does.
//   farewell   whether it will send no message any more.
// and for all: how many sleep, and the error that ended the group, if one did.
//
// The parts that every rank looks at lie in front, and their pages are there from the beginning. The pages of staging
// blocks and of boxes come when their rank first writes to them (*_to_write): programs make many groups and use few of
// them for much.
//
// Everything in it is written by one rank and read by the others (the error: by the first who sets it). Nothing in it
// is trusted as an address or a length before it was compared with what the reader expects. The memory has no pointers,
// and lies at different addresses in different processes.
//
// Orders (testing/orders). Sequence numbers, counters and signs are stored with release and loaded with acquire: the
// data that they announce goes with them. A sleeper must not miss what is published meanwhile: publish() and
// break_with() store and then look at `sleepers` or `asleep`, sequentially consistent; fall_asleep() stores these
// relaxed, and has a fence between that and the look of the sleeper, which may look with acquire. If sleepers make
// barriers, these stand for the fence and for that of publish(), whose store is a release there. A ring is a release,
// since the ringing rank may have stored something before; `rings` is read relaxed, since the fence or the barrier
// comes after. `asleep` and `sleepers` are taken back relaxed: to be rung once more does no harm. A record may be
// overwritten while it is read: its numbers are stored with release and loaded with acquire, so that a reader of a new
// one sees the post before it. The counts of ranks that can attach and that make barriers go with `here`.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "banyan/run/system/memory_barrier.h"
#include "banyan/run/system/shared_memory.h"

namespace banyan::run {

constexpr size_t kCacheLine = 64;

// The offer of a rank to its peers in one operation. The second line is touched by more than 40 bytes of data only.
struct alignas(2 * kCacheLine) Post {
  static constexpr size_t kInlineBytes = 104;

  // The place where peers can reach a buffer.
  struct View {
    uint64_t region = 0;  // a RegionId of its owner; 0: peers cannot reach it, so it is staged
    uint64_t offset = 0;  // within the region
  };

  std::atomic<uint64_t> sequence{0};  // of the operation
  uint64_t signature = 0;             // of the call: kind, type, op, root, counts
  uint32_t kind = 0;                  // how the data is offered: Exchange knows the numbers
  union {
    uint32_t stride = 0;  // bytes between the pieces of two ranks; of a stream, also what a block holds of each
    uint32_t tag;         // of a message
  };
  union {
    std::byte bytes[kInlineBytes];
    struct {
      View input, output;
      uint64_t front;  // of a stream: bytes of the input that it does not have, for peers to attach to
    } views;
  };
};
static_assert(sizeof(Post) == 2 * kCacheLine);

// The call of a rank, in numbers that mean nothing here.
class alignas(kCacheLine) CallRecord {
 public:
  using Numbers = std::array<uint64_t, 4>;

  void write(const Numbers& numbers) {
    for (size_t i = 0; i < numbers.size(); ++i) numbers_[i].store(numbers[i], std::memory_order_release);
  }
  Numbers read() const {
    Numbers numbers;
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = numbers_[i].load(std::memory_order_acquire);
    return numbers;
  }

 private:
  std::array<std::atomic<uint64_t>, 4> numbers_{};
};

struct alignas(kCacheLine) Counter {
  std::atomic<uint64_t> value{0};
};

// Messages from one rank to another, one at a time.
struct Box {
  Post post;      // written by the sender; its sequence number counts messages, its signature is their MessageShape
  Counter sent;   // by the sender: `message << 32 | pieces` that lie in the sender's memory for streams
  Counter taken;  // by the receiver: the same, of those it has taken; `message + 1 << 32` when it has all
};

struct alignas(kCacheLine) Bell {
  std::atomic<uint32_t> rings{0};
  std::atomic<uint32_t> asleep{0};
};

class Segment {
 public:
  static constexpr uint32_t kPosts = 16;
  static constexpr uint32_t kBlockBits = 24;  // of counters
  static constexpr uint32_t kBlocks = 4;
  static constexpr uint32_t kSlots = 2 * kBlocks;
  static constexpr uint32_t kMaxRanks = 256;

  struct Options {
    uint32_t ranks = 0;
    size_t block_bytes = size_t{128} << 10;  // of a staging block; a multiple of 4096
  };

  Segment() = default;  // none
  // Makes one. Throws Error{io}.
  static Segment make(const Options& options);
  // Joins one that another process of this host made. Throws Error{io}, Error{peer_lost}, Error{mismatch} when it is
  // none, or one of another version.
  static Segment attach(pid_t owner, int fd, const Options& options);

  // Beginning: every rank says that it is here, whether it can attach to all others' memory, and whether it seldom
  // sleeps. The functions below tell whether a rank has said so, how many have, and how many of them can attach.
  void say_here(uint32_t rank, bool can_attach, bool seldom_sleeps);
  bool is_here(uint32_t rank) const { return counter(rank, 5).value.load(std::memory_order_acquire) != 0; }
  uint32_t here() const { return head().here.load(std::memory_order_acquire); }
  uint32_t can_attach() const { return head().can_attach.load(std::memory_order_relaxed); }  // once all are here

  // To be called when all are here, before anything is published: chooses, equally on all ranks, whether sleepers make
  // barriers. Nobody can attach any more.
  void settle();
  bool sleepers_make_barriers() const { return sleepers_make_barriers_; }  // as it has chosen

  uint32_t ranks() const { return ranks_; }
  size_t block_bytes() const { return block_bytes_; }
  size_t slot_bytes() const { return block_bytes_ * kBlocks / kSlots; }
  int fd() const { return memory_.fd(); }

  Post& post(uint32_t rank, uint64_t operation) const {
    return *reinterpret_cast<Post*>(rank_base(rank) + (operation % kPosts) * sizeof(Post));
  }
  // To be read only when the post of this operation is there; is_kept() says afterwards whether it still was.
  CallRecord& call_record(uint32_t rank, uint64_t operation) const {
    return reinterpret_cast<CallRecord*>(rank_base(rank) + kPosts * sizeof(Post))[operation % kPosts];
  }
  // True while the rank has not posted the operation before the one that takes the place of this one, and so has not
  // written there.
  bool is_kept(uint32_t rank, uint64_t operation) const {
    const uint64_t last = operation + kPosts - 1;
    return post(rank, last).sequence.load(std::memory_order_relaxed) != last;
  }
  Counter& staged(uint32_t rank) const { return counter(rank, 0); }
  Counter& reduced(uint32_t rank) const { return counter(rank, 1); }
  Counter& collected(uint32_t rank) const { return counter(rank, 2); }
  Counter& farewell(uint32_t rank) const { return counter(rank, 4); }  // not 0: it has left; its boxes stay as they are
  Box& box(uint32_t from, uint32_t to) const { return reinterpret_cast<Box*>(rank_base(from) + kHeadBytes)[to]; }
  // The size of the memory beside a box: less where there are many.
  size_t box_bytes() const { return box_bytes(ranks_); }
  std::byte* box_memory(uint32_t from, uint32_t to) const { return bulk(from) + to * box_bytes(); }
  std::byte* staging(uint32_t rank, uint64_t block) const {
    return bulk(rank) + boxes_memory_bytes(ranks_) + (block % kBlocks) * block_bytes_;
  }
  std::byte* slot(uint32_t rank, uint64_t operation) const {
    return bulk(rank) + boxes_memory_bytes(ranks_) + (operation % kSlots) * slot_bytes();
  }
  std::byte* results(uint32_t rank, uint64_t block) const {
    return bulk(rank) + boxes_memory_bytes(ranks_) + (kBlocks + block % kBlocks) * block_bytes_;
  }
  // The same for their rank, which is this one, to write `bytes` from their beginning on. One thread. Throw Error{io}
  // when there is no memory left.
  std::byte* box_memory_to_write(uint32_t from, uint32_t to, size_t bytes) const {
    return provided(box_memory(from, to), 2 * kSlots + to, bytes);
  }
  std::byte* staging_to_write(uint32_t rank, uint64_t block, size_t bytes) const {
    return provided(staging(rank, block), 2 * (block % kBlocks), bytes);
  }
  std::byte* slot_to_write(uint32_t rank, uint64_t operation, size_t bytes) const {
    return provided(slot(rank, operation), operation % kSlots, bytes);
  }
  std::byte* results_to_write(uint32_t rank, uint64_t block, size_t bytes) const {
    return provided(results(rank, block), kSlots + 2 * (block % kBlocks), bytes);
  }

  // Sleeping, for a rank that has looked for something in vain and will look again between fall_asleep() and sleep():
  //   const uint32_t seen = rings(me); fall_asleep(me); if (!is there) sleep(me, seen); wake_up(me);
  // A publisher either finds it asleep and rings, or has published before it looked.
  uint32_t rings(uint32_t rank) const;
  void fall_asleep(uint32_t rank) const;
  void sleep(uint32_t rank, uint32_t seen) const;  // at most kLongestSleep: a killed publisher rings nobody
  void wake_up(uint32_t rank) const;
  void ring_all() const;
  void ring(uint32_t rank) const;  // whether it sleeps or not

  // Stores a counter or a sequence number that peers wait for, and wakes them if they sleep.
  //
  // Between the store and the look at the sleepers there must be a full barrier, as there is between the sleeper's own
  // store and look: then either it sees the value or we see it asleep. If ranks seldom sleep, a rank that falls asleep
  // makes this barrier for us; here it would cost the time until all that was stored before has left this core.
  void publish(std::atomic<uint64_t>& word, uint64_t value) const {
    if (sleepers_make_barriers_) {
      word.store(value, std::memory_order_release);
      order_for_barriers();
    } else {
      word.store(value, std::memory_order_seq_cst);
    }
    if (head().sleepers.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      ring_all();
  }

  // The first error that a rank of the group met ends the group: everybody's operations end with it.
  bool is_broken() const { return head().broken.load(std::memory_order_acquire) == 2; }
  void break_with(int code, std::string_view text) const;
  int broken_code() const { return head().code; }
  const char* broken_text() const { return head().text; }

 private:
  struct Head {
    uint64_t magic = 0;
    uint32_t ranks = 0, unused = 0;
    uint64_t block_bytes = 0;
    alignas(kCacheLine) std::atomic<uint32_t> sleepers{0};
    alignas(kCacheLine) std::atomic<uint32_t> broken{0};  // 0 no, 1 being written, 2 yes
    std::atomic<uint32_t> here{0}, can_attach{0}, make_barriers{0};
    int code = 0;
    char text[500] = {};
  };
  static constexpr size_t kPage = 4096;
  static constexpr size_t kHeadBytes = kPage;

  Segment(SharedMemory memory, const Options& options);
  static constexpr size_t box_bytes(uint32_t ranks) {
    constexpr size_t kMost = size_t{16} << 10, kOfAll = size_t{64} << 10;
    return std::min(kMost, kOfAll / ranks / kCacheLine * kCacheLine);
  }
  static constexpr size_t boxes_bytes(uint32_t ranks) { return (ranks * sizeof(Box) + kPage - 1) / kPage * kPage; }
  static constexpr size_t boxes_memory_bytes(uint32_t ranks) {
    return (ranks * box_bytes(ranks) + kPage - 1) / kPage * kPage;
  }
  // The Head and the small parts of each rank lie in front, the bulk of each rank behind them.
  static constexpr size_t front_bytes(uint32_t ranks) { return kHeadBytes + ranks * (kHeadBytes + boxes_bytes(ranks)); }
  static size_t bulk_bytes(const Options& options);
  static size_t bytes(const Options& options);

  Head& head() const { return *reinterpret_cast<Head*>(memory_.data()); }
  std::byte* rank_base(uint32_t rank) const {
    return memory_.data() + kHeadBytes + rank * (kHeadBytes + boxes_bytes(ranks_));
  }
  std::byte* bulk(uint32_t rank) const { return memory_.data() + bulk_at_ + rank * bulk_bytes_; }
  std::byte* provided(std::byte* begin, uint64_t place, size_t bytes) const {
    if (bytes > provided_[place]) [[unlikely]]
      provide(begin, place, bytes);
    return begin;
  }
  void provide(std::byte* begin, uint64_t place, size_t bytes) const;
  Counter& counter(uint32_t rank, uint32_t which) const {
    return reinterpret_cast<Counter*>(rank_base(rank) + kPosts * (sizeof(Post) + sizeof(CallRecord)))[which];
  }
  Bell& bell(uint32_t rank) const { return *reinterpret_cast<Bell*>(&counter(rank, 3)); }

  SharedMemory memory_;
  uint32_t ranks_ = 0;
  size_t block_bytes_ = 0, bulk_at_ = 0, bulk_bytes_ = 0;
  // Bytes that are surely there, by slots, slots of results (a block begins at every second), and boxes: of this rank.
  mutable std::vector<size_t> provided_;
  bool sleepers_make_barriers_ = false;
};

}  // namespace banyan::run
