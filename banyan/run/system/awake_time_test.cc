#include "banyan/run/system/awake_time.h"

#include <unistd.h>

#include <csignal>

#include "banyan/run/system/child.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

class HandOfClock : public TimeSource {
 public:
  TimePoint now() const override { return now_; }
  void pass(milliseconds time) { now_ += time; }

 private:
  TimePoint now_ = TimePoint() + seconds(1000);
};

TEST(AwakeTime, GoesAsTheSteadyClockWhileSomebodyLooks) {
  HandOfClock hand;
  const AwakeTime time(hand);
  const auto begin = time.now();
  for (int look = 0; look < 100; ++look) {
    hand.pass(milliseconds(1 + look));
    time.now();
  }
  EXPECT_EQ(time.now() - begin, milliseconds(5050));
}

TEST(AwakeTime, CountsLittleOfATimeInWhichNobodyLooked) {
  HandOfClock hand;
  const AwakeTime time(hand);
  const auto begin = time.now();
  hand.pass(seconds(3600));
  EXPECT_EQ(time.now() - begin, AwakeTime::kLongestGap);
  hand.pass(milliseconds(100));
  EXPECT_EQ(time.now() - begin, AwakeTime::kLongestGap + milliseconds(100));
  hand.pass(seconds(5));
  EXPECT_EQ(time.now() - begin, 2 * AwakeTime::kLongestGap + milliseconds(100));
}

TEST(AwakeTime, NeverGoesBackOrAheadForAnyThread) {
  constexpr int kThreads = 4, kLooks = 20'000;
  std::atomic<bool> went_wrong{false};
  const auto look = [&] {
    auto last = AwakeClock::now();
    for (int i = 0; i < kLooks; ++i) {
      const auto now = AwakeClock::now();
      if (now < last || now > std::chrono::steady_clock::now()) went_wrong = true;
      last = now;
      if (i % 1000 == 0) std::this_thread::sleep_for(milliseconds(12));
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(look);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(went_wrong);
}

// The child waits for a deadline of 0.4 s, and is stopped for 1.2 s meanwhile.
TEST(AwakeTime, LeavesOutWhatAStoppedProcessMissed) {
  const Pipe pipe = Pipe::make();
  Child child([&] {
    alarm(60);
    const auto begin = std::chrono::steady_clock::now();
    const auto end = AwakeClock::now() + milliseconds(400);
    char mark = '.';
    if (write(pipe.writing.get(), &mark, 1) != 1) return 2;
    while (next_sleep(end).count() > 0) std::this_thread::sleep_for(next_sleep(end));
    return std::chrono::steady_clock::now() - begin > milliseconds(1300) ? 0 : 1;
  });
  char mark = 0;
  ASSERT_EQ(read(pipe.reading.get(), &mark, 1), 1);
  child.send(SIGSTOP);
  std::this_thread::sleep_for(milliseconds(1200));
  child.send(SIGCONT);
  EXPECT_EQ(child.reap(), 0);
}

TEST(AwakeTime, IsLookedAtForWhoBlocks) {
  const auto begin = AwakeClock::now();
  {
    const AwakeTicks ticks;
    std::this_thread::sleep_for(milliseconds(700));  // as the resolver of names would
  }
  EXPECT_GE(AwakeClock::now() - begin, milliseconds(600));
}

}  // namespace
}  // namespace banyan::run
