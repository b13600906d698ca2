// CallCounters: how many calls a communicator has made, how long they took, and for whom it has waited.
//
// Counting costs a few plain instructions for each call: one thread writes at a time, and every number is a word that
// is read whole. Readers lock nothing. They may see a call counted whose bytes are not counted yet.
//
// Times. Not every small call is timed (recorder.h). One that was, and waited for nobody, stands for those of its kind
// that were not timed since the last one. Calls that waited are timed always, and stand for themselves.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "banyan/run/call/operation.h"

namespace banyan::run {

// The counts as of a moment. Adding the totals of several communicators gives those of all.
struct CallTotals {
  // Bucket i counts the timed calls that took at most 2^(i + kLeastExponent) seconds, and more than those of bucket
  // i - 1; the last one all that took longer.
  static constexpr int kLeastExponent = -20, kMostExponent = 6;
  static constexpr size_t kBuckets = kMostExponent - kLeastExponent + 2;

  struct OfKind {
    uint64_t calls = 0;  // begun
    uint64_t bytes = 0;  // count times the size of an element, as the calls gave them
    uint64_t nanoseconds = 0;
    std::array<uint64_t, kBuckets> buckets{};

    uint64_t timed() const;
  };
  std::array<OfKind, kOperationKinds> kinds{};
  std::vector<uint64_t> waited;  // by rank: nanoseconds in which nothing moved since this rank waited for it

  const OfKind& of(OperationKind kind) const { return kinds[static_cast<size_t>(kind)]; }
  OfKind all() const;
  CallTotals& operator+=(const CallTotals& other);
};

class CallCounters {
 public:
  explicit CallCounters(uint32_t ranks) : ranks_(ranks), waited_(std::make_unique<std::atomic<uint64_t>[]>(ranks)) {}

  // One thread at a time.
  void begin(OperationKind kind, uint64_t bytes) {
    OfKind& counted = kinds_[static_cast<size_t>(kind)];
    add(counted.calls, 1);
    add(counted.bytes, bytes);
  }
  // A call took so long.
  void time(OperationKind kind, int64_t nanoseconds) { time(kind, nanoseconds, 1); }
  // The same, and so long took those before it that were not timed, but for `under_way` calls that are not over.
  void sample(OperationKind kind, int64_t nanoseconds, size_t under_way);
  void wait_for(uint32_t rank, int64_t nanoseconds) {
    if (rank < ranks_ && nanoseconds > 0) add(waited_[rank], static_cast<uint64_t>(nanoseconds));
  }

  // Any thread.
  CallTotals read() const;

 private:
  using Word = std::atomic<uint64_t>;
  struct OfKind {
    Word calls{0}, bytes{0}, nanoseconds{0}, timed{0};
    std::array<Word, CallTotals::kBuckets> buckets{};
  };
  // Not fetch_add, which would lock the bus: nobody else writes.
  static void add(Word& word, uint64_t more) {
    word.store(word.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  void time(OperationKind kind, int64_t nanoseconds, uint64_t calls);

  const uint32_t ranks_;
  std::array<OfKind, kOperationKinds> kinds_{};
  const std::unique_ptr<Word[]> waited_;
};

}  // namespace banyan::run
