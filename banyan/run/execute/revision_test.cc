#include "banyan/run/execute/revision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace banyan::run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

FabricUpdate read(const std::string& text, bool& is_readable) {
  std::istringstream stream(text);
  FabricUpdate update;
  is_readable = static_cast<bool>(stream >> update);
  return update;
}

TEST(FabricUpdates, AreReadAsTheyWereWritten) {
  const std::vector<FabricUpdate> updates{
      {},
      {.generation = 3},
      {.generation = 1, .lost_cables = {0, 7, 4'000'000'000}},
      {.lost_cables = {2}, .mended_cables = {1, 4'000'000'000}},
      {.generation = 2, .bytes_per_second = {{1, 5}, {9, UINT64_MAX}}},
      {.generation = 4, .lost_cables = {2}, .bytes_per_second = {{1, 5}}, .plan = " {\n \"banyan\": 1}\n 0 0 "}};
  for (const FabricUpdate& update : updates) {
    std::ostringstream text;
    text << update << " 17";
    bool is_readable = false;
    EXPECT_EQ(read(text.str(), is_readable), update) << text.str();
    EXPECT_TRUE(is_readable) << text.str();
  }
}

TEST(FabricUpdates, AreNotReadFromOtherTexts) {
  for (const char* text :
       {"", "1", "1 2 3", "1 0 0 1 2", "1 0 1", "1 0 0 0 5 abc", "x 0 0 0 0", "1 99999999999 0 0 0"}) {
    bool is_readable = true;
    read(text, is_readable);
    EXPECT_FALSE(is_readable) << text;
  }
}

TEST(FabricUpdates, AddWhatIsLater) {
  FabricUpdate update{.generation = 5, .lost_cables = {1}, .bytes_per_second = {{2, 20}, {3, 30}}, .plan = "old"};
  update.add({.generation = 1, .lost_cables = {4}, .bytes_per_second = {{3, 33}}});
  EXPECT_EQ(
      update,
      (FabricUpdate{.generation = 5, .lost_cables = {1, 4}, .bytes_per_second = {{2, 20}, {3, 33}}, .plan = "old"}));
  update.add({.plan = "new"});
  EXPECT_EQ(update.plan, "new");
  update.add({.mended_cables = {1, 8}});
  EXPECT_EQ(update.lost_cables, (std::set<uint32_t>{4}));
  EXPECT_EQ(update.mended_cables, (std::set<uint32_t>{8}));
  update.add({.lost_cables = {8}});
  EXPECT_EQ(update.lost_cables, (std::set<uint32_t>{4, 8}));
  EXPECT_TRUE(update.mended_cables.empty());
}

const std::vector<RevisionReport> kReports{
    {.generation = 1,
     .rank = 0,
     .over = 7,
     .also_over = {9},
     .lanes = {{.peer = 1, .cables = {3}, .is_lost = true, .silent_ms = 2000}}},
    {.generation = 1, .rank = 1, .over = 6, .wish = {.bytes_per_second = {{2, 50}}}},
    {.generation = 1, .rank = 2, .over = 8, .lanes = {{.peer = 1, .cables = {2}, .silent_ms = 1}}}};

TEST(Revisions, AllDrawTheSameConclusionsOnceAllHaveReported) {
  for (size_t first = 0; first < kReports.size(); ++first) {
    Revisions revisions(3);
    EXPECT_EQ(revisions.called_to(0), std::nullopt);
    for (size_t i = 0; i < kReports.size(); ++i) {
      EXPECT_FALSE(revisions.decide(1));
      EXPECT_TRUE(revisions.missing(1));
      revisions.heard(kReports[(first + i) % kReports.size()].encode());
      EXPECT_EQ(revisions.called_to(0), 1u);
    }
    const auto decision = revisions.decide(1);
    ASSERT_TRUE(decision);
    EXPECT_TRUE(decision->has_wishes);
    EXPECT_THAT(decision->losses, ElementsAre(3u));
    EXPECT_EQ(decision->certain, (FabricUpdate{.generation = 1, .lost_cables = {3}}));
    EXPECT_EQ(decision->wished, (FabricUpdate{.generation = 1, .lost_cables = {3}, .bytes_per_second = {{2, 50}}}));
    EXPECT_TRUE(decision->is_over(8) && decision->is_over(9));
    EXPECT_FALSE(decision->is_over(10));
    EXPECT_EQ(revisions.called_to(1), std::nullopt);
  }
}

TEST(Revisions, AreRefusedByAllWhenOneRefuses) {
  Revisions revisions(3);
  for (const RevisionReport& report : kReports) revisions.heard(report.encode());
  for (const uint32_t rank : {2u, 0u, 1u}) {
    EXPECT_EQ(revisions.refusal(1), std::nullopt);
    EXPECT_TRUE(revisions.missing(1));
    revisions.heard(
        RevisionVote{.generation = 1, .rank = rank, .refusal = rank == 2 ? "there is no way" : ""}.encode());
  }
  EXPECT_EQ(revisions.missing(1), std::nullopt);
  ASSERT_TRUE(revisions.refusal(1));
  EXPECT_EQ(*revisions.refusal(1), "rank 2: there is no way");
  for (uint32_t rank = 0; rank < 3; ++rank) revisions.heard(RevisionVote{.generation = 2, .rank = rank}.encode());
  EXPECT_EQ(revisions.refusal(2), "");
}

TEST(Revisions, TellWhoMissedAGenerationWhatTheOthersHaveAdopted) {
  // Ranks 0 and 2 have adopted generation 1; rank 1 was called to generation 2 before it knew how 1 ended.
  const FabricUpdate first{.generation = 1, .lost_cables = {3}, .bytes_per_second = {{6, 60}}};
  const FabricUpdate newer{.generation = 2, .lost_cables = {3, 5}, .bytes_per_second = {{6, 60}}};
  Revisions revisions(3);
  revisions.heard(RevisionReport{.generation = 2,
                                 .rank = 0,
                                 .lanes = {{.peer = 1, .cables = {5}, .is_lost = true, .silent_ms = 2500}},
                                 .adopted = first}
                      .encode());
  revisions.heard(RevisionReport{.generation = 2, .rank = 1}.encode());
  revisions.heard(RevisionReport{.generation = 2, .rank = 2, .adopted = first}.encode());
  const auto decision = revisions.decide(2);
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->certain, newer);
  EXPECT_FALSE(decision->has_wishes);
}

TEST(Revisions, DropAnOperatorsPlanWhenALinkIsLostThatItDidNotKnowOf) {
  const FabricUpdate with_plan{.generation = 1, .plan = "ring"};
  Revisions revisions(1);
  revisions.heard(RevisionReport{.generation = 2, .adopted = with_plan}.encode());
  EXPECT_EQ(revisions.decide(2)->certain, (FabricUpdate{.generation = 2, .plan = "ring"}));
  revisions.heard(RevisionReport{
      .generation = 3, .lanes = {{.peer = 0, .cables = {8}, .is_lost = true, .silent_ms = 2100}}, .adopted = with_plan}
                      .encode());
  EXPECT_EQ(revisions.decide(3)->certain, (FabricUpdate{.generation = 3, .lost_cables = {8}}));
}

TEST(Revisions, UseCablesAgainThatAreMended) {
  const FabricUpdate without{.generation = 1, .lost_cables = {3, 5}};
  const LaneReport lost{.peer = 0, .cables = {5}, .is_lost = true, .silent_ms = 2100};
  Revisions revisions(2);
  revisions.heard(
      RevisionReport{.generation = 2, .rank = 0, .adopted = without, .wish = {.mended_cables = {3}}}.encode());
  revisions.heard(RevisionReport{.generation = 2, .rank = 1, .adopted = without}.encode());
  EXPECT_EQ(revisions.decide(2)->wished, (FabricUpdate{.generation = 2, .lost_cables = {5}}));
  EXPECT_TRUE(revisions.decide(2)->has_wishes);
  // One that nobody does without needs no mending, and one that was just found lost is not whole.
  revisions.heard(
      RevisionReport{.generation = 3, .rank = 0, .adopted = without, .wish = {.mended_cables = {5, 7}}}.encode());
  revisions.heard(RevisionReport{.generation = 3, .rank = 1, .lanes = {lost}, .adopted = without}.encode());
  EXPECT_EQ(revisions.decide(3)->wished, (FabricUpdate{.generation = 3, .lost_cables = {3, 5}}));
  EXPECT_FALSE(revisions.decide(3)->has_wishes);
}

TEST(Revisions, AnswerTheLatestGenerationAndForgetEarlierOnes) {
  Revisions revisions(2);
  revisions.heard(RevisionReport{.generation = 4, .rank = 1}.encode());
  revisions.heard(RevisionReport{.generation = 2, .rank = 1}.encode());
  EXPECT_EQ(revisions.called_to(1), 4u);
  EXPECT_EQ(revisions.called_to(4), std::nullopt) << "an old generation calls nobody";
  revisions.heard(RevisionReport{.generation = 2, .rank = 0}.encode());
  EXPECT_TRUE(revisions.decide(2));
  revisions.forget_before(4);
  EXPECT_FALSE(revisions.decide(2));
  EXPECT_EQ(revisions.missing(4), 0u);
}

TEST(Revisions, IgnoreWhatTheyCannotRead) {
  Revisions revisions(2);
  for (const char* text :
       {"revise ", "revise report", "revise report 1", "revise report 1 5 0 0 0 0 0 0 0 - 0 0 0 0 0 - 0",
        "revise report 1 0 0 99999999999", "revise report x y z",
        "revise report 1 0 3 0 1 1 0 5 18446744073709551615 1", "revise report 1 0 0 0 0", "revise vote",
        "revise vote 1", "revise vote 1 2 no", "revise else 1 0"}) {
    revisions.heard(text);
    EXPECT_EQ(revisions.called_to(0), std::nullopt) << text;
    EXPECT_EQ(revisions.count(), 0u) << text;
  }
  revisions.heard("revise report 1 0 0 0 0 0 0 0 0 - 0 0 0 0 0 - 0");
  EXPECT_EQ(revisions.called_to(0), 1u);
}

}  // namespace
}  // namespace banyan::run
