#include "banyan/compose/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/fabric/cables.h"
#include "banyan/fabric/generate.h"
#include "banyan/fabric/read.h"
#include "banyan/plan/baselines.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/schedule_file.h"
#include "banyan/schedule/verify.h"

namespace banyan::compose {
namespace {

using ::testing::HasSubstr;

constexpr Bytes kLarge{uint64_t{1} << 30};

run::RankLayout on_hosts(std::vector<uint32_t> host_of_rank) {
  run::RankLayout layout{
      .members = {}, .job_size = static_cast<uint32_t>(host_of_rank.size()), .host_of_rank = host_of_rank};
  for (uint32_t rank = 0; rank < layout.job_size; ++rank) layout.members.push_back(rank);
  return layout;
}

TEST(Planner, LetsFewBytesCrossBetweenHosts) {
  const auto planner = make_planner({}, on_hosts({0, 0, 0, 1, 1, 1}));
  const Schedule& schedule = *planner->plan({.kind = CollectiveKind::all_gather, .total = kLarge}).schedule;
  EXPECT_TRUE(verify(schedule).valid);
  ASSERT_EQ(schedule.collective().participants().size(), 6u);
  // Half of the data lies on each host and must cross once, at 3 GB/s.
  EXPECT_EQ(seconds_per_byte(schedule), Fraction(1, 6'000'000'000));
}

TEST(Planner, AnswersEqualQuestionsWithTheSamePlan) {
  const auto planner = make_planner({}, on_hosts({0, 1, 2, 3}));
  const run::PlanSource::Question question{.kind = CollectiveKind::broadcast, .root = 2, .total = kLarge};
  EXPECT_EQ(planner->plan(question).schedule, planner->plan(question).schedule);
  EXPECT_EQ(planner->plan(question).schedule->collective().root(),
            planner->plan(question).schedule->fabric().ranks()[2]);
}

TEST(Planner, RefusesAFabricOfAnotherSize) {
  try {
    make_planner({.fabric = "ring:5"}, on_hosts({0, 1, 2, 3}));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_THAT(error.what(), HasSubstr("this fabric has 5 ranks, the communicator has 4"));
  }
}

TEST(Planner, PlansForThoseWhoAreLeftOnTheFabricOfAll) {
  const auto planner =
      make_planner({.fabric = "full:5@1GB/s"}, {.members = {4, 0, 2}, .job_size = 5, .host_of_rank = {0, 1, 2}});
  const Schedule& schedule = *planner->plan({.kind = CollectiveKind::all_gather, .total = kLarge}).schedule;
  EXPECT_TRUE(verify(schedule).valid);
  std::vector<std::string> names;
  for (const NodeId node : schedule.collective().participants()) names.push_back(schedule.fabric().name(node));
  const Fabric fabric = fabric::generate_fabric("full:5@1GB/s");
  EXPECT_EQ(names, (std::vector<std::string>{fabric.name(fabric.ranks()[4]), fabric.name(fabric.ranks()[0]),
                                             fabric.name(fabric.ranks()[2])}));
}

TEST(Planner, KnowsTheAddressesOfAPath) {
  const std::string folder = ::testing::TempDir();
  const std::string routes = folder + "/banyan-routes-" + std::to_string(getpid());
  write_file(routes, R"({"banyan": "routes/1", "routes": [
    {"path": ["a", "sw", "b"], "cables": [1, 0], "addresses": ["10.0.0.1", "10.0.0.2"]}]})");
  const std::string fabric = "a <-> sw 1GB/s; a <-> sw 1GB/s; b <-> sw 1GB/s";
  const auto planner = make_planner({.fabric = fabric, .routes = routes}, on_hosts({0, 1}));
  const Fabric same = fabric::load_fabric({.fabric = fabric});
  const fabric::Cables cables(same);
  const auto link = [&](uint32_t cable, const char* from) { return *cables[cable].from(same.at(from)); };
  const run::PlanLane second{.peer = 1, .lane = 0, .to_peer = {link(1, "a"), link(2, "sw")}};
  EXPECT_EQ(planner->way(0, second)->path, (run::Path{"10.0.0.1", "10.0.0.2"}));
  const run::PlanLane back{.peer = 0, .lane = 0, .from_peer = {link(1, "a"), link(2, "sw")}};
  EXPECT_EQ(planner->way(1, back)->path, (run::Path{"10.0.0.2", "10.0.0.1"}));
  const run::PlanLane first{.peer = 1, .lane = 0, .to_peer = {link(0, "a"), link(2, "sw")}};
  EXPECT_FALSE(planner->way(0, first));
  // Without the first cable, links have other numbers, and the same ways.
  planner->revise({.generation = 1, .lost_cables = {0}});
  const Schedule& schedule = *planner->plan({.kind = CollectiveKind::all_gather, .total = kLarge}).schedule;
  EXPECT_EQ(seconds_per_byte(schedule), Fraction(1, 2'000'000'000));
  const Fabric& rest = schedule.fabric();
  ASSERT_EQ(rest.out_links(rest.at("a")).size(), 1u);
  const LinkId last = *std::find_if(rest.out_links(rest.at("sw")).begin(), rest.out_links(rest.at("sw")).end(),
                                    [&](LinkId id) { return rest.link(id).to == rest.at("b"); });
  const run::PlanLane renumbered{.peer = 1, .lane = 0, .to_peer = {rest.out_links(rest.at("a"))[0], last}};
  ASSERT_TRUE(planner->way(0, renumbered));
  EXPECT_EQ(planner->way(0, renumbered)->cables, (std::vector<uint32_t>{1, 2}));
  EXPECT_THROW(planner->expect_possible({.generation = 2, .lost_cables = {0, 1}}), Error);
  EXPECT_THROW(planner->revise({.generation = 2, .lost_cables = {0, 1}}), Error);
  EXPECT_TRUE(planner->way(0, renumbered)) << "what is refused changes nothing";
  std::filesystem::remove(routes);
}

TEST(Planner, KnowsTheWaysForWhatFollowsNoPlan) {
  const std::string routes = ::testing::TempDir() + "/banyan-direct-" + std::to_string(getpid());
  write_file(routes, R"({"banyan": "routes/1", "routes": [
    {"path": ["a", "sw", "b"], "addresses": ["10.0.0.1", "10.0.0.2"]},
    {"path": ["a", "c", "b"], "addresses": ["10.0.0.3", "10.0.0.4"]},
    {"path": ["b", "a"], "addresses": ["10.0.0.6", "10.0.0.5"]}]})");
  const auto planner = make_planner(
      {.fabric = "a <-> sw 1GB/s; b <-> sw 1GB/s; a <-> c 1GB/s; c <-> b 1GB/s; a <-> b 1GB/s", .routes = routes},
      on_hosts({0, 1, 2}));
  using Cables = std::vector<uint32_t>;
  const auto ways = planner->ways_between(0, 1), back = planner->ways_between(1, 0);
  ASSERT_EQ(ways.size(), 3u);
  ASSERT_EQ(back.size(), 3u);
  EXPECT_EQ(ways[0].cables, Cables{4}) << "not the shortest";
  EXPECT_EQ(ways[0].path, (run::Path{"10.0.0.5", "10.0.0.6"}));
  for (size_t i = 0; i < ways.size(); ++i) {
    EXPECT_EQ(back[i].cables, Cables(ways[i].cables.rbegin(), ways[i].cables.rend()));
    EXPECT_EQ(back[i].path, (run::Path{ways[i].path.peer_address, ways[i].path.local_address}));
  }
  planner->revise({.generation = 1, .lost_cables = {0, 4}});
  ASSERT_EQ(planner->ways_between(0, 1).size(), 1u);
  EXPECT_EQ(planner->ways_between(0, 1)[0].cables, (Cables{2, 3}));
  EXPECT_EQ(planner->ways_between(1, 0)[0].path, (run::Path{"10.0.0.4", "10.0.0.3"}));
  EXPECT_TRUE(planner->ways_between(0, 2).empty()) << "nobody has said what takes it";
  std::filesystem::remove(routes);
}

Fraction time_of(run::PlanSource& planner) {
  return seconds_per_byte(*planner.plan({.kind = CollectiveKind::all_gather, .total = kLarge}).schedule);
}

TEST(Planner, PlansForBandwidthsThatHaveChanged) {
  const auto planner = make_planner({.fabric = "a <-> sw 1GB/s; b <-> sw 1GB/s"}, on_hosts({0, 1}));
  const Fraction before = time_of(*planner);
  planner->revise({.generation = 1, .bytes_per_second = {{0, 250'000'000}}});
  EXPECT_EQ(time_of(*planner), before * Fraction(4));
  planner->revise({.generation = 2});  // an update is the whole difference
  EXPECT_EQ(time_of(*planner), before);
}

TEST(Planner, IgnoresUpdatesOfOldGenerations) {
  const auto planner = make_planner({.fabric = "a <-> sw 1GB/s; b <-> sw 1GB/s"}, on_hosts({0, 1}));
  const Fraction before = time_of(*planner);
  planner->revise({.generation = 5, .bytes_per_second = {{0, 500'000'000}}});
  for (const uint32_t old : {0u, 4u, 5u}) planner->revise({.generation = old});
  EXPECT_EQ(time_of(*planner), before * Fraction(2));
}

TEST(Planner, FollowsThePlanThatAnUpdateBringsAndRefusesAWrongOne) {
  const Fabric fabric = fabric::generate_fabric("full:4@1GB/s");
  const auto planner = make_planner({.fabric = "full:4@1GB/s"}, on_hosts({0, 1, 2, 3}));
  const Schedule ring =
      plan_baseline(plan::Baseline::ring, fabric, Collective::make(fabric, {.kind = CollectiveKind::all_gather}));
  const std::string text = schedule::format_schedule({.schedule = ring,
                                                      .planner = "ring",
                                                      .claimed_seconds_per_byte = seconds_per_byte(ring),
                                                      .bound_seconds_per_byte = {}});
  const auto height = [&] {
    return heights(*planner->plan({.kind = CollectiveKind::all_gather, .total = kLarge}).schedule).max;
  };
  EXPECT_NE(height(), 3u);
  planner->revise({.generation = 1, .plan = text});
  EXPECT_EQ(height(), 3u) << "not the ring";
  EXPECT_THROW(planner->revise({.generation = 2, .plan = "{}"}), Error);
  EXPECT_THROW(planner->revise({.generation = 2, .bytes_per_second = {{99, 1}}}), Error);
  EXPECT_THROW(planner->revise({.generation = 2, .bytes_per_second = {{0, 0}}}), Error);
  EXPECT_EQ(height(), 3u) << "what is refused changes nothing";
  const auto others = make_planner({.fabric = "full:5@1GB/s"}, on_hosts({0, 1, 2, 3, 4}));
  EXPECT_THROW(others->expect_possible({.generation = 1, .plan = text}), Error);
}

TEST(Planner, FollowsAPlanFileForItsCollective) {
  const Fabric fabric = fabric::generate_fabric("ring:4");
  const Schedule ring =
      plan_baseline(plan::Baseline::ring, fabric, Collective::make(fabric, {.kind = CollectiveKind::all_gather}));
  std::string path = std::filesystem::temp_directory_path() / "banyan-plan-XXXXXX";
  const int fd = mkstemp(path.data());
  ASSERT_GE(fd, 0);
  close(fd);
  schedule::write_schedule(path, {.schedule = ring,
                                  .planner = "ring",
                                  .claimed_seconds_per_byte = seconds_per_byte(ring),
                                  .bound_seconds_per_byte = {}});
  const auto planner = make_planner({.plan = path}, on_hosts({0, 1, 2, 3}));
  const Schedule& used = *planner->plan({.kind = CollectiveKind::all_gather, .total = Bytes(8)}).schedule;
  EXPECT_EQ(heights(used).max, 3u) << "not the ring";
  EXPECT_EQ(planner->plan({.kind = CollectiveKind::all_reduce, .total = kLarge}).schedule->collective().kind(),
            CollectiveKind::all_reduce);
  EXPECT_THROW(make_planner({.plan = path}, on_hosts({0, 1, 2})), Error);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace banyan::compose
