#include "banyan/service/session/turns.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using Time = Turns<int>::Time;

// A session: so many steps of work are left, each of which takes so long.
struct Job {
  std::string tenant;
  double weight = 1;
  Time step = microseconds(10);
  uint64_t left = UINT64_MAX;
  Time got{0};
  uint64_t steps = 0;
  bool quick = false;

  bool is_quick() const { return quick; }
};

class TurnsTest : public ::testing::Test {
 protected:
  // One round of all jobs, as the worker does it.
  bool round() {
    for (Job& job : jobs_) turns_.offer(job.tenant, job.weight, job);
    return turns_.run(
        [this](Job& job) {
          ++job.steps;
          now_ += job.step;
          if (job.left == 0) return false;
          --job.left;
          return true;
        },
        [](Job& job, Time time) {
          job.got += time;
          return false;
        });
  }
  Time got_by(const std::string& tenant) const {
    Time sum{0};
    for (const Job& job : jobs_) sum += job.tenant == tenant ? job.got : Time(0);
    return sum;
  }

  Time now_{std::chrono::seconds(5)};
  std::vector<Job> jobs_;
  Turns<Job> turns_{[this] { return now_; }};
};

TEST_F(TurnsTest, StepsWhatHasWorkUntilNothingMoves) {
  jobs_ = {{.tenant = "a", .step = microseconds(1), .left = 3},
           {.tenant = "a", .step = microseconds(1), .left = 0},
           {.tenant = "b", .step = microseconds(1), .left = 1}};
  EXPECT_TRUE(round());
  EXPECT_EQ(jobs_[0].left, 0u);
  EXPECT_EQ(jobs_[0].steps, 4u);  // the last one in vain
  EXPECT_EQ(jobs_[1].steps, 1u);
  EXPECT_EQ(jobs_[2].steps, 2u);
  EXPECT_FALSE(round());
  EXPECT_FALSE(Turns<Job>([this] { return now_; }).run([](Job&) { return true; }, [](Job&, Time) { return false; }));
}

TEST_F(TurnsTest, EndsARoundInTimeWhateverThereIsToDo) {
  jobs_ = {{.tenant = "a"}};
  const Time begin = now_;
  EXPECT_TRUE(round());
  EXPECT_GE(now_ - begin, Turns<Job>::kRound);
  EXPECT_LE(now_ - begin, Turns<Job>::kRound + jobs_[0].step);
}

TEST_F(TurnsTest, ShareTheThreadByWeightsWhateverTheNumberOfSessionsAndTheLengthOfSteps) {
  jobs_.assign(64, {.tenant = "many", .weight = 1, .step = microseconds(2)});
  jobs_.push_back({.tenant = "long", .weight = 2, .step = microseconds(150)});
  jobs_.push_back({.tenant = "short", .weight = 4, .step = microseconds(1)});
  while (got_by("many") + got_by("long") + got_by("short") < std::chrono::milliseconds(700)) round();
  const auto part = [&](const char* tenant) { return std::chrono::duration<double>(got_by(tenant)).count() / 0.7; };
  EXPECT_NEAR(part("many"), 1.0 / 7, 0.002);
  EXPECT_NEAR(part("long"), 2.0 / 7, 0.002);
  EXPECT_NEAR(part("short"), 4.0 / 7, 0.002);
  const auto [least, most] = std::minmax_element(jobs_.begin(), jobs_.begin() + 64,
                                                 [](const Job& a, const Job& b) { return a.steps < b.steps; });
  EXPECT_LE(most->steps - least->steps, most->steps / 10 + 2);
}

// A small call comes now and then, while others always have work.
TEST_F(TurnsTest, WhoComesSeldomWaitsForOneStepOfEachOtherTenant) {
  const auto seed = std::random_device()();
  std::mt19937 random(seed);
  jobs_.assign(10, {.tenant = "greedy", .weight = 1, .step = microseconds(40)});
  jobs_.push_back({.tenant = "other", .weight = 1, .step = microseconds(60)});
  jobs_.push_back({.tenant = "seldom", .weight = 1, .step = microseconds(1), .left = 0});
  Job& seldom = jobs_.back();
  for (int calls = 0; calls < 200; ++calls) {
    for (int rounds = static_cast<int>(random() % 5); rounds >= 0; --rounds) round();
    seldom.left = 1;
    const Time asked = now_;
    Time served{0};
    for (int rounds = 0; rounds < 4 && served == Time(0); ++rounds) {
      for (Job& job : jobs_) turns_.offer(job.tenant, job.weight, job);
      turns_.run(
          [&](Job& job) {
            now_ += job.step;
            if (&job != &seldom) return true;
            if (std::exchange(seldom.left, 0) > 0) served = now_;
            return false;
          },
          [](Job&, Time) { return false; });
    }
    ASSERT_GT(served, Time(0)) << "not served, seed " << seed;
    ASSERT_LE(served - asked, microseconds(40 + 60 + 1 + 40)) << "seed " << seed;
  }
}

// A step of a moves data for 30 us. b has a quick step of 2 us after each of them, or as much as a.
TEST_F(TurnsTest, KnowWhoIsHeldUpByLongSteps) {
  const auto hurried_rounds = [&](Time step_of_b, bool is_quick, const std::string& tenant_of_b) {
    Turns<Job> turns{[this] { return now_; }};
    jobs_ = {{.tenant = "a", .step = microseconds(30)}, {.tenant = tenant_of_b, .step = step_of_b, .quick = is_quick}};
    EXPECT_FALSE(turns.is_somebody_held_up());
    int rounds = 0;
    for (int i = 0; i < 1000; ++i) {
      for (Job& job : jobs_) turns.offer(job.tenant, job.weight, job);
      if (i >= 500 && turns.is_somebody_held_up()) ++rounds;
      turns.run(
          [this](Job& job) {
            now_ += job.step;
            return &job == &jobs_.front();
          },
          [](Job&, Time) { return false; });
    }
    return rounds;
  };
  EXPECT_EQ(hurried_rounds(microseconds(2), true, "b"), 500);
  EXPECT_EQ(hurried_rounds(microseconds(2), false, "b"), 0) << "it has no quick session";
  EXPECT_EQ(hurried_rounds(microseconds(30), true, "b"), 0) << "it takes its part";
  EXPECT_EQ(hurried_rounds(microseconds(2), true, "a"), 0) << "nobody else has work";
}

TEST_F(TurnsTest, ForgetTenantsThatAreGone) {
  for (int tenants = 0; tenants < 10'000; ++tenants) {
    jobs_ = {{.tenant = "t" + std::to_string(tenants), .left = 1}};
    ASSERT_TRUE(round());
  }
  jobs_ = {{.tenant = "t0", .step = microseconds(10)}, {.tenant = "new", .step = microseconds(10)}};
  for (int rounds = 0; rounds < 50; ++rounds) round();
  EXPECT_NEAR(static_cast<double>(jobs_[0].steps), static_cast<double>(jobs_[1].steps), 2);
}

}  // namespace
}  // namespace banyan::service
