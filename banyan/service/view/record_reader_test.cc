#include "banyan/service/view/record_reader.h"

#include "banyan/run/record/recorder.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::OperationKind;
using run::OperationState;
using run::Recorder;

constexpr int64_t kSecond = 1'000'000'000;

int64_t g_time = 0;

class RecordViews : public ::testing::Test {
 protected:
  RecordViews() : memory_(Recorder::kMemoryBytes) { g_time = 100 * kSecond; }

  std::span<std::byte> memory() const { return {memory_.data(), Recorder::kMemoryBytes}; }
  RankView look() {
    reader_.look(memory(), g_time, view_);
    return view_;
  }
  static Recorder::Call call(uint64_t count, OperationKind kind = OperationKind::all_reduce) {
    return {.kind = kind, .type = element::DataType::float32, .count = count};
  }

  const run::SharedMemory memory_;
  const run::RecorderClock clock_{
      .exact = [] { return g_time; }, .coarse = [] { return g_time; }, .wall = [] { return g_time; }};
  RecordReader reader_{90 * kSecond};
  RankView view_{.rank = 3, .program = "train"};  // looks fill it in again and again
};

TEST_F(RecordViews, OfARankThatHasCalledNothing) {
  const Recorder recorder(memory(), clock_);
  const RankView view = look();
  EXPECT_EQ(view.calls_begun, 0u);
  EXPECT_EQ(view.idle_seconds, 10);
  EXPECT_EQ(view.program, "train");
}

TEST_F(RecordViews, OfACallThatWaits) {
  Recorder recorder(memory(), clock_);
  for (int i = 0; i < 200; ++i) recorder.begin(call(16)).finish();
  Recorder::Entry entry = recorder.begin(call(1 << 20));
  entry.wait_for(5);
  g_time += 2 * kSecond;
  RankView view = look();
  EXPECT_EQ(view.calls_begun, 201u);
  EXPECT_EQ(view.calls_over, 200u);
  EXPECT_EQ(view.call, "allreduce of 1048576 float32 sum");
  EXPECT_EQ(view.call_seconds, 2);
  EXPECT_EQ(view.stalled_seconds, 0) << "nobody has looked before";
  EXPECT_EQ(view.idle_seconds, 0);
  EXPECT_EQ(view.waiting_for, 5u);
  g_time += kSecond;
  EXPECT_EQ(look().stalled_seconds, 1);
  entry.advance(1);
  EXPECT_EQ(look().stalled_seconds, 0);
  entry.finish();
  g_time += kSecond / 2;
  view = look();
  EXPECT_EQ(view.calls_over, 201u);
  EXPECT_EQ(view.call, "");
  EXPECT_EQ(view.idle_seconds, 0.5);
  EXPECT_FALSE(view.waiting_for);
}

TEST_F(RecordViews, TheOldestOfSeveralCallsCounts) {
  Recorder recorder(memory(), clock_);
  recorder.begin(call(4)).finish();
  Recorder::Entry first = recorder.begin({.kind = OperationKind::barrier});
  Recorder::Entry second = recorder.begin(call(4, OperationKind::broadcast));
  Recorder::Entry message = recorder.begin(call(4, OperationKind::send));
  RankView view = look();
  EXPECT_EQ(view.calls_begun, 3u);
  EXPECT_EQ(view.calls_over, 1u);
  EXPECT_EQ(view.call, "barrier");
  first.finish();
  view = look();
  EXPECT_EQ(view.calls_over, 2u);
  EXPECT_EQ(view.call.substr(0, 12), "broadcast of");
  second.finish();
  EXPECT_EQ(look().call, "") << "messages are no calls of all ranks";
  message.finish();
}

TEST_F(RecordViews, AFailureIsTold) {
  Recorder recorder(memory(), clock_);
  Recorder::Entry entry = recorder.begin(call(4));
  entry.wait_for(1);
  entry.finish(OperationState::failed);
  EXPECT_EQ(look().error, "allreduce #1 of 4 float32 sum has failed");
}

// Whatever a program writes there, while it is read.
TEST_F(RecordViews, BearAnyMemory) {
  std::mt19937_64 random(20261126);
  RankView view;
  reader_.look({}, g_time, view);
  EXPECT_EQ(view.calls_begun, 0u);
  Recorder recorder(memory(), clock_);
  for (int i = 0; i < 2000; ++i) recorder.begin(call(i)).finish();
  const std::vector<std::byte> good(memory().begin(), memory().end());
  for (int times = 0; times < 3000; ++times) {
    std::copy(good.begin(), good.end(), memory().begin());
    // The first words are those of the recorder itself; the newest records come at random.
    for (uint64_t changes = random() % 200; changes > 0; --changes) {
      const size_t place = random() % 3 == 0 ? 8 + 8 * (random() % 7) : 8 * (random() % (Recorder::kMemoryBytes / 8));
      const uint64_t word = random() % 2 == 0 ? random() : random() % 4;
      std::memcpy(memory().data() + place, &word, sizeof word);
    }
    view = look();
    EXPECT_LE(view.calls_over, view.calls_begun);
    for (const double seconds : {view.call_seconds, view.stalled_seconds, view.idle_seconds}) {
      EXPECT_TRUE(std::isfinite(seconds) && seconds >= 0) << seconds;
    }
  }
}

}  // namespace
}  // namespace banyan::service
