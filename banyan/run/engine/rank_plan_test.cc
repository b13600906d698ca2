#include "banyan/run/engine/rank_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/fabric/text.h"
#include "banyan/testing/sample_forest.h"

namespace banyan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Fabric kTriangle = parse_fabric_text("a <-> b 1GB/s; b <-> c 1GB/s; c <-> a 1GB/s");

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

std::string refusal_of(const Schedule& schedule) {
  try {
    make_rank_plans(schedule, 100);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    return error.what();
  }
  return "none";
}

constexpr Collective::Options allreduce() { return {.kind = CollectiveKind::allreduce}; }

TEST(RankPlan, NamesTheNeighboursOfAChunk) {
  const auto plans = make_rank_plans(one_chunk(allreduce(), {"c>b", "b>a"}, {"a>b", "a>c"}), 10);
  ASSERT_EQ(plans.size(), 3u);
  const Role &a = plans[0].roles.at(0), &b = plans[1].roles.at(0), &c = plans[2].roles.at(0);
  EXPECT_TRUE(a.is_root);
  EXPECT_EQ(a.end, 10u);
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
  const auto plans = make_rank_plans(sample_forest({.ranks = 6, .trees_per_root = 5, .seed = 3}), 10'000);
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
  const auto plans = make_rank_plans(sample_forest({.ranks = 4, .trees_per_root = 4}), 3);
  EXPECT_EQ(plans[0].roles.size(), 3u);
}

TEST(RankPlan, SaysWhichPartOfTheBufferIsWhose) {
  const auto gather =
      make_rank_plans(sample_forest({.kind = CollectiveKind::allgather, .ranks = 3, .weights = {1, 0, 3}}), 101);
  EXPECT_EQ(gather[0].input_end, 25u);
  EXPECT_EQ(gather[1].input_begin, gather[1].input_end);
  EXPECT_EQ(gather[2].input_end, 101u);
  EXPECT_EQ(gather[1].output_end, 101u);
  const auto reduce = make_rank_plans(sample_forest({.kind = CollectiveKind::reduce, .ranks = 3, .root = 2}), 7);
  EXPECT_EQ(reduce[0].output_end, 0u);
  EXPECT_EQ(reduce[2].output_end, 7u);
  EXPECT_EQ(reduce[0].input_end, 7u);
}

TEST(RankPlan, RefusesWhatTheEngineCannotFollow) {
  const std::vector<std::string> in{"c>b", "b>a"}, out{"a>b", "b>c"};
  EXPECT_EQ(refusal_of(one_chunk(allreduce(), in, out)), "none");
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
  EXPECT_THAT(refusal_of(one_chunk({.kind = CollectiveKind::allgather}, {}, out)), HasSubstr("outside the shard"));
  EXPECT_THAT(refusal_of(one_chunk({.kind = CollectiveKind::broadcast, .ranks = {NodeId{0}, NodeId{1}}}, {}, out)),
              HasSubstr("uses 'c', which does not take part"));
}

}  // namespace
}  // namespace banyan
