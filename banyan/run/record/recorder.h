// Recorder: the last operations of one rank of one communicator, in memory that others may read at any time.
//
// The memory is the caller's; it may be shared, so that peers see what a rank waits for while it waits, or after it was
// killed in the middle of a word. Nothing is locked. A record is written in an order that lets a reader notice what is
// half done (see record/recorder.cc), and begin() and end() of a small operation cost some 15 ns together.
//
//   Recorder recorder(memory);                                     // memory.size() >= Recorder::kMemoryBytes
//   auto entry = recorder.begin({.kind = OperationKind::all_reduce, .type = ..., .count = 1024});
//   entry.advance(1);                                              // optional, on the way
//   entry.wait_for(3);
//   entry.finish();
//
// Clocks. Reading an exact clock costs more than all the rest, so it is read for operations of kExactCount elements
// and more, and for every kExactEvery-th (the same ones on all ranks). The others are begun by the kernel's coarse
// clock, up to a tick (1 to 10 ms) too early, and their end is known only if they had to wait for somebody.
//
// Threads: one writes at a time. Readers, any number, in any process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/run/call/operation.h"

namespace banyan::run {

// Nanoseconds. Tests bring their own.
struct RecorderClock {
  int64_t (*exact)();   // CLOCK_MONOTONIC
  int64_t (*coarse)();  // the same, a tick late at most, and cheaper
  int64_t (*wall)();    // CLOCK_REALTIME
  static RecorderClock system();
};

class Recorder {
 public:
  static constexpr size_t kOperations = 1024;
  static constexpr size_t kMemoryBytes = 64 + kOperations * sizeof(OperationRecord);
  static constexpr uint64_t kExactCount = 4096;
  static constexpr uint64_t kExactEvery = 31;  // a prime, since calls of a program come in patterns

  static constexpr int64_t kUntimed = -1, kEndOnly = -2;

  // True if begin and end of this record were read from the exact clock.
  static bool is_exact(const OperationRecord& record) {
    return record.count >= kExactCount || record.sequence % kExactEvery == 0;
  }

  struct Call {
    OperationKind kind = OperationKind::barrier;
    codec::WireType type = element::DataType::uint8;
    element::ReduceOp op = element::ReduceOp::sum;
    OperationState state = OperationState::running;  // or waiting, if earlier operations come first
    uint32_t other = kNoRank;                        // the root, or the peer of a message
    uint64_t count = 0;
    uint64_t counts_hash = 0;
  };

  // One operation under way. Copyable; stays usable, without effect, when kOperations later ones have overwritten its
  // record, and must not outlive the recorder's memory.
  class Entry {
   public:
    Entry() = default;  // of no operation; without effect

    void start();  // ends `waiting`
    void advance(uint32_t step);
    // Also says that time does not matter now: the end will be stamped. kNoRank: for nobody any more.
    void wait_for(uint32_t rank);
    // Returns how long it took, in nanoseconds, where the exact clock told of its begin; kUntimed, or kEndOnly where it
    // told of the end alone.
    int64_t finish(OperationState state = OperationState::done);
    uint64_t sequence() const;  // 0 of no operation
    bool is_long() const;       // of kExactCount elements and more

   private:
    friend class Recorder;
    Entry(const Recorder* recorder, OperationRecord* record, uint64_t ticket, bool is_exact)
        : recorder_(recorder), record_(record), ticket_(ticket), is_exact_(is_exact), is_stamped_(is_exact) {}
    bool is_current() const;

    const Recorder* recorder_ = nullptr;
    OperationRecord* record_ = nullptr;
    uint64_t ticket_ = 0;
    bool is_exact_ = false;    // its begin
    bool is_stamped_ = false;  // its end is to be
  };

  // Takes the first kMemoryBytes of `memory`, aligned to 64, and forgets what was there. The memory outlives the
  // recorder and its entries.
  explicit Recorder(std::span<std::byte> memory, const RecorderClock& clock = RecorderClock::system());
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Numbers the operation and begins it, over the oldest record.
  Entry begin(const Call& call);

 private:
  struct Header;
  Header* header_;
  OperationRecord* records_;
  RecorderClock clock_;
  uint64_t begun_ = 0, collectives_ = 0, others_ = 0;

  friend struct Snapshot snapshot(std::span<const std::byte> memory);
  friend std::optional<OperationRecord> current_operation(std::span<const std::byte> memory);
  friend std::vector<OperationRecord> newest_operations(std::span<const std::byte> memory, size_t most);
};

struct Snapshot {
  std::vector<OperationRecord> operations;  // the oldest first
  uint64_t begun = 0;                       // how many operations there were in all
  uint64_t torn = 0;        // records left out because they were being written, or by a writer that died writing
  int64_t wall_offset = 0;  // ns; a time of CLOCK_MONOTONIC plus this is one of CLOCK_REALTIME
};

// The contents of a recorder's memory, as of now; its writer may be at work, or gone. Throws Error{invalid_input} when
// there is no recorder in this memory.
Snapshot snapshot(std::span<const std::byte> memory);

// The newest collective that was begun, which may be over; none before the first, or while it is being written. For a
// look at a peer that is late: cheap, and does not throw; memory without a recorder has none.
std::optional<OperationRecord> current_operation(std::span<const std::byte> memory);

// The newest `most` operations, the oldest first, without those that are being written. For a look at many ranks at
// once: costs as much as it returns, and does not throw; memory without a recorder has none.
std::vector<OperationRecord> newest_operations(std::span<const std::byte> memory, size_t most);

}  // namespace banyan::run
