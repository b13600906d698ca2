#include "banyan/service/daemon/worker_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "banyan/service/daemon/worker.h"

namespace banyan::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A worker that does its tasks when the test says so, and a watch that is looked at every 15 s.
class WorkerWatchTest : public ::testing::Test {
 protected:
  // Whether somebody was told that the daemon lives.
  bool look() {
    const int before = told_;
    ::testing::internal::CaptureStderr();
    watch_.look(now_);
    log_ = ::testing::internal::GetCapturedStderr();
    now_ += seconds(15);
    return told_ > before;
  }
  void come_round() {
    for (const auto& task : std::exchange(tasks_, {})) task();
  }

  std::vector<std::function<void()>> tasks_;
  int told_ = 0;
  WorkerWatch::TimePoint now_{seconds(1000)};
  std::string log_;  // of the last look
  WorkerWatch watch_{[this](std::function<void()> task) { tasks_.push_back(std::move(task)); }, [this] { ++told_; }};
};

TEST_F(WorkerWatchTest, TellsThatTheDaemonLivesWhileTheWorkerComesRound) {
  for (int looks = 0; looks < 5; ++looks) {
    EXPECT_TRUE(look());
    EXPECT_EQ(log_, "");
    come_round();
  }
}

TEST_F(WorkerWatchTest, SaysForHowLongTheWorkerHasNotComeRoundBeforeItTellsNobodyAnyMore) {
  EXPECT_TRUE(look());
  EXPECT_TRUE(look());
  EXPECT_THAT(log_, AllOf(HasSubstr("has not come round for 15.00 s"), Not(HasSubstr("nobody is told"))));
  EXPECT_FALSE(look());
  EXPECT_THAT(log_, HasSubstr("has not come round for 30.00 s; nobody is told any more that this daemon lives"));
  EXPECT_FALSE(look());
  EXPECT_EQ(tasks_.size(), 1u) << "it is not asked again and again";
  come_round();
  EXPECT_TRUE(look());
  EXPECT_THAT(log_, HasSubstr("goes on, after up to 60.00 s"));
  come_round();
  EXPECT_TRUE(look());
  EXPECT_EQ(log_, "");
}

TEST_F(WorkerWatchTest, GivesNobodyUpWhenTheWholeProcessWasStopped) {
  EXPECT_TRUE(look());
  now_ += seconds(3600);
  EXPECT_TRUE(look());
  come_round();
  EXPECT_TRUE(look());
}

// One that sleeps since it has nothing to do is asked, too; one that a task holds up does not answer.
TEST(WorkerWatchOfAWorker, TellsOneThatSleepsFromOneThatHangs) {
  int told = 0;
  Worker worker(true, std::make_shared<run::StepBudget>());
  WorkerWatch watch([&](std::function<void()> task) { worker.post(std::move(task)); }, [&] { ++told; });
  const auto come_round = [&] {
    std::promise<void> done;
    worker.post([&done] { done.set_value(); });
    done.get_future().wait();
  };
  ::testing::internal::CaptureStderr();
  for (int looks = 0; looks < 3; ++looks) {
    std::this_thread::sleep_for(milliseconds(5));
    watch.look(WorkerWatch::TimePoint::clock::now());
    come_round();
  }
  EXPECT_EQ(told, 3);
  std::promise<void> release;
  worker.post([held = release.get_future().share()] { held.wait(); });
  for (int looks = 0; looks < 4; ++looks) watch.look(WorkerWatch::TimePoint::clock::now());
  EXPECT_EQ(told, 5) << "the look that asks, and the one that warns";
  release.set_value();
  come_round();
  watch.look(WorkerWatch::TimePoint::clock::now());
  EXPECT_EQ(told, 6);
  ::testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace banyan::service
