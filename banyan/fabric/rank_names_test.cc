#include "banyan/fabric/rank_names.h"

#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

using ::testing::ThrowsMessage;

// The switch stands between the ranks, so that numbers of ranks and of nodes differ.
Fabric fabric_of_five() {
  return fabric::parse_fabric_text(
      "g0 <-> sw 1GB/s; g1 <-> sw 1GB/s; g2 <-> sw 1GB/s; a-b <-> sw 1GB/s; 0 <-> sw 1GB/s");
}

std::vector<std::string> names(std::string_view text) {
  const Fabric fabric = fabric_of_five();
  std::vector<std::string> result;
  for (const NodeId id : parse_ranks(text, fabric, "--ranks")) result.push_back(fabric.name(id));
  return result;
}

TEST(RankNames, CountsRanksNotNodes) { EXPECT_THAT(names("1,2,3"), ElementsAre("g1", "g2", "a-b")); }

TEST(RankNames, KeepsTheOrderOfTheList) { EXPECT_THAT(names("2,g0,1"), ElementsAre("g2", "g0", "g1")); }

TEST(RankNames, ExpandsRangesOfNumbersAndOfNames) {
  EXPECT_THAT(names("1-3"), ElementsAre("g1", "g2", "a-b"));
  EXPECT_THAT(names("g0-g2,4"), ElementsAre("g0", "g1", "g2", "0"));
}

TEST(RankNames, FindsTheDashBetweenNamesThatHoldDashes) {
  EXPECT_THAT(names("a-b"), ElementsAre("a-b"));
  EXPECT_THAT(names("g1-a-b"), ElementsAre("g1", "g2", "a-b"));
}

TEST(RankNames, TakesANameBeforeANumber) { EXPECT_THAT(names("0"), ElementsAre("0")); }

TEST(RankNames, NamesTheCulpritAndTheMend) {
  const auto reading = [](std::string_view text) { return [text] { names(text); }; };
  EXPECT_THAT(reading("9"), ThrowsMessage<Error>("--ranks: there is no rank 9; the fabric has ranks 0 to 4"));
  EXPECT_THAT(reading("1-7"), ThrowsMessage<Error>(HasSubstr("there is no rank 7")));
  EXPECT_THAT(reading("g7"), ThrowsMessage<Error>("--ranks: rank 'g7' does not exist (did you mean 'g0'?)"));
  EXPECT_THAT(reading("sw"), ThrowsMessage<Error>("--ranks: node 'sw' is a switch; name a rank"));
  EXPECT_THAT(reading("g2-g0"), ThrowsMessage<Error>(HasSubstr("runs backwards")));
  EXPECT_THAT(reading("1,,2"), ThrowsMessage<Error>(HasSubstr("empty item")));
  EXPECT_THAT(reading(""), ThrowsMessage<Error>(HasSubstr("empty item")));
  EXPECT_THAT(reading("99999999999999999999"), ThrowsMessage<Error>(HasSubstr("does not exist")));
}

TEST(RankNames, ReadsOneRank) {
  const Fabric fabric = fabric_of_five();
  EXPECT_EQ(fabric.name(parse_rank("3", fabric, "--root")), "a-b");
  EXPECT_THAT([&] { parse_rank("0-1", fabric, "--root"); }, ThrowsMessage<Error>(HasSubstr("--root: rank '0-1'")));
}

}  // namespace
}  // namespace banyan::fabric
