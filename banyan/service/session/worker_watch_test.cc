#include <future>

#include "banyan/service/session/worker.h"
#include "banyan/service/session/workers.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

// A worker that does its tasks when the test says so, and a watch that is looked at every 15 s.
class WorkerWatchTest : public ::testing::Test {
 protected:
  // Whether the daemon is said to live.
  bool look() {
    ::testing::internal::CaptureStderr();
    const bool lives = watch_.look(now_);
    log_ = ::testing::internal::GetCapturedStderr();
    now_ += seconds(15);
    return lives;
  }
  void come_round() {
    for (const auto& task : std::exchange(tasks_, {})) task();
  }

  std::vector<std::function<void()>> tasks_;
  WorkerWatch::TimePoint now_{seconds(1000)};
  std::string log_;  // of the last look
  WorkerWatch watch_{"worker 2 of 3", [this](std::function<void()> task) { tasks_.push_back(std::move(task)); }};
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
  EXPECT_THAT(log_, AllOf(HasSubstr("worker 2 of 3, which carries out calls, has not come round for 15.00 s"),
                          Not(HasSubstr("nobody is told"))));
  EXPECT_FALSE(look());
  EXPECT_THAT(log_, HasSubstr("has not come round for 30.00 s; nobody is told any more that this daemon lives"));
  EXPECT_FALSE(look());
  EXPECT_EQ(tasks_.size(), 1u) << "it is not asked again and again";
  come_round();
  EXPECT_TRUE(look());
  EXPECT_THAT(log_, HasSubstr("worker 2 of 3 goes on, after up to 60.00 s"));
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
  Worker worker(true);
  WorkerWatch watch("the worker", [&](std::function<void()> task) { worker.post(std::move(task)); });
  const auto look = [&] { return watch.look(WorkerWatch::TimePoint::clock::now()); };
  const auto come_round = [&] {
    std::promise<void> done;
    worker.post([&done] { done.set_value(); });
    done.get_future().wait();
  };
  ::testing::internal::CaptureStderr();
  for (int looks = 0; looks < 3; ++looks) {
    std::this_thread::sleep_for(milliseconds(5));
    EXPECT_TRUE(look());
    come_round();
  }
  std::promise<void> release;
  worker.post([held = release.get_future().share()] { held.wait(); });
  EXPECT_TRUE(look()) << "it is asked";
  EXPECT_TRUE(look()) << "it warns";
  EXPECT_FALSE(look());
  release.set_value();
  come_round();
  EXPECT_TRUE(look());
  ::testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace banyan::service
