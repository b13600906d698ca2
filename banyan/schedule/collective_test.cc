#include "banyan/schedule/collective.h"

#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::schedule {
namespace {

constexpr uint64_t kMostOfPair = uint64_t{1} << 60;

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
  for (const Collective::Options& bad : std::vector<Collective::Options>{
           {.ranks = {a}},
           {.ranks = {a, a}},
           {.ranks = {a, sw}},
           {.root = a},
           {.weights = {1, 2}},
           {.weights = {0, 0, 0}},
           {.kind = CollectiveKind::broadcast, .ranks = {a, b}, .root = c},
           {.kind = CollectiveKind::all_reduce, .weights = {1, 2, 3}},
           {.traffic = {1, 1, 1, 1, 1, 1, 1, 1, 1}},
           {.kind = CollectiveKind::all_to_all, .weights = {1, 2, 3}},
           {.kind = CollectiveKind::all_to_all, .root = a},
           {.kind = CollectiveKind::all_to_all, .traffic = {1, 2, 3}},
           {.kind = CollectiveKind::all_to_all, .traffic = {5, 0, 0, 0, 5, 0, 0, 0, 5}},
           {.kind = CollectiveKind::all_to_all, .traffic = {0, 1, 1, 1, 0, 1, kMostOfPair + 1, 1, 0}},
           {.kind = CollectiveKind::all_to_all,
           .traffic = {0, kMostOfPair, kMostOfPair, kMostOfPair, 0, kMostOfPair, 1, 1, 0}}}) {
    EXPECT_THROW(Collective::make(kTriangle, bad), Error);
  }
}

TEST(Collective, GivesEveryPairOfAnAllToAllItsPart) {
  const Collective even = Collective::make(kTriangle, {.kind = CollectiveKind::all_to_all});
  EXPECT_FALSE(even.has_traffic());
  EXPECT_EQ(even.traffic(0, 2), 1u);
  EXPECT_EQ(even.carried_per_byte(), Fraction(2)) << "each of three ranks sends two thirds of M";
  EXPECT_EQ(even.block_elements(1, 2, 100), 33u);
  const Collective same =
      Collective::make(kTriangle, {.kind = CollectiveKind::all_to_all, .traffic = {7, 7, 7, 7, 7, 7, 7, 7, 7}});
  EXPECT_EQ(same, even);
  const Collective uneven =
      Collective::make(kTriangle, {.kind = CollectiveKind::all_to_all, .traffic = {4, 2, 0, 6, 0, 0, 0, 8, 4}});
  EXPECT_EQ(uneven.traffic(1, 0), 3u) << "in lowest terms";
  EXPECT_EQ(uneven.weights()[2], 4u) << "what it keeps for itself is not sent";
  EXPECT_EQ(uneven.total_weight(), 8u);
  EXPECT_EQ(uneven.carried_per_byte(), Fraction(3 * 8, 12));
  EXPECT_EQ(uneven.block_elements(2, 1, 12), 12u) << "M is the mean of what the ranks hold: 36 elements in all";
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
                                     ", only for allgather, reduce-scatter, allreduce, broadcast, reduce, all-to-all");
    }
  }
}

}  // namespace
}  // namespace banyan::schedule
