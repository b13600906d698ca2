#include "banyan/service/share/virtual_queue.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using Time = VirtualQueue::Time;
using namespace std::chrono_literals;

constexpr uint64_t kGigabyte = 1'000'000'000;  // per second: a byte in a nanosecond

TEST(VirtualQueue, WithoutABurstWhatLeavesIsPaced) {
  VirtualQueue queue(kGigabyte, 0);
  EXPECT_EQ(queue.earliest(5us), Time(5us));
  queue.leave(1000, 5us);
  EXPECT_EQ(queue.earliest(5us), Time(6us));
  queue.leave(3000, 6us);
  EXPECT_EQ(queue.backlog(6us), 3000u);
  EXPECT_EQ(queue.earliest(7us), Time(9us));
  EXPECT_EQ(queue.backlog(7us), 2000u);
  EXPECT_EQ(queue.earliest(20us), Time(20us));
  EXPECT_EQ(queue.backlog(20us), 0u);
}

TEST(VirtualQueue, ABurstLeavesAtOnceAndIsNotSavedUp) {
  VirtualQueue queue(kGigabyte, 4000);
  for (const Time now : {Time(1s), Time(2s)}) {  // the second that it was idle counts as one burst, not as more
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(queue.earliest(now), now) << i;
      queue.leave(1000, now);
    }
    EXPECT_EQ(queue.earliest(now), now + 1us);
  }
}

TEST(VirtualQueue, WithoutALimitAnythingLeavesAtOnce) {
  VirtualQueue queue;
  queue.leave(UINT64_MAX, 1s);
  EXPECT_EQ(queue.earliest(1s), Time(1s));
  EXPECT_EQ(queue.backlog(1s), 0u);
  EXPECT_EQ(queue.rate(), VirtualQueue::kUnlimited);
}

TEST(VirtualQueue, KeepsItsBacklogWhenTheRateChanges) {
  VirtualQueue queue(kGigabyte, 1000);
  queue.leave(5000, 0us);
  queue.set_rate(kGigabyte / 4, 2us);
  EXPECT_EQ(queue.rate(), kGigabyte / 4);
  EXPECT_EQ(queue.backlog(2us), 3000u);
  EXPECT_EQ(queue.earliest(2us), Time(2us + 8us));  // 2000 bytes above the burst
  EXPECT_EQ(queue.backlog(6us), 2000u);
  queue.set_rate(VirtualQueue::kUnlimited, 6us);
  EXPECT_EQ(queue.backlog(6us), 0u);
  queue.set_rate(kGigabyte, 7us);
  EXPECT_EQ(queue.earliest(7us), Time(7us));
  queue.leave(1500, 7us);
  EXPECT_EQ(queue.earliest(7us), Time(7500ns));
}

TEST(VirtualQueue, RoundsNothingThatAddsUp) {
  // 8 bytes take 2 2/3 ns; a million of them are two thirds of a millisecond late if each is rounded.
  VirtualQueue queue(3 * kGigabyte, 0);
  Time now = 0ns;
  for (int i = 0; i < 999'999; ++i) queue.leave(8, now);
  EXPECT_EQ(queue.earliest(now), Time(2'666'664));
  // Nor does it where each leaves as soon as it may, on a whole nanosecond.
  VirtualQueue paced(3 * kGigabyte, 64);
  for (int i = 0; i < 999'999; ++i) {
    now = paced.earliest(now);
    paced.leave(8, now);
  }
  EXPECT_NEAR(static_cast<double>(now.count()), 2'666'664, 64);
}

TEST(VirtualQueue, StandsTheLargestNumbers) {
  VirtualQueue slow(1, 0);
  for (int i = 0; i < 3; ++i) slow.leave(UINT64_MAX, 0ns);
  EXPECT_EQ(slow.earliest(1s), Time::max());
  EXPECT_EQ(slow.backlog(1s), UINT64_MAX);
  VirtualQueue quick(UINT64_MAX, UINT64_MAX);
  quick.leave(UINT64_MAX, 0ns);
  EXPECT_EQ(quick.earliest(0ns), Time(0ns));
  EXPECT_EQ(quick.backlog(Time(500ms)), UINT64_MAX / 2 + 1);
  EXPECT_EQ(quick.backlog(Time::max()), 0u);
}

TEST(VirtualQueue, TimeThatGoesBackIsOurOwnMistake) {
  VirtualQueue queue(kGigabyte, 0);
  queue.leave(10, 1s);
  EXPECT_DEATH(queue.earliest(999ms), "999000000 ns is before 1000000000 ns");
}

// A bucket that leaks in steps of a nanosecond.
struct LeakyBucket {
  double rate, burst, level = 0;  // bytes, per nanosecond
  void tick() { level = std::max(0.0, level - rate); }
  Time until_it_may_leave() const {
    LeakyBucket later = *this;
    Time wait = 0ns;
    for (; later.level > burst; ++wait) later.tick();
    return wait;
  }
};

TEST(VirtualQueue, IsALeakyBucket) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto random_rate = [&] { return 1'000'000 + random() % (20 * kGigabyte); };
    uint64_t rate = random_rate();
    const uint64_t burst = random() % 3 == 0 ? 0 : random() % 2000;
    LeakyBucket bucket{.rate = static_cast<double>(rate) / 1e9, .burst = static_cast<double>(burst)};
    VirtualQueue queue(rate, burst);
    for (Time now = 3s; now < 3s + 20us; ++now) {
      ASSERT_NEAR(static_cast<double>(queue.backlog(now)), std::ceil(bucket.level), 1) << now.count();
      if (random() % 500 == 0) {
        rate = random_rate();
        bucket.rate = static_cast<double>(rate) / 1e9;
        queue.set_rate(rate, now);
      }
      if (random() % 100 == 0) {
        const Time wait = queue.earliest(now) - now;
        ASSERT_NEAR(static_cast<double>(wait.count()), static_cast<double>(bucket.until_it_may_leave().count()), 1);
        // Now and then it leaves too soon.
        if (wait == 0ns || random() % 4 == 0) {
          const uint64_t bytes = random() % 3000;
          queue.leave(bytes, now);
          bucket.level += static_cast<double>(bytes);
        }
      }
      bucket.tick();
    }
  }
}

TEST(VirtualQueue, LetsNoIntervalHaveMoreThanRateAndBurstAndOnePiece) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const uint64_t rate = 1'000'000 + random() % (20 * kGigabyte), burst = random() % 100'000, largest = 8192;
    VirtualQueue queue(rate, burst);
    struct Left {
      Time when;
      uint64_t bytes;
    };
    std::vector<Left> all;
    for (Time now = 0ns; all.size() < 1000;) {
      if (random() % 20 == 0) now += std::chrono::microseconds(random() % 100);
      now = queue.earliest(now);
      all.push_back({now, 1 + random() % largest});
      queue.leave(all.back().bytes, now);
    }
    double sum_at_end = 0;
    for (size_t first = 0; first < all.size(); ++first) {
      double sum = 0;
      for (size_t last = first; last < all.size(); ++last) {
        sum += static_cast<double>(all[last].bytes);
        const double seconds = std::chrono::duration<double>(all[last].when - all[first].when).count();
        ASSERT_LE(sum, static_cast<double>(rate) * seconds + static_cast<double>(burst + largest) + 1e-3);
      }
      if (first == 0) sum_at_end = sum;
    }
    EXPECT_GT(sum_at_end, static_cast<double>(burst));
  }
}

}  // namespace
}  // namespace banyan::service
