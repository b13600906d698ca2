#include "banyan/run/record/call_counters.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr auto kKind = OperationKind::all_reduce;

// The upper bound in seconds of the bucket in which a call of so many nanoseconds is counted.
double bound_of(int64_t nanoseconds) {
  CallCounters counters(1);
  counters.begin(kKind, 0);
  counters.time(kKind, nanoseconds);
  const CallTotals totals = counters.read();
  const auto& buckets = totals.of(kKind).buckets;
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i] == 1) return std::ldexp(1.0, static_cast<int>(i) + CallTotals::kLeastExponent);
  }
  return -1;
}

TEST(CallCounters, PutATimeIntoTheFirstBucketWhoseBoundItDoesNotExceed) {
  for (const int64_t time : {0, 1, 953, 954, 1000, 1907, 1908, 12'345, 1'000'000, 999'999'999, 1'000'000'001}) {
    const double seconds = static_cast<double>(time) / 1e9;
    EXPECT_LE(seconds, bound_of(time)) << time;
    if (time > 953) {
      EXPECT_GT(seconds, bound_of(time) / 2) << time;
    }
  }
  EXPECT_EQ(bound_of(1'000'000'000), 1);
  EXPECT_EQ(bound_of(1'000'000'001), 2);
  EXPECT_EQ(bound_of(64'000'000'000), 64);
  EXPECT_EQ(bound_of(64'000'000'001), 128) << "the last bucket, which has no bound";
  EXPECT_EQ(bound_of(INT64_MAX), 128);
  EXPECT_EQ(bound_of(-5), std::ldexp(1.0, CallTotals::kLeastExponent)) << "clocks of a test may go backwards";
}

TEST(CallCounters, LetASampleStandForTheCallsThatWereNotTimed) {
  CallCounters counters(2);
  for (int i = 0; i < 31; ++i) counters.begin(kKind, 4);
  counters.sample(kKind, 200, 0);
  EXPECT_EQ(counters.read().of(kKind).timed(), 31u);
  EXPECT_EQ(counters.read().of(kKind).nanoseconds, 31u * 200);
  for (int i = 0; i < 5; ++i) counters.begin(kKind, 4);
  counters.time(kKind, 1'000'000);
  EXPECT_EQ(counters.read().of(kKind).timed(), 32u) << "a call that waited stands for itself";
  counters.sample(kKind, 300, 1);
  EXPECT_EQ(counters.read().of(kKind).timed(), 35u) << "one of the four others is still under way";
  EXPECT_EQ(counters.read().of(kKind).nanoseconds, 31u * 200 + 1'000'000 + 3 * 300);
  EXPECT_EQ(counters.read().of(kKind).calls, 36u);
  EXPECT_EQ(counters.read().of(kKind).bytes, 144u);
}

TEST(CallCounters, AddUpCommunicators) {
  CallCounters small(2), large(3);
  small.begin(OperationKind::barrier, 0);
  large.begin(OperationKind::barrier, 0);
  large.begin(OperationKind::send, 17);
  small.wait_for(1, 100);
  large.wait_for(1, 20);
  large.wait_for(2, 3);
  large.wait_for(3, 1000);  // no rank of it
  CallTotals both = small.read();
  both += large.read();
  EXPECT_EQ(both.of(OperationKind::barrier).calls, 2u);
  EXPECT_EQ(both.all().calls, 3u);
  EXPECT_EQ(both.all().bytes, 17u);
  EXPECT_THAT(both.waited, ::testing::ElementsAre(0, 120, 3));
}

TEST(CallCounters, AreReadWhileTheyCount) {
  CallCounters counters(1);
  constexpr uint64_t kCalls = 200'000;
  std::thread writer([&] {
    for (uint64_t i = 1; i <= kCalls; ++i) {
      counters.begin(kKind, 8);
      if (i % 31 == 0) counters.sample(kKind, 100, 0);
    }
  });
  uint64_t before = 0;
  for (int i = 0; i < 1000; ++i) {
    const CallTotals totals = counters.read();
    EXPECT_GE(totals.of(kKind).calls, before);
    EXPECT_LE(totals.of(kKind).calls, kCalls);
    before = totals.of(kKind).calls;
  }
  writer.join();
  EXPECT_EQ(counters.read().of(kKind).bytes, 8 * kCalls);
}

}  // namespace
}  // namespace banyan::run
