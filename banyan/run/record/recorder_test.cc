#include "banyan/run/record/recorder.h"

#include <unistd.h>

#include "banyan/run/system/child.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

int64_t g_time = 0;

const RecorderClock kHandTurned{
    .exact = [] { return g_time; }, .coarse = [] { return g_time - 7; }, .wall = [] { return g_time + 1000; }};

class RecorderTest : public ::testing::Test {
 protected:
  RecorderTest() : memory_(Recorder::kMemoryBytes) { g_time = 100; }

  std::span<std::byte> memory() const { return {memory_.data(), Recorder::kMemoryBytes}; }
  static Recorder::Call call(uint64_t count, OperationKind kind = OperationKind::all_reduce) {
    return {.kind = kind, .type = element::DataType::float32, .count = count};
  }

  SharedMemory memory_;
};

TEST_F(RecorderTest, TellsHowFarAnOperationHasCome) {
  Recorder recorder(memory(), kHandTurned);
  EXPECT_FALSE(current_operation(memory()));
  Recorder::Entry entry = recorder.begin(call(1 << 20));
  entry.advance(5);
  entry.wait_for(3);
  const auto now = current_operation(memory());
  ASSERT_TRUE(now);
  EXPECT_EQ(describe(*now), "allreduce #1 of 1048576 float32 sum");
  EXPECT_EQ(now->state, OperationState::running);
  EXPECT_EQ(now->step, 5u);
  EXPECT_EQ(now->waits_for, 3u);
  EXPECT_EQ(now->begin, 100);
  EXPECT_EQ(now->end, 0);
  g_time = 250;
  entry.finish();
  EXPECT_EQ(current_operation(memory())->state, OperationState::done);
  EXPECT_EQ(current_operation(memory())->end, 250);
  EXPECT_EQ(current_operation(memory())->waits_for, kNoRank);
}

TEST_F(RecorderTest, AFailedOperationShowsWhomItWaitedFor) {
  Recorder recorder(memory(), kHandTurned);
  Recorder::Entry entry = recorder.begin(call(1));
  entry.wait_for(2);
  entry.finish(OperationState::failed);
  EXPECT_EQ(current_operation(memory())->waits_for, 2u);
  EXPECT_EQ(current_operation(memory())->state, OperationState::failed);
}

TEST_F(RecorderTest, AQueuedOperationWaitsUntilItStarts) {
  Recorder recorder(memory(), kHandTurned);
  Recorder::Call queued = call(1);
  queued.state = OperationState::waiting;
  Recorder::Entry entry = recorder.begin(queued);
  EXPECT_EQ(current_operation(memory())->state, OperationState::waiting);
  entry.start();
  EXPECT_EQ(current_operation(memory())->state, OperationState::running);
}

TEST_F(RecorderTest, ReadsTheExactClockWhereItPays) {
  Recorder recorder(memory(), kHandTurned);
  recorder.begin(call(1)).finish();  // #1
  EXPECT_EQ(current_operation(memory())->begin, 93);
  EXPECT_EQ(current_operation(memory())->end, 0);  // not known
  recorder.begin(call(Recorder::kExactCount)).finish();
  EXPECT_EQ(current_operation(memory())->begin, 100);
  EXPECT_EQ(current_operation(memory())->end, 100);
  Recorder::Entry waited = recorder.begin(call(1));
  waited.wait_for(1);
  waited.finish();
  EXPECT_EQ(current_operation(memory())->end, 100);
  while (current_operation(memory())->sequence < Recorder::kExactEvery) recorder.begin(call(1)).finish();
  EXPECT_EQ(current_operation(memory())->begin, 100);
  EXPECT_TRUE(Recorder::is_exact(*current_operation(memory())));
}

TEST_F(RecorderTest, CountsCollectivesAlikeOnAllRanks) {
  Recorder recorder(memory(), kHandTurned);
  EXPECT_EQ(recorder.begin(call(1)).sequence(), 1u);
  EXPECT_EQ(recorder.begin(call(1, OperationKind::send)).sequence(), 1u);
  EXPECT_EQ(recorder.begin(call(1, OperationKind::group)).sequence(), 2u);
  EXPECT_EQ(recorder.begin(call(0, OperationKind::barrier)).sequence(), 2u);
  EXPECT_EQ(recorder.begin(call(1, OperationKind::recv)).sequence(), 3u);
  EXPECT_EQ(name(*current_operation(memory())), "barrier #2");
}

TEST_F(RecorderTest, KeepsTheLastOperations) {
  Recorder recorder(memory(), kHandTurned);
  Recorder::Entry oldest = recorder.begin(call(1));
  for (uint64_t i = 1; i < Recorder::kOperations + 10; ++i) recorder.begin(call(i + 1)).finish();
  oldest.advance(77);  // of a record that is gone
  oldest.finish(OperationState::failed);
  EXPECT_EQ(oldest.sequence(), 0u);
  const Snapshot all = snapshot(memory());
  EXPECT_EQ(all.begun, Recorder::kOperations + 10);
  EXPECT_EQ(all.torn, 0u);
  EXPECT_EQ(all.wall_offset, 1000);
  ASSERT_EQ(all.operations.size(), Recorder::kOperations);
  for (size_t i = 0; i < all.operations.size(); ++i) {
    EXPECT_EQ(all.operations[i].sequence, i + 11);
    EXPECT_EQ(all.operations[i].count, i + 11);
    EXPECT_EQ(all.operations[i].state, OperationState::done);
    EXPECT_EQ(all.operations[i].step, 0u);
  }
}

TEST_F(RecorderTest, TellsTheNewestOperations) {
  Recorder recorder(memory(), kHandTurned);
  EXPECT_TRUE(newest_operations(memory(), 10).empty());
  for (uint64_t i = 1; i <= 3; ++i) recorder.begin(call(i)).finish();
  EXPECT_EQ(newest_operations(memory(), 10).size(), 3u);
  for (uint64_t i = 4; i <= Recorder::kOperations + 10; ++i) recorder.begin(call(i));
  const std::vector<OperationRecord> newest = newest_operations(memory(), 10);
  ASSERT_EQ(newest.size(), 10u);
  for (size_t i = 0; i < newest.size(); ++i) EXPECT_EQ(newest[i].count, Recorder::kOperations + 1 + i);
  const std::vector<OperationRecord> all = newest_operations(memory(), SIZE_MAX);
  EXPECT_EQ(all, snapshot(memory()).operations);
  EXPECT_TRUE(newest_operations(memory().first(100), 10).empty());
}

TEST_F(RecorderTest, RefusesMemoryThatIsNone) {
  EXPECT_THROW(snapshot(memory()), Error);
  EXPECT_THROW(snapshot(memory().first(100)), Error);
  EXPECT_FALSE(current_operation(memory()));
  EXPECT_FALSE(current_operation(memory().first(8)));
}

// A peer may write anything into memory that is shared.
TEST_F(RecorderTest, LeavesGarbageOut) {
  Recorder recorder(memory(), kHandTurned);
  for (int i = 0; i < 100; ++i) recorder.begin(call(1)).finish();
  std::mt19937_64 random(7);
  for (size_t i = 64; i < 64 + 20 * sizeof(OperationRecord); i += 8) {
    const uint64_t word = random();
    std::memcpy(memory().data() + i, &word, sizeof word);
  }
  const Snapshot all = snapshot(memory());
  EXPECT_EQ(all.operations.size(), 80u);
  EXPECT_EQ(all.torn, 20u);
}

TEST_F(RecorderTest, ARecorderBeginsAnew) {
  { Recorder(memory(), kHandTurned).begin(call(1)); }
  Recorder again(memory(), kHandTurned);
  EXPECT_TRUE(snapshot(memory()).operations.empty());
  EXPECT_FALSE(current_operation(memory()));
}

// All fields of one operation carry one number, so that a mixture of two would show.
bool is_of_one_piece(const OperationRecord& record) {
  const uint64_t number = record.sequence;
  return record.ticket == number && record.count == number * 3 && record.counts_hash == ~number &&
         record.other == static_cast<uint32_t>(number) && record.begin == static_cast<int64_t>(number) * 5 &&
         (record.state != OperationState::done || record.end == record.begin + 1);
}

std::atomic<int64_t> g_number;

const RecorderClock kNumbering{.exact = [] { return g_number.load(std::memory_order_relaxed); },
                               .coarse = [] { return g_number.load(std::memory_order_relaxed); },
                               .wall = [] { return int64_t{0}; }};

// Returns the number of the last one.
uint64_t write_operations(Recorder& recorder, const std::function<bool(uint64_t number)>& is_wanted) {
  uint64_t number = 1;
  for (; is_wanted(number); ++number) {
    g_number = static_cast<int64_t>(number) * 5;
    Recorder::Entry entry = recorder.begin({.kind = OperationKind::broadcast,
                                            .other = static_cast<uint32_t>(number),
                                            .count = number * 3,
                                            .counts_hash = ~number});
    entry.wait_for(1);
    ++g_number;
    entry.finish();
  }
  return number - 1;
}

// The writer is killed at any instruction; what it left behind is still good.
TEST_F(RecorderTest, OutlivesAWriterThatIsKilled) {
  for (int round = 0; round < 20; ++round) {
    std::memset(memory().data(), 0, 64);
    Child child([&] {
      Recorder recorder(memory(), kNumbering);
      write_operations(recorder, [](uint64_t) { return true; });
      return 0;
    });
    const uint64_t enough = 500 + static_cast<uint64_t>(round) * 37;
    for (uint64_t seen = 0; seen < enough; sched_yield()) {
      if (const auto now = current_operation(memory())) seen = now->sequence;
    }
    child.end();
    const Snapshot all = snapshot(memory());
    EXPECT_LE(all.torn, 1u);
    EXPECT_GE(all.begun, enough);
    EXPECT_GE(all.operations.size() + 1, std::min<size_t>(all.begun, Recorder::kOperations));
    for (const OperationRecord& record : all.operations) EXPECT_TRUE(is_of_one_piece(record)) << describe(record);
  }
}

}  // namespace
}  // namespace banyan::run
