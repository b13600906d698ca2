// Which all-to-alls follow plans.

#include "banyan/base/file.h"
#include "banyan/compose/planner.h"
#include "banyan/compose/test_layouts.h"
#include "banyan/fabric/generate.h"
#include "banyan/plan/planner.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/schedule_file.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/test.h"

namespace banyan::compose {
namespace {

run::PlanSource::Answer all_to_all_of(run::PlanSource& planner, Bytes total, bool is_even = true) {
  return planner.plan({.kind = CollectiveKind::all_to_all, .total = total, .is_even = is_even});
}

TEST(AllToAllPlans, AreMadeWhereRanksMustForward) {
  auto planner = make_planner({.fabric = "torus:4x4@1GB/s"},
                              on_hosts(std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
  ASSERT_TRUE(planner->plans_all_to_all());
  const auto large = all_to_all_of(*planner, kLarge);
  ASSERT_NE(large.schedule, nullptr);
  EXPECT_TRUE(verify(*large.schedule).valid);
  EXPECT_EQ(large.planner, "flow");
  // Each half of a torus has 16 links (both ways of 8) out; a quarter of all bytes crosses each way.
  EXPECT_EQ(seconds_per_byte(*large.schedule), Fraction(1, 2'000'000'000));
  EXPECT_NEAR(large.busy_seconds, 0.5, 0.1);
  EXPECT_NE(all_to_all_of(*planner, Bytes(16)).schedule, nullptr);
  EXPECT_NE(all_to_all_of(*planner, Bytes(0), false).schedule, nullptr) << "counts cannot go straight either";
  EXPECT_EQ(all_to_all_of(*planner, Bytes(1000)).schedule, all_to_all_of(*planner, Bytes(600)).schedule);
  EXPECT_EQ(all_to_all_of(*planner, kLarge).schedule, large.schedule) << "it is kept";
}

TEST(AllToAllPlans, AreLeftOutWhereGoingStraightIsAsQuick) {
  for (const std::string fabric : {"leaf-spine:leaves=2,hosts=2,spines=2@200Mb/s",
                                   "a <-> sw 1GB/s; b <-> sw 1GB/s; c <-> sw 1GB/s; d <-> sw 1GB/s", "full:4@1GB/s"}) {
    auto planner = make_planner({.fabric = fabric}, on_hosts({0, 1, 2, 3}));
    for (const Bytes total : {Bytes(100), kLarge}) {
      const auto answer = all_to_all_of(*planner, total);
      EXPECT_EQ(answer.schedule, nullptr) << fabric;
      EXPECT_EQ(answer.planner, "straight");
    }
    EXPECT_EQ(all_to_all_of(*planner, Bytes(0), false).schedule, nullptr) << fabric;
  }
  EXPECT_FALSE(make_planner({}, on_hosts({0, 1, 2, 3}))->plans_all_to_all()) << "nobody has named a fabric";
}

TEST(AllToAllPlans, RelayWhereThatIsQuickerForLargeBuffersOnly) {
  // The network has a slow link between two ranks, and both have quick ones to all others.
  const std::string fabric =
      "a <-> sw 1MB/s; sw <-> b 1MB/s; a <-> c 1GB/s; b <-> c 1GB/s; a <-> d 1GB/s; b <-> d 1GB/s; c <-> d 1GB/s";
  auto planner = make_planner({.fabric = fabric}, on_hosts({0, 1, 2, 3}));
  EXPECT_EQ(all_to_all_of(*planner, Bytes(4)).schedule, nullptr);
  const auto answer = all_to_all_of(*planner, kLarge);
  ASSERT_NE(answer.schedule, nullptr);
  EXPECT_GT(heights(*answer.schedule).max, 1u);
  EXPECT_LT(answer.seconds, 1.0) << "straight it takes a quarter of a gigabyte at 1 MB/s";
  EXPECT_EQ(all_to_all_of(*planner, kLarge, false).schedule, nullptr) << "telling counts is not worth it";
}

TEST(AllToAllPlans, TakeWaysOnlyWhereTheyCanBeChosen) {
  // Twice as much goes by the wide spine; a network that spreads alike over both does not know.
  const std::string fabric =
      "a <-> swa 4GB/s; b <-> swb 4GB/s; swa <-> sws 3GB/s; sws <-> swb 3GB/s; swa <-> swt 1GB/s; swt <-> swb 1GB/s";
  const std::string routes = ::testing::TempDir() + "/banyan-uneven-" + std::to_string(getpid());
  write_file(routes, R"({"banyan": "routes/1", "routes": [
      {"path": ["a", "swa", "sws", "swb", "b"], "addresses": ["10.0.0.1", "10.0.0.2"]},
      {"path": ["a", "swa", "swt", "swb", "b"], "addresses": ["10.1.0.1", "10.1.0.2"]}]})");
  auto chooses = make_planner({.fabric = fabric, .routes = routes}, on_hosts({0, 1}));
  auto cannot = make_planner({.fabric = fabric}, on_hosts({0, 1}));
  const auto chosen = all_to_all_of(*chooses, kLarge);
  ASSERT_NE(chosen.schedule, nullptr);
  EXPECT_EQ(seconds_per_byte(*chosen.schedule), Fraction(1, 8'000'000'000));
  EXPECT_EQ(all_to_all_of(*cannot, kLarge).schedule, nullptr);
  std::filesystem::remove(routes);
}

TEST(AllToAllPlans, GoOnWhenALinkIsLostOrAPlannerIsWanted) {
  const auto planner = make_planner({.fabric = "ring:5@1GB/s"}, on_hosts({0, 1, 2, 3, 4}));
  const auto broken = planner->revised({.generation = 1, .lost_cables = {0}});
  const auto answer = all_to_all_of(*broken, kLarge);
  ASSERT_NE(answer.schedule, nullptr);
  EXPECT_TRUE(verify(*answer.schedule).valid);
  // A line of five: 2 * 3 of 25 parts of five buffers cross its middle each way.
  EXPECT_EQ(seconds_per_byte(*answer.schedule), Fraction(6, 5'000'000'000));
  const auto wanted = planner->revised({.generation = 2, .planner = "pairwise"});
  EXPECT_EQ(all_to_all_of(*wanted, kLarge).planner, "pairwise");
  const auto ring = planner->revised({.generation = 3, .planner = "ring"});
  EXPECT_EQ(all_to_all_of(*ring, kLarge).planner, "flow") << "a ring has none";
  // Where hosts take no part, nothing leads through them, and no plan can be made.
  const auto some =
      make_planner({.fabric = "ring:6@1GB/s"}, {.members = {0, 2, 4}, .job_size = 6, .host_of_rank = {0, 1, 2}});
  EXPECT_EQ(all_to_all_of(*some, kLarge).schedule, nullptr);
}

TEST(AllToAllPlans, OfAFileAreFollowedByWhatTheyAreFor) {
  const Fabric fabric = fabric::generate_fabric("full:3@1GB/s");
  const auto written = [&](const std::vector<uint64_t>& traffic) {
    const Schedule schedule =
        plan::make_plan(plan::planner_named("flow"), fabric,
                        Collective::make(fabric, {.kind = CollectiveKind::all_to_all, .traffic = traffic}));
    const std::string path = ::testing::TempDir() + "/banyan-exchange-" + std::to_string(getpid());
    schedule::write_schedule(path, {.schedule = schedule,
                                    .planner = "flow",
                                    .claimed_seconds_per_byte = seconds_per_byte(schedule),
                                    .bound_seconds_per_byte = {}});
    return path;
  };
  const std::string even = written({});
  auto planner = make_planner({.plan = even}, on_hosts({0, 1, 2}));
  EXPECT_EQ(all_to_all_of(*planner, Bytes(300)).planner, "the given plan");
  EXPECT_EQ(all_to_all_of(*planner, Bytes(0), false).planner, "the given plan");
  const std::string uneven = written({0, 3, 1, 1, 0, 0, 0, 2, 0});
  planner = make_planner({.plan = uneven}, on_hosts({0, 1, 2}));
  EXPECT_EQ(all_to_all_of(*planner, Bytes(300)).schedule, nullptr) << "its parts are equal";
  EXPECT_EQ(all_to_all_of(*planner, Bytes(0), false).planner, "the given plan");
  std::filesystem::remove(uneven);
}

}  // namespace
}  // namespace banyan::compose
