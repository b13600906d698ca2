#include "banyan/run/host/segment.h"

#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/system/futex.h"

namespace banyan::run {
namespace {

constexpr uint64_t kMagic = 0x0006'0000'6e79'6e62;  // version 6
constexpr std::chrono::milliseconds kLongestSleep{50};

}  // namespace

size_t Segment::bulk_bytes(const Options& options) {
  return boxes_memory_bytes(options.ranks) + 2 * kBlocks * options.block_bytes;
}

size_t Segment::bytes(const Options& options) {
  CHECK(options.ranks >= 1 && options.ranks <= kMaxRanks) << options.ranks;
  CHECK(options.block_bytes > 0 && options.block_bytes % kPage == 0) << options.block_bytes;
  static_assert(sizeof(Head) <= kHeadBytes);
  static_assert(kPosts * (sizeof(Post) + sizeof(CallRecord)) + 5 * sizeof(Counter) + sizeof(Bell) <= kHeadBytes);
  return front_bytes(options.ranks) + options.ranks * bulk_bytes(options);
}

Segment::Segment(SharedMemory memory, const Options& options)
    : memory_(std::move(memory)),
      ranks_(options.ranks),
      block_bytes_(options.block_bytes),
      bulk_at_(front_bytes(options.ranks)),
      bulk_bytes_(bulk_bytes(options)),
      provided_(2 * kSlots + options.ranks) {}

Segment Segment::make(const Options& options) {
  Segment segment(SharedMemory::with_some_pages(bytes(options), front_bytes(options.ranks)), options);
  Head& head = *new (segment.memory_.data()) Head;
  head.ranks = options.ranks;
  head.block_bytes = options.block_bytes;
  head.magic = kMagic;
  return segment;  // posts, counters and bells begin as zeros, which the memory is
}

Segment Segment::attach(pid_t owner, int fd, const Options& options) {
  Segment segment(SharedMemory::attach_lazily(owner, fd, bytes(options)), options);
  const Head& head = segment.head();
  if (head.magic != kMagic || head.ranks != options.ranks || head.block_bytes != options.block_bytes) {
    throw Error(ErrorCode::mismatch, "the shared memory of process " + std::to_string(owner) +
                                         " is not laid out as expected; do all ranks run the same version of banyan?");
  }
  return segment;
}

// Twice as much each time, so that a slot that is used more and more soon asks no more.
void Segment::provide(std::byte* begin, uint64_t place, size_t bytes) const {
  const size_t most = place < 2 * kSlots ? (place % 2 == 0 ? block_bytes_ : slot_bytes()) : box_bytes();
  CHECK(bytes <= most) << bytes << " bytes at " << place;
  const size_t enough = std::min(most, std::max((bytes + kPage - 1) / kPage * kPage, 2 * provided_[place]));
  memory_.provide(begin, enough);
  provided_[place] = enough;
}

void Segment::say_here(uint32_t rank, bool can_attach, bool seldom_sleeps) {
  if (can_attach) head().can_attach.fetch_add(1, std::memory_order_relaxed);
  if (seldom_sleeps && register_for_barriers()) head().make_barriers.fetch_add(1, std::memory_order_relaxed);
  head().here.fetch_add(1, std::memory_order_release);
  counter(rank, 5).value.store(
      1, std::memory_order_release);  // after it: when all are here by name, so they are by number
}

void Segment::settle() {
  CHECK(here() == ranks_) << here() << " of " << ranks_ << " are here";
  memory_.close_file();
  sleepers_make_barriers_ = head().make_barriers.load(std::memory_order_relaxed) == ranks_;
}

void Segment::ring_all() const {
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    if (bell(rank).asleep.load(std::memory_order_seq_cst) != 0) ring(rank);
  }
}

void Segment::ring(uint32_t rank) const {
  bell(rank).rings.fetch_add(1, std::memory_order_release);
  futex_wake_all(bell(rank).rings);
}

uint32_t Segment::rings(uint32_t rank) const { return bell(rank).rings.load(std::memory_order_relaxed); }

void Segment::fall_asleep(uint32_t rank) const {
  bell(rank).asleep.store(1, std::memory_order_relaxed);
  head().sleepers.fetch_add(1, std::memory_order_relaxed);
  if (!sleepers_make_barriers_) return std::atomic_thread_fence(std::memory_order_seq_cst);
  // Without it, which is only for who has been confined meanwhile, a ring may be missed, and the sleep ends by its
  // time.
  static_cast<void>(barrier_everywhere());
}

void Segment::sleep(uint32_t rank, uint32_t seen) const { futex_wait(bell(rank).rings, seen, kLongestSleep); }

void Segment::wake_up(uint32_t rank) const {
  bell(rank).asleep.store(0, std::memory_order_relaxed);
  head().sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void Segment::break_with(int code, std::string_view text) const {
  uint32_t no = 0;
  if (!head().broken.compare_exchange_strong(no, 1, std::memory_order_relaxed)) return;
  head().code = code;
  const size_t count = std::min(text.size(), sizeof head().text - 1);
  std::memcpy(head().text, text.data(), count);
  head().text[count] = '\0';
  head().broken.store(2, std::memory_order_seq_cst);
  ring_all();
}

}  // namespace banyan::run
