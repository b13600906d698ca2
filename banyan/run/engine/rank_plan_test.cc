#include "banyan/run/engine/rank_plan.h"

#include "banyan/fabric/text.h"
#include "banyan/run/engine/test_fleet.h"
#include "banyan/testing/test.h"
#include "banyan/testing/test_sample_forest.h"

namespace banyan::run {
namespace {

const Fabric kTriangle = fabric::parse_fabric_text("a <-> b 1GB/s; b <-> c 1GB/s; c <-> a 1GB/s");

// One chunk rooted at a, with edges such as "b>a".
Schedule one_chunk(const Collective::Options& asked, const std::vector<std::string>& in_tree,
                   const std::vector<std::string>& out_tree) {
  Schedule::Builder builder(kTriangle, Collective::make(kTriangle, asked));
  const auto routes = [&](const std::vector<std::string>& edges) {
    std::vector<RouteId> ids;
    for (const std::string& edge : edges) {
      for (const LinkId link : kTriangle.out_links(kTriangle.at(edge.substr(0, 1)))) {
        if (kTriangle.link(link).to == kTriangle.at(edge.substr(2))) ids.push_back(builder.add_route({&link, 1}));
      }
    }
    return ids;
  };
  const std::vector<RouteId> in = routes(in_tree), out = routes(out_tree);
  builder.add_chunk({.root = kTriangle.at("a"), .units = 1, .in_tree = in, .out_tree = out});
  return std::move(builder).build();
}

NodeId source_of(const Fabric& fabric, const std::vector<LinkId>& route) { return fabric.link(route[0]).from; }

std::string refusal_of(const Schedule& schedule) {
  return testing::error_of([&] { make_rank_plans(schedule, 100); }, ErrorCode::invalid_input);
}

constexpr Collective::Options allreduce() { return {.kind = CollectiveKind::all_reduce}; }

TEST(RankPlan, NamesASwitchThatATreeBranchesAt) {
  const Fabric fabric =
      fabric::parse_fabric_text("sw: switch multicast; a <-> sw 1GB/s; b <-> sw 1GB/s; c <-> sw 1GB/s");
  Schedule::Builder builder(fabric, Collective::make(fabric, {.kind = CollectiveKind::broadcast}));
  std::vector<RouteId> tree;
  for (const LinkId link : {LinkId{0}, LinkId{3}, LinkId{5}}) tree.push_back(builder.add_route(std::vector{link}));
  builder.add_chunk({.root = fabric.at("a"), .units = 1, .out_tree = tree});
  const Schedule schedule = std::move(builder).build();
  EXPECT_EQ(testing::error_of([&] { make_rank_plans(schedule, 100); }, ErrorCode::unsupported),
            "chunk 0 branches at switch 'sw', and hosts run plans that branch at ranks alone; plan for the fabric with "
            "'--in-network sw=none'");
}

TEST(RankPlan, NamesTheNeighboursOfAChunk) {
  const auto plans = make_rank_plans(one_chunk(allreduce(), {"c>b", "b>a"}, {"a>b", "a>c"}), 10);
  ASSERT_EQ(plans.size(), 3u);
  const Role &a = plans[0].roles.at(0), &b = plans[1].roles.at(0), &c = plans[2].roles.at(0);
  EXPECT_TRUE(a.is_root());
  EXPECT_FALSE(b.is_root());
  EXPECT_EQ(a.length, 10u);
  ASSERT_EQ(a.in_children.size(), 1u);
  EXPECT_EQ(a.in_children[0].peer, 1u);
  EXPECT_EQ(a.out_children.size(), 2u);
  EXPECT_EQ(b.in_parent->peer, 0u);
  EXPECT_EQ(b.in_children.at(0).peer, 2u);
  EXPECT_EQ(b.out_parent->peer, 0u);
  EXPECT_TRUE(c.in_children.empty());
  EXPECT_EQ(c.in_parent->peer, 1u);
  EXPECT_EQ(c.out_parent->peer, 0u);
  EXPECT_THAT(peers_of(plans[2]), ElementsAre(0u, 1u));
}

TEST(RankPlan, NumbersStreamsEqualAtBothEnds) {
  const auto plans = make_rank_plans(testing::sample_forest({.ranks = 6, .trees_per_root = 5, .seed = 3}), 10'000);
  for (const RankPlan& plan : plans) {
    std::vector<uint32_t> next(plan.ranks, 0);
    const auto expect_other_end = [&](size_t role, const StreamEnd& end) {
      EXPECT_EQ(end.number, next[end.peer]++) << "numbers leave something out";
      const Role& other = plans[end.peer].roles[role];
      size_t ends = 0;
      const auto count = [&](const std::optional<StreamEnd>& candidate) {
        ends += candidate && candidate->peer == plan.rank && candidate->number == end.number ? 1 : 0;
      };
      for (const StreamEnd& child : other.in_children) count(child);
      count(other.out_parent);
      EXPECT_EQ(ends, 1u) << plan.rank << " to " << end.peer << " number " << end.number;
    };
    for (size_t i = 0; i < plan.roles.size(); ++i) {
      if (plan.roles[i].in_parent) expect_other_end(i, *plan.roles[i].in_parent);
      for (const StreamEnd& child : plan.roles[i].out_children) expect_other_end(i, child);
    }
    EXPECT_EQ(next, plan.streams_to);
    for (uint32_t peer = 0; peer < plan.ranks; ++peer) {
      EXPECT_EQ(plan.streams_to[peer], plans[peer].streams_from[plan.rank]);
    }
  }
}

TEST(RankPlan, LeavesOutChunksWithoutElements) {
  const auto plans = make_rank_plans(testing::sample_forest({.ranks = 4, .trees_per_root = 4}), 3);
  EXPECT_EQ(plans[0].roles.size(), 3u);
}

TEST(RankPlan, SaysWhichPartOfTheBufferIsWhose) {
  const Schedule gather =
      testing::sample_forest({.kind = CollectiveKind::all_gather, .ranks = 3, .weights = {1, 0, 3}});
  EXPECT_EQ(buffer_parts(gather, 0, 101).input_end, 25u);
  EXPECT_EQ(buffer_parts(gather, 1, 101).input_begin, buffer_parts(gather, 1, 101).input_end);
  EXPECT_EQ(buffer_parts(gather, 2, 101).input_end, 101u);
  EXPECT_EQ(buffer_parts(gather, 1, 101).output_end, 101u);
  const auto plans = make_rank_plans(gather, 101);
  EXPECT_EQ(plans[1].input_elements, 0u);
  EXPECT_EQ(plans[2].input_elements, 76u);
  EXPECT_EQ(plans[2].output_elements, 101u);
  for (const Role& role : plans[2].roles) {
    EXPECT_EQ(role.input_at.has_value(), role.is_root());
    if (role.is_root()) {
      EXPECT_EQ(*role.input_at + 25, role.output_at);
    }
  }
  const auto reduce =
      make_rank_plans(testing::sample_forest({.kind = CollectiveKind::reduce, .ranks = 3, .root = 2}), 7);
  EXPECT_EQ(reduce[0].output_elements, 0u);
  EXPECT_EQ(reduce[2].output_elements, 7u);
  EXPECT_EQ(reduce[0].input_elements, 7u);
  EXPECT_FALSE(reduce[0].roles[0].output_at);
}

TEST(RankPlan, OfOneRankIsThatOfAll) {
  const Schedule schedule = testing::sample_forest({.ranks = 5, .trees_per_root = 3, .seed = 8});
  const auto plans = make_rank_plans(schedule, 1000);
  for (uint32_t rank = 0; rank < 5; ++rank) {
    const RankPlan plan = make_rank_plan(schedule, 1000, rank);
    EXPECT_EQ(plan.streams_to, plans[rank].streams_to);
    ASSERT_EQ(plan.roles.size(), plans[rank].roles.size());
    for (size_t i = 0; i < plan.roles.size(); ++i) {
      EXPECT_EQ(plan.roles[i].length, plans[rank].roles[i].length);
      EXPECT_EQ(plan.roles[i].output_at, plans[rank].roles[i].output_at);
      EXPECT_EQ(plan.roles[i].in_children.size(), plans[rank].roles[i].in_children.size());
    }
    EXPECT_EQ(elements_sent(plan), elements_sent(plans[rank]));
  }
}

TEST(RankPlan, CountsTheElementsThatAreSent) {
  // 4 ranks: each of the trees has 3 edges up and 3 down.
  uint64_t sent = 0;
  for (const RankPlan& plan : make_rank_plans(testing::sample_forest({.ranks = 4}), 1001)) sent += elements_sent(plan);
  EXPECT_EQ(sent, 1001u * 6);
}

// Two cables and a switch between a and b.
TEST(RankPlan, NumbersTheLanesOfAPairByTheirCables) {
  const Fabric fabric = fabric::parse_fabric_text("a <-> b 1GB/s; a <-> b 1GB/s; a <-> sw 1GB/s; sw <-> b 1GB/s");
  Schedule::Builder builder(fabric, Collective::make(fabric, {.kind = CollectiveKind::all_gather}));
  const auto link = [&](const char* from, const char* to, uint32_t skip = 0) {
    for (const LinkId id : fabric.out_links(fabric.at(from))) {
      if (fabric.link(id).to == fabric.at(to) && skip-- == 0) return id;
    }
    ADD_FAILURE() << "no link";
    return LinkId{};
  };
  const std::vector<std::vector<LinkId>> routes = {
      {link("a", "sw"), link("sw", "b")}, {link("a", "b", 1)}, {link("b", "a", 1)}, {link("b", "a", 0)}};
  for (const auto& links : routes) {
    const RouteId id = builder.add_route(links);
    builder.add_chunk({.root = source_of(fabric, links), .units = 1, .out_tree = {&id, 1}});
  }
  const auto plans = make_rank_plans(std::move(builder).build(), 400);
  const auto lanes_of = [](const RankPlan& plan) {
    std::vector<uint32_t> lanes;
    for (const Role& role : plan.roles)
      lanes.push_back(role.is_root() ? role.out_children[0].lane : role.out_parent->lane);
    return lanes;
  };
  EXPECT_THAT(lanes_of(plans[0]), ElementsAre(0u, 1u, 1u, 2u));
  EXPECT_EQ(lanes_of(plans[0]), lanes_of(plans[1]));
  ASSERT_EQ(plans[0].lanes.size(), 3u);
  EXPECT_EQ(plans[0].lanes[0].peer, 1u);
  EXPECT_EQ(plans[0].lanes[0].to_peer, routes[0]);
  EXPECT_TRUE(plans[0].lanes[0].from_peer.empty()) << "nothing comes back that way";
  EXPECT_EQ(plans[0].lanes[1].to_peer, routes[1]);
  EXPECT_EQ(plans[0].lanes[1].from_peer, routes[2]) << "the same cable, not the other of the two";
  EXPECT_EQ(plans[1].lanes[1].to_peer, routes[2]);
  EXPECT_EQ(plans[0].lanes[2].from_peer, routes[3]);
}

TEST(RankPlan, ScalesTreesToBlocks) {
  const Schedule schedule =
      testing::sample_forest({.kind = CollectiveKind::reduce_scatter, .ranks = 3, .trees_per_root = 2, .seed = 3});
  const std::vector<Block> blocks = {{.at = 5, .count = 1000}, {.at = 0, .count = 0}, {.at = 2000, .count = 3}};
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const RankPlan plan = make_block_plan(schedule, blocks, rank);
    EXPECT_EQ(plan.input_elements, 2003u);
    EXPECT_EQ(plan.output_elements, blocks[rank].count);
    std::vector<int> covered(2003, 0);
    uint64_t own = 0;
    for (const Role& role : plan.roles) {
      EXPECT_GT(role.length, 0u);
      for (uint64_t i = 0; i < role.length; ++i) ++covered[*role.input_at + i];
      if (role.output_at) {
        EXPECT_EQ(*role.output_at + blocks[rank].at, *role.input_at);
      }
      if (role.output_at) own += role.length;
    }
    EXPECT_EQ(own, blocks[rank].count);
    for (uint64_t i = 0; i < covered.size(); ++i) {
      const bool is_in_block = (i >= 5 && i < 1005) || i >= 2000;
      ASSERT_EQ(covered[i], is_in_block ? 1 : 0) << i;
    }
  }
}

// So that a call with counts puts the same bytes on every link as one without.
TEST(RankPlan, CutsBlocksThatAreShardsAsItCutsTheWhole) {
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    const Schedule schedule =
        testing::sample_forest({.kind = kind, .ranks = 3, .trees_per_root = 3, .weights = {2, 3, 5}, .seed = 4});
    for (const uint64_t elements : {1u, 7u, 100u, 1009u}) {
      std::vector<Block> blocks;
      for (uint32_t rank = 0; rank < 3; ++rank) {
        const auto [begin, end] = schedule.shard_range(rank, elements);
        blocks.push_back({.at = begin, .count = end - begin});
      }
      for (uint32_t rank = 0; rank < 3; ++rank) {
        const RankPlan whole = make_rank_plan(schedule, elements, rank), cut = make_block_plan(schedule, blocks, rank);
        ASSERT_EQ(cut.roles.size(), whole.roles.size()) << elements;
        for (size_t i = 0; i < whole.roles.size(); ++i) EXPECT_EQ(cut.roles[i].length, whole.roles[i].length) << i;
      }
    }
  }
}

TEST(RankPlan, RefusesBlocksWithoutTrees) {
  const std::vector<Block> blocks(3, {.at = 0, .count = 1});
  EXPECT_THROW(make_block_plan(testing::sample_forest({.ranks = 3}), blocks, 0), Error);
  const Schedule gather =
      testing::sample_forest({.kind = CollectiveKind::all_gather, .ranks = 3, .weights = {1, 0, 3}});
  EXPECT_THAT(testing::error_of([&] { make_block_plan(gather, blocks, 0); }),
              HasSubstr("'gpu1' has a block of 1 elements, but the schedule has no tree for it"));
}

TEST(RankPlan, RefusesWhatTheEngineCannotFollow) {
  const std::vector<std::string> in{"c>b", "b>a"}, out{"a>b", "b>c"};
  EXPECT_EQ(refusal_of(one_chunk(allreduce(), in, out)), "no error");
  EXPECT_THAT(refusal_of(one_chunk(allreduce(), in, {"a>b"})), HasSubstr("chunk 0 does not spread to every rank"));
  EXPECT_THAT(refusal_of(one_chunk(allreduce(), {"b>a"}, out)), HasSubstr("does not reduce from every rank"));
  EXPECT_THAT(refusal_of(one_chunk(allreduce(), in, {"b>c", "a>b"})), HasSubstr("spreads from 'b' before it has"));
  EXPECT_THAT(refusal_of(one_chunk(allreduce(), in, {"a>b", "b>c", "a>c"})), HasSubstr("spreads to 'c' twice"));
  EXPECT_THAT(refusal_of(one_chunk(allreduce(), {"b>a", "c>b"}, out)), HasSubstr("reduces into 'b' after it has"));
  EXPECT_THAT(refusal_of(one_chunk(allreduce(), {"c>b", "b>a", "c>a"}, out)), HasSubstr("reduces from 'c' twice"));
  EXPECT_THAT(refusal_of(one_chunk({.kind = CollectiveKind::broadcast}, in, out)), HasSubstr("nothing is reduced"));
  EXPECT_THAT(refusal_of(one_chunk({.kind = CollectiveKind::reduce}, in, out)), HasSubstr("nothing is spread"));
  EXPECT_THAT(refusal_of(one_chunk({.kind = CollectiveKind::broadcast, .root = kTriangle.at("b")}, {}, out)),
              HasSubstr("is rooted at another rank"));
  EXPECT_THAT(refusal_of(one_chunk({.kind = CollectiveKind::all_gather}, {}, out)), HasSubstr("outside the shard"));
  EXPECT_THAT(refusal_of(one_chunk({.kind = CollectiveKind::broadcast, .ranks = {NodeId{0}, NodeId{1}}}, {}, out)),
              HasSubstr("uses 'c', which does not take part"));
}

}  // namespace
}  // namespace banyan::run
