#include "banyan/schedule/collective.h"

#include <gtest/gtest.h>

#include "banyan/base/error.h"
#include "banyan/fabric/text.h"

namespace banyan::schedule {
namespace {

const Fabric kTriangle = fabric::parse_fabric_text("a <-> b 1GB/s; b <-> c 1GB/s; a <-> sw 1GB/s");

TEST(Collective, TakesAllRanksWithEqualShardsByDefault) {
  const Collective allgather = Collective::make(kTriangle, {});
  EXPECT_EQ(allgather.participants().size(), 3u);
  EXPECT_EQ(allgather.total_weight(), 3u);
}

TEST(Collective, BroadcastGivesAllWeightToItsRoot) {
  const Collective broadcast =
      Collective::make(kTriangle, {.kind = CollectiveKind::broadcast, .root = kTriangle.at("b")});
  EXPECT_EQ(broadcast.weights()[0], 0u);
  EXPECT_EQ(broadcast.weights()[1], 1u);
}

TEST(Collective, BringsWeightsToLowestTerms) {
  const Collective allgather = Collective::make(kTriangle, {.weights = {4, 0, 6}});
  EXPECT_EQ(allgather.weights()[0], 2u);
  EXPECT_EQ(allgather.total_weight(), 5u);
}

TEST(Collective, RefusesWhatDoesNotFitTheKind) {
  const NodeId a = kTriangle.at("a"), b = kTriangle.at("b"), c = kTriangle.at("c"), sw = kTriangle.at("sw");
  for (const Collective::Options& bad :
       std::vector<Collective::Options>{{.ranks = {a}},
                                        {.ranks = {a, a}},
                                        {.ranks = {a, sw}},
                                        {.root = a},
                                        {.weights = {1, 2}},
                                        {.weights = {0, 0, 0}},
                                        {.kind = CollectiveKind::broadcast, .ranks = {a, b}, .root = c},
                                        {.kind = CollectiveKind::all_reduce, .weights = {1, 2, 3}}}) {
    EXPECT_THROW(Collective::make(kTriangle, bad), Error);
  }
}

TEST(Collective, IsOfAKindThatIsPlanned) {
  for (const CollectiveTraits& traits : kCollectives) {
    if (traits.is_planned) {
      EXPECT_EQ(Collective::make(kTriangle, {.kind = traits.kind}).kind(), traits.kind);
      continue;
    }
    try {
      Collective::make(kTriangle, {.kind = traits.kind});
      ADD_FAILURE() << traits.name;
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), "no plan is made for " + std::string(traits.name) +
                                     ", only for allgather, reduce-scatter, allreduce, broadcast, reduce");
    }
  }
}

}  // namespace
}  // namespace banyan::schedule
