#include "banyan/compose/planner.h"

#include <stdlib.h>

#include "banyan/base/file.h"
#include "banyan/compose/test_layouts.h"
#include "banyan/fabric/cables.h"
#include "banyan/fabric/generate.h"
#include "banyan/fabric/read.h"
#include "banyan/plan/baselines/baselines.h"
#include "banyan/plan/planner.h"
#include "banyan/run/engine/rank_plan.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/schedule_file.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/test.h"

namespace banyan::compose {
namespace {

TEST(Planner, LetsFewBytesCrossBetweenHosts) {
  auto planner = make_planner({}, on_hosts({0, 0, 0, 1, 1, 1}));
  const Schedule& schedule = *planner->plan({.kind = CollectiveKind::all_gather, .total = kLarge}).schedule;
  EXPECT_TRUE(verify(schedule).valid);
  ASSERT_EQ(schedule.collective().participants().size(), 6u);
  // Half of the data lies on each host and must cross once, at 3 GB/s.
  EXPECT_EQ(seconds_per_byte(schedule), Fraction(1, 6'000'000'000));
}

TEST(Planner, AnswersEqualQuestionsWithTheSamePlan) {
  auto planner = make_planner({}, on_hosts({0, 1, 2, 3}));
  const run::PlanSource::Question question{.kind = CollectiveKind::broadcast, .root = 2, .total = kLarge};
  EXPECT_EQ(planner->plan(question).schedule, planner->plan(question).schedule);
  EXPECT_EQ(planner->plan(question).schedule->collective().root(),
            planner->plan(question).schedule->fabric().ranks()[2]);
}

TEST(Planner, SpreadsRingsOverAllWaysWhereTheyCanBeChosen) {
  const std::string spines =
      "a <-> swa 4GB/s; b <-> swb 4GB/s; swa <-> sws 1GB/s; sws <-> swb 1GB/s; "
      "swa <-> swt 1GB/s; swt <-> swb 1GB/s";
  const std::string routes = ::testing::TempDir() + "/banyan-spines-" + std::to_string(getpid());
  write_file(routes, R"({"banyan": "routes/1", "routes": [
      {"path": ["a", "swa", "sws", "swb", "b"], "addresses": ["10.0.0.1", "10.0.0.2"]},
      {"path": ["a", "swa", "swt", "swb", "b"], "addresses": ["10.1.0.1", "10.1.0.2"]}]})");
  const run::FabricUpdate ring{.planner = "ring"};
  auto chooses = make_planner({.fabric = spines, .routes = routes}, on_hosts({0, 1}))->revised(ring);
  auto cannot = make_planner({.fabric = spines}, on_hosts({0, 1}))->revised(ring);
  const run::PlanSource::Question question{.kind = CollectiveKind::all_reduce, .total = kLarge};
  EXPECT_EQ(seconds_per_byte(*chooses->plan(question).schedule), Fraction(1, 2'000'000'000));
  EXPECT_EQ(seconds_per_byte(*cannot->plan(question).schedule), Fraction(1, 1'000'000'000));
  EXPECT_EQ(seconds_per_byte(*chooses->plan({.total = Bytes(1000)}).schedule), Fraction(1, 1'000'000'000))
      << "too small to be divided";
  EXPECT_TRUE(verify(*chooses->plan(question).schedule).valid);
  EXPECT_EQ(chooses->plan(question).schedule, chooses->plan(question).schedule) << "it is kept";
  std::filesystem::remove(routes);
}

TEST(Planner, BranchesAtNoSwitches) {
  auto planner = make_planner({.fabric = "dgx-a100:1+nvls"}, on_hosts({0, 1, 2, 3, 4, 5, 6, 7}));
  const Schedule& schedule = *planner->plan({.kind = CollectiveKind::all_reduce, .total = kLarge}).schedule;
  EXPECT_TRUE(verify(schedule).valid);
  EXPECT_NO_THROW(run::make_rank_plans(schedule, 1 << 20));
  EXPECT_EQ(seconds_per_byte(schedule), Fraction(14, 8 * int128{300'000'000'000}));
}

TEST(Planner, RefusesAFabricOfAnotherSize) {
  EXPECT_THAT(testing::error_of(
                  [&] {
                    make_planner({.fabric = "ring:5"}, on_hosts({0, 1, 2, 3}));
                  },
                  ErrorCode::mismatch),
              HasSubstr("this fabric has 5 ranks, the communicator has 4"));
}

TEST(Planner, PlansForThoseWhoAreLeftOnTheFabricOfAll) {
  auto planner =
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
  auto planner = make_planner({.fabric = fabric, .routes = routes}, on_hosts({0, 1}));
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
  planner = planner->revised({.generation = 1, .lost_cables = {0}});
  const Schedule& schedule = *planner->plan({.kind = CollectiveKind::all_gather, .total = kLarge}).schedule;
  EXPECT_EQ(seconds_per_byte(schedule), Fraction(1, 2'000'000'000));
  const Fabric& rest = schedule.fabric();
  ASSERT_EQ(rest.out_links(rest.at("a")).size(), 1u);
  const LinkId last = *std::find_if(rest.out_links(rest.at("sw")).begin(), rest.out_links(rest.at("sw")).end(),
                                    [&](LinkId id) { return rest.link(id).to == rest.at("b"); });
  const run::PlanLane renumbered{.peer = 1, .lane = 0, .to_peer = {rest.out_links(rest.at("a"))[0], last}};
  ASSERT_TRUE(planner->way(0, renumbered));
  EXPECT_EQ(planner->way(0, renumbered)->cables, (std::vector<uint32_t>{1, 2}));
  EXPECT_THROW(planner->revised({.generation = 2, .lost_cables = {0, 1}}), Error);
  EXPECT_THROW(planner->revised({.generation = 2, .lost_cables = {0, 1}}), Error);
  EXPECT_TRUE(planner->way(0, renumbered)) << "what is refused changes nothing";
  std::filesystem::remove(routes);
}

TEST(Planner, KnowsTheWaysForWhatFollowsNoPlan) {
  const std::string routes = ::testing::TempDir() + "/banyan-direct-" + std::to_string(getpid());
  write_file(routes, R"({"banyan": "routes/1", "routes": [
    {"path": ["a", "sw", "b"], "addresses": ["10.0.0.1", "10.0.0.2"]},
    {"path": ["a", "c", "b"], "addresses": ["10.0.0.3", "10.0.0.4"]},
    {"path": ["b", "a"], "addresses": ["10.0.0.6", "10.0.0.5"]}]})");
  auto planner = make_planner(
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
  planner = planner->revised({.generation = 1, .lost_cables = {0, 4}});
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
  auto planner = make_planner({.fabric = "a <-> sw 1GB/s; b <-> sw 1GB/s"}, on_hosts({0, 1}));
  const Fraction before = time_of(*planner);
  planner = planner->revised({.generation = 1, .bytes_per_second = {{0, 250'000'000}}});
  EXPECT_EQ(time_of(*planner), before * Fraction(4));
  planner = planner->revised({.generation = 2});  // an update is the whole difference
  EXPECT_EQ(time_of(*planner), before);
}

TEST(Planner, StaysAsItIsWhenAnotherIsMadeForAnotherNetwork) {
  const auto planner = make_planner({.fabric = "a <-> sw 1GB/s; b <-> sw 1GB/s"}, on_hosts({0, 1}));
  const Fraction before = time_of(*planner);
  const auto other = planner->revised({.generation = 5, .bytes_per_second = {{0, 500'000'000}}});
  EXPECT_EQ(time_of(*other), before * Fraction(2));
  EXPECT_EQ(time_of(*planner), before);
}

TEST(Planner, FollowsThePlanThatAnUpdateBringsAndRefusesAWrongOne) {
  const Fabric fabric = fabric::generate_fabric("full:4@1GB/s");
  auto planner = make_planner({.fabric = "full:4@1GB/s"}, on_hosts({0, 1, 2, 3}));
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
  planner = planner->revised({.generation = 1, .plan = text});
  EXPECT_EQ(height(), 3u) << "not the ring";
  EXPECT_THROW(planner->revised({.generation = 2, .plan = "{}"}), Error);
  EXPECT_THROW(planner->revised({.generation = 2, .bytes_per_second = {{99, 1}}}), Error);
  EXPECT_THROW(planner->revised({.generation = 2, .bytes_per_second = {{0, 0}}}), Error);
  EXPECT_EQ(height(), 3u) << "what is refused changes nothing";
  const auto others = make_planner({.fabric = "full:5@1GB/s"}, on_hosts({0, 1, 2, 3, 4}));
  EXPECT_THROW(others->revised({.generation = 1, .plan = text}), Error);
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
  auto planner = make_planner({.plan = path}, on_hosts({0, 1, 2, 3}));
  const Schedule& used = *planner->plan({.kind = CollectiveKind::all_gather, .total = Bytes(8)}).schedule;
  EXPECT_EQ(heights(used).max, 3u) << "not the ring";
  EXPECT_EQ(planner->plan({.kind = CollectiveKind::all_reduce, .total = kLarge}).schedule->collective().kind(),
            CollectiveKind::all_reduce);
  EXPECT_THROW(make_planner({.plan = path}, on_hosts({0, 1, 2})), Error);
  std::filesystem::remove(path);
}

// ---- A fabric of a cluster, whose ranks are hosts ----

std::vector<std::string> participants_of(const Schedule& schedule) {
  std::vector<std::string> names;
  for (const NodeId node : schedule.collective().participants()) names.push_back(schedule.fabric().name(node));
  return names;
}

const Schedule& allreduce_of(run::PlanSource& planner) {
  return *planner.plan({.kind = CollectiveKind::all_reduce, .total = kLarge}).schedule;
}

TEST(ClusterPlanner, PlansForTheHostsOfACommunicatorInItsOrder) {
  using Names = std::vector<std::string>;
  const Fabric cluster = fabric::generate_fabric(kLeafSpine);
  for (const Names& names :
       {Names{"gpu0", "gpu1", "gpu2", "gpu3"}, {"gpu3", "gpu1", "gpu0", "gpu2"}, {"gpu2", "gpu1"}}) {
    std::vector<uint32_t> hosts(names.size());
    std::iota(hosts.begin(), hosts.end(), 0u);
    auto planner = make_planner({.fabric = kLeafSpine}, on_nodes(names, hosts));
    const Schedule& schedule = allreduce_of(*planner);
    EXPECT_TRUE(verify(schedule).valid);
    EXPECT_EQ(participants_of(schedule), names);
    EXPECT_EQ(schedule.fabric().fingerprint(), cluster.fingerprint()) << "no node changes";
  }
}

TEST(ClusterPlanner, PutsTheRanksOfAHostBehindIt) {
  auto planner = make_planner({.fabric = kLeafSpine}, on_nodes({"gpu2", "gpu0"}, {0, 1, 0, 0}));
  const Schedule& schedule = allreduce_of(*planner);
  EXPECT_TRUE(verify(schedule).valid);
  EXPECT_EQ(participants_of(schedule), (std::vector<std::string>{"gpu2.0", "gpu0", "gpu2.1", "gpu2.2"}));
  const Fabric& network = schedule.fabric();
  EXPECT_FALSE(network.is_rank(network.at("gpu2")));
  EXPECT_TRUE(network.is_rank(network.at("gpu1"))) << "it takes no part";
  const Fabric cluster = fabric::generate_fabric(kLeafSpine);
  ASSERT_EQ(network.links().size(), cluster.links().size() + 6);
  for (uint32_t link = 0; link < network.links().size(); ++link) {
    const Link& laid = network.link(LinkId{link});
    if (link >= cluster.links().size()) {
      EXPECT_EQ(laid.bandwidth, Bandwidth::bytes_per_second(100'000'000)) << "of a host with 200 Mb/s";
      continue;
    }
    EXPECT_EQ(laid.from, cluster.link(LinkId{link}).from) << link;
    EXPECT_EQ(laid.to, cluster.link(LinkId{link}).to) << link;
  }
}

TEST(ClusterPlanner, LosesNoBandwidthToHostsWithSeveralRanks) {
  const std::vector<std::string> names{"gpu0", "gpu1", "gpu2", "gpu3"};
  const auto plain = make_planner({.fabric = kLeafSpine}, on_hosts({0, 1, 2, 3}));
  for (const std::vector<uint32_t>& hosts :
       {std::vector<uint32_t>{0, 1, 2, 3}, {0, 0, 1, 1, 2, 2, 3, 3}, {0, 1, 2, 3, 3, 2, 1, 0}}) {
    auto planner = make_planner({.fabric = kLeafSpine}, on_nodes(names, hosts));
    for (const CollectiveTraits& traits : kCollectives) {
      if (!traits.is_planned || is_personal(traits.kind)) continue;
      const run::PlanSource::Question question{.kind = traits.kind, .root = 1, .total = kLarge};
      const Schedule& schedule = *planner->plan(question).schedule;
      EXPECT_TRUE(verify(schedule).valid);
      EXPECT_EQ(seconds_per_byte(schedule), seconds_per_byte(*plain->plan(question).schedule)) << traits.name;
    }
  }
}

TEST(ClusterPlanner, SendsNothingThroughAHostThatIsNotMeantForIt) {
  auto planner = make_planner({.fabric = "a <-> b 1GB/s; b <-> c 1GB/s"}, on_nodes({"a", "b", "c"}, {0, 1, 1, 2}));
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::broadcast}) {
    const Schedule& schedule = *planner->plan({.kind = kind, .total = kLarge}).schedule;
    EXPECT_TRUE(verify(schedule).valid);
    for (uint32_t number = 0; number < schedule.route_count(); ++number) {
      const Route route = schedule.route(RouteId{number});
      EXPECT_LE(std::count_if(route.links.begin(), route.links.end(), [](LinkId link) { return index(link) < 4; }), 1)
          << schedule.fabric().name(route.from) << " -> " << schedule.fabric().name(route.to);
    }
  }
}

TEST(ClusterPlanner, NamesAHostThatTheFabricDoesNotHave) {
  const auto error_of = [](std::vector<std::string> nodes, ErrorCode code) -> std::string {
    try {
      make_planner({.fabric = kLeafSpine}, on_nodes(std::move(nodes), {0, 1, 1}));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      return error.what();
    }
    return "accepted";
  };
  const std::string unknown = error_of({"gpu1", "gpu9"}, ErrorCode::not_found);
  EXPECT_THAT(unknown, HasSubstr("node 'gpu9', which the fabric does not have (did you mean 'gpu"));
  EXPECT_THAT(unknown, HasSubstr("start the daemon with --node NAME"));
  EXPECT_THAT(error_of({"leaf0", "gpu1"}, ErrorCode::not_found), HasSubstr("node 'leaf0', which is a switch"));
  EXPECT_THAT(error_of({"gpu1", "gpu1"}, ErrorCode::invalid_input),
              HasSubstr("two hosts of the communicator are node"));
}

TEST(ClusterPlanner, NeedsNoNodesWithoutAFabric) {
  auto planner = make_planner({}, on_nodes({"anything", ""}, {0, 0, 1}));
  EXPECT_EQ(participants_of(allreduce_of(*planner)), (std::vector<std::string>{"rank0", "rank1", "rank2"}));
}

TEST(ClusterPlanner, RefusesAPlanForOtherHosts) {
  const Fabric cluster = fabric::generate_fabric(kLeafSpine);
  const std::string path = ::testing::TempDir() + "/banyan-cluster-plan-" + std::to_string(getpid());
  const Schedule ring = plan_baseline(plan::Baseline::ring, cluster,
                                      Collective::make(cluster, {.kind = CollectiveKind::all_gather,
                                                                 .ranks = {cluster.at("gpu2"), cluster.at("gpu1")}}));
  schedule::write_schedule(path, {.schedule = ring,
                                  .planner = "ring",
                                  .claimed_seconds_per_byte = seconds_per_byte(ring),
                                  .bound_seconds_per_byte = {}});
  const PlannerOptions options{.fabric = kLeafSpine, .plan = path};
  EXPECT_EQ(make_planner(options, on_nodes({"gpu2", "gpu1"}, {0, 1}))
                ->plan({.kind = CollectiveKind::all_gather, .total = kLarge})
                .planner,
            "the given plan");
  EXPECT_THROW(make_planner(options, on_nodes({"gpu2", "gpu3"}, {0, 1})), Error);
  EXPECT_THROW(make_planner(options, on_nodes({"gpu2"}, {0, 0})), Error);
  std::filesystem::remove(path);
}

TEST(ClusterPlanner, KnowsTheAddressesOfHostsWithSeveralRanks) {
  const std::string routes = ::testing::TempDir() + "/banyan-hosts-" + std::to_string(getpid());
  write_file(routes, R"({"banyan": "routes/1", "routes": [
    {"path": ["a", "sw0", "b"], "addresses": ["10.0.0.1", "10.0.0.2"]},
    {"path": ["a", "sw1", "b"], "addresses": ["10.0.1.1", "10.0.1.2"]}]})");
  const std::string rails = "a <-> sw0 1GB/s; a <-> sw1 1GB/s; b <-> sw0 1GB/s; b <-> sw1 1GB/s";
  const std::vector<uint32_t> hosts{0, 1, 0, 1};
  auto planner = make_planner({.fabric = rails, .routes = routes}, on_nodes({"b", "a"}, hosts));
  using Cables = std::vector<uint32_t>;
  std::set<Cables> crossed;
  const auto look = [&] {
    crossed.clear();
    const Schedule& schedule = allreduce_of(*planner);
    for (uint32_t rank = 0; rank < hosts.size(); ++rank) {
      for (const run::PlanLane& lane : run::make_rank_plan(schedule, 1000, rank).lanes) {
        const auto way = planner->way(rank, lane);
        ASSERT_EQ(way.has_value(), hosts[rank] != hosts[lane.peer]) << rank << " to " << lane.peer;
        if (!way) continue;
        const bool is_from_b = hosts[rank] == 0, is_first = way->cables.front() % 2 == 0;
        EXPECT_EQ(way->cables,
                  is_from_b ? (is_first ? Cables{2, 0} : Cables{3, 1}) : (is_first ? Cables{0, 2} : Cables{1, 3}));
        const std::string net = is_first ? "10.0.0." : "10.0.1.";
        EXPECT_EQ(way->path, (run::Path{net + (is_from_b ? "2" : "1"), net + (is_from_b ? "1" : "2")}));
        crossed.insert(way->cables);
      }
    }
  };
  look();
  EXPECT_THAT(crossed, UnorderedElementsAre(Cables{2, 0}, Cables{3, 1}, Cables{0, 2}, Cables{1, 3}));
  EXPECT_TRUE(planner->ways_between(0, 2).empty()) << "both are on one host";
  const auto ways = planner->ways_between(0, 3);
  ASSERT_EQ(ways.size(), 2u);
  EXPECT_EQ(ways[0].cables, (Cables{2, 0}));
  EXPECT_EQ(ways[0].path, (run::Path{"10.0.0.2", "10.0.0.1"}));
  EXPECT_EQ(planner->cable_name(2), "sw0-b");
  planner = planner->revised({.generation = 1, .lost_cables = {2}, .bytes_per_second = {{1, 500'000'000}}});
  look();
  EXPECT_THAT(crossed, UnorderedElementsAre(Cables{3, 1}, Cables{1, 3}));
  EXPECT_EQ(seconds_per_byte(allreduce_of(*planner)), Fraction(1, 500'000'000));
  EXPECT_EQ(planner->ways_between(0, 3).size(), 1u);
  EXPECT_THROW(planner->revised({.generation = 2, .lost_cables = {2, 3}}), Error);
  std::filesystem::remove(routes);
}

TEST(ClusterPlanner, CaresForTheCablesOfItsOwnHostsOnly) {
  const std::string ring = "a <-> b 1GB/s; b <-> c 1GB/s; c <-> d 1GB/s; d <-> a 1GB/s";
  auto planner = make_planner({.fabric = ring}, on_nodes({"b", "a"}, {0, 1}));
  planner = planner->revised({.generation = 1, .lost_cables = {1, 2}});  // nobody reaches c
  EXPECT_TRUE(verify(allreduce_of(*planner)).valid);
  EXPECT_THAT(testing::error_of([&] { planner = planner->revised({.generation = 2, .lost_cables = {0}}); },
                                ErrorCode::peer_lost),
              HasSubstr("a-b"));
}

TEST(Planner, FollowsThePlannerThatIsWantedWhereItHasAPlan) {
  const auto planner = make_planner({.fabric = "full:6@1GB/s"}, on_hosts({0, 1, 2, 3, 4, 5}));
  const auto name_of = [](run::PlanSource& source, CollectiveKind kind, Bytes total) {
    return source.plan({.kind = kind, .total = total}).planner;
  };
  EXPECT_NE(name_of(*planner, CollectiveKind::all_gather, kLarge), "recursive-doubling");
  const auto doubling = planner->revised({.generation = 1, .planner = "double-binary-tree"});
  for (const Bytes total : {Bytes(8), kLarge}) {
    const auto answer = doubling->plan({.kind = CollectiveKind::all_reduce, .total = total});
    EXPECT_EQ(answer.planner, "double-binary-tree");
    EXPECT_TRUE(verify(*answer.schedule).valid);
  }
  // Six ranks are no power of two.
  const auto impossible = planner->revised({.generation = 2, .planner = "recursive-doubling"});
  EXPECT_EQ(name_of(*impossible, CollectiveKind::all_gather, kLarge),
            name_of(*planner, CollectiveKind::all_gather, kLarge));
  const auto again = doubling->revised({.generation = 3, .planner = run::FabricUpdate::kBestPlanner});
  EXPECT_EQ(name_of(*again, CollectiveKind::all_reduce, Bytes(8)),
            name_of(*planner, CollectiveKind::all_reduce, Bytes(8)));
  EXPECT_THROW(planner->revised({.generation = 4, .planner = "nobody"}), Error);
}

TEST(Planner, DoesWithoutWhatIsLostAndWhatIsAvoided) {
  auto planner = make_planner(
      {.fabric = "s: switch; t: switch; a <-> s 1GB/s; a <-> t 1GB/s; b <-> s 1GB/s; b <-> t 1GB/s"}, on_hosts({0, 1}));
  const auto seconds = [](run::PlanSource& source) {
    return seconds_per_byte(*source.plan({.kind = CollectiveKind::all_gather, .total = kLarge}).schedule);
  };
  const Fraction whole = seconds(*planner);
  for (const run::FabricUpdate& update :
       {run::FabricUpdate{.lost_cables = {0}}, run::FabricUpdate{.avoided_cables = {0}},
        run::FabricUpdate{.lost_cables = {0}, .avoided_cables = {2}}, run::FabricUpdate{.avoided_cables = {0, 2}}}) {
    EXPECT_EQ(seconds(*planner->revised(update)), whole * Fraction(2));
  }
  const run::FabricUpdate needed{.lost_cables = {0}, .avoided_cables = {1, 2}, .needed_cables = {1}};
  EXPECT_EQ(seconds(*planner->revised(needed)), whole * Fraction(2));
  EXPECT_THAT(
      testing::error_of([&] { planner->revised({.lost_cables = {0}, .avoided_cables = {1}}); }, ErrorCode::peer_lost),
      HasSubstr("without s-a (lost), t-a there is no way"));
  EXPECT_THROW(planner->revised({.avoided_cables = {4}}), Error) << "there is no such cable";
}

TEST(FabricUpdateText, BringsThePlannerAndThePlan) {
  const run::FabricUpdate update{
      .generation = 3, .lost_cables = {1, 7}, .bytes_per_second = {{2, 5}}, .plan = "a plan\n- ", .planner = "ring"};
  for (const auto& each : {update, run::FabricUpdate{.generation = 4}, run::FabricUpdate{.planner = "best"}}) {
    std::stringstream text;
    text << each << " and more";
    run::FabricUpdate read;
    ASSERT_TRUE(text >> read);
    EXPECT_EQ(read, each);
    std::string rest;
    text >> rest;
    EXPECT_EQ(rest, "and");
  }
  std::stringstream bad("0 0 0 0 0 " + std::string(1000, 'x') + " 0 ");
  run::FabricUpdate read;
  EXPECT_FALSE(bad >> read);
  EXPECT_FALSE(run::PlanWish{.planner = "best"}.is_empty());
}

}  // namespace
}  // namespace banyan::compose
