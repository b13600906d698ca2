#include "banyan/run/system/run_delay.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

TEST(RunDelayTest, CountsTheTurnsOfTheCallingThread) {
  const std::optional<RunDelay> before = run_delay();
  if (!before) GTEST_SKIP() << "this kernel does not count what threads wait (CONFIG_SCHED_INFO)";
  for (int i = 0; i < 50; ++i) std::this_thread::sleep_for(std::chrono::microseconds(100));
  const std::optional<RunDelay> after = run_delay();
  ASSERT_TRUE(after);
  EXPECT_GE(after->turns, before->turns + 50) << "it has slept and come back";
  EXPECT_GE(after->waited, before->waited);
  std::optional<RunDelay> other;
  std::thread([&] { other = run_delay(); }).join();
  ASSERT_TRUE(other);
  EXPECT_LT(other->turns, 50u) << "another thread has its own";
}

}  // namespace
}  // namespace banyan::run
