#include "banyan/service/share/progress_weight.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

TEST(ProgressWeight, GrowsWithProgress) {
  const ProgressWeight law;
  EXPECT_DOUBLE_EQ(law.of(0, 1000), 0.25);
  EXPECT_DOUBLE_EQ(law.of(500, 1000), 1.125);
  EXPECT_DOUBLE_EQ(law.of(1000, 1000), 2);
  EXPECT_DOUBLE_EQ((ProgressWeight{.slope = 0, .intercept = 3}.of(1, 2)), 3);
}

TEST(ProgressWeight, StaysWithinItsEndsAndIsOneWhereNothingIsToDo) {
  const ProgressWeight law;
  EXPECT_DOUBLE_EQ(law.of(-1, 1000), 0.25);
  EXPECT_DOUBLE_EQ(law.of(2000, 1000), 2);
  EXPECT_DOUBLE_EQ(law.of(0, 0), 1);
}

// Two alike jobs that compute and then communicate over one link, which they share by the law's weights, in small
// steps. All in seconds; what is communicated is counted by the time that it takes alone.
struct Jobs {
  double compute = 0, communication = 0;
  double second_starts = 0;
  ProgressWeight law = {};
};

// By job: how long each iteration took.
std::array<std::vector<double>, 2> iterations_of(const Jobs& jobs, size_t count) {
  constexpr double kStep = 0.0002;
  struct Job {
    bool is_communicating = false;
    double computes_until = 0, done = 0, began = 0;
  };
  std::array<Job, 2> state = {{{.computes_until = jobs.compute},
                               {.computes_until = jobs.second_starts + jobs.compute, .began = jobs.second_starts}}};
  std::array<std::vector<double>, 2> taken;
  for (int step = 1; std::min(taken[0].size(), taken[1].size()) < count; ++step) {
    const double now = step * kStep;
    std::array<double, 2> weights{};
    for (size_t i = 0; i < 2; ++i) {
      if (state[i].is_communicating) weights[i] = jobs.law.of(state[i].done, jobs.communication);
    }
    for (size_t i = 0; i < 2; ++i) {
      Job& job = state[i];
      if (!job.is_communicating) {
        if (now < job.computes_until) continue;
        job.is_communicating = true;
        job.done = 0;
        continue;
      }
      job.done += kStep * weights[i] / (weights[0] + weights[1]);
      if (job.done < jobs.communication) continue;
      taken[i].push_back(now - job.began);
      job.is_communicating = false;
      job.began = now;
      job.computes_until = now + jobs.compute;
    }
  }
  return taken;
}

constexpr ProgressWeight kFair{.slope = 0, .intercept = 1};

TEST(ProgressWeight, TwoJobsThatShareEvenlyOverlapForEver) {
  const auto taken =
      iterations_of({.compute = 0.160, .communication = 0.138, .second_starts = 0.001, .law = kFair}, 40);
  for (const auto& job : taken) {
    EXPECT_NEAR(job[9], 0.435, 0.003);
    EXPECT_NEAR(job[39], 0.435, 0.003);
  }
}

TEST(ProgressWeight, TwoJobsInterleaveWithinTenIterations) {
  for (const double offset : {0.001, 0.005, 0.020, 0.100}) {
    SCOPED_TRACE(offset);
    const auto taken = iterations_of({.compute = 0.160, .communication = 0.138, .second_starts = offset}, 40);
    for (const auto& job : taken) {
      for (size_t i = 9; i < 40; ++i) EXPECT_LT(job[i], 0.310) << i;
      EXPECT_NEAR(job[39], 0.160 + 0.138, 0.003);  // as if it were alone
    }
  }
}

TEST(ProgressWeight, ReachesTheBoundWhereTheLinkIsShort) {
  // Both communicate for longer than they compute: no schedule is quicker than a link that is never idle.
  const auto taken = iterations_of({.compute = 0.160, .communication = 0.180, .second_starts = 0.005}, 40);
  const auto fair = iterations_of({.compute = 0.160, .communication = 0.180, .second_starts = 0.005, .law = kFair}, 40);
  EXPECT_NEAR(taken[0][39], 2 * 0.180, 0.003);
  EXPECT_GT(fair[0][39], 0.510);
}

}  // namespace
}  // namespace banyan::service
