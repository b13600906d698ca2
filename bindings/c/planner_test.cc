#include "bindings/c/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "banyan/base/error.h"
#include "banyan/fabric/generate.h"
#include "banyan/plan/baselines.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/schedule_file.h"
#include "banyan/schedule/verify.h"

namespace banyan::c {
namespace {

using ::testing::HasSubstr;

constexpr Bytes kLarge{uint64_t{1} << 30};

TEST(Planner, LetsFewBytesCrossBetweenHosts) {
  const auto planner = make_planner("", "", {0, 0, 0, 1, 1, 1});
  const Schedule& schedule = planner->plan({.kind = CollectiveKind::allgather, .total = kLarge});
  EXPECT_TRUE(verify(schedule).valid);
  ASSERT_EQ(schedule.collective().participants().size(), 6u);
  // Half of the data lies on each host and must cross once, at 3 GB/s.
  EXPECT_EQ(seconds_per_byte(schedule), Fraction(1, 6'000'000'000));
}

TEST(Planner, AnswersEqualQuestionsWithTheSamePlan) {
  const auto planner = make_planner("", "", {0, 1, 2, 3});
  const PlanSource::Question question{.kind = CollectiveKind::broadcast, .root = 2, .total = kLarge};
  EXPECT_EQ(&planner->plan(question), &planner->plan(question));
  EXPECT_EQ(planner->plan(question).collective().root(), planner->plan(question).fabric().ranks()[2]);
}

TEST(Planner, RefusesAFabricOfAnotherSize) {
  try {
    make_planner("ring:5", "", {0, 1, 2, 3});
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_THAT(error.what(), HasSubstr("this fabric has 5 ranks, the communicator has 4"));
  }
}

TEST(Planner, FollowsAPlanFileForItsCollective) {
  const Fabric fabric = generate_fabric("ring:4");
  const Schedule ring =
      plan_baseline(Baseline::ring, fabric, Collective::make(fabric, {.kind = CollectiveKind::allgather}));
  std::string path = std::filesystem::temp_directory_path() / "banyan-plan-XXXXXX";
  const int fd = mkstemp(path.data());
  ASSERT_GE(fd, 0);
  close(fd);
  write_schedule(path, {.schedule = ring,
                        .planner = "ring",
                        .claimed_seconds_per_byte = seconds_per_byte(ring),
                        .bound_seconds_per_byte = {}});
  const auto planner = make_planner("", path, {0, 1, 2, 3});
  const Schedule& used = planner->plan({.kind = CollectiveKind::allgather, .total = Bytes(8)});
  EXPECT_EQ(heights(used).max, 3u) << "not the ring";
  EXPECT_EQ(planner->plan({.kind = CollectiveKind::allreduce, .total = kLarge}).collective().kind(),
            CollectiveKind::allreduce);
  EXPECT_THROW(make_planner("", path, {0, 1, 2}), Error);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace banyan::c
