#include "banyan/run/execute/revision.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

template <typename Value>
Value read(const std::string& text, bool& is_readable) {
  std::istringstream stream(text);
  Value value;
  is_readable = static_cast<bool>(stream >> value);
  return value;
}

template <typename Value>
void expect_read_as_written(const std::vector<Value>& values) {
  for (const Value& value : values) {
    std::ostringstream text;
    text << value << " 17";
    bool is_readable = false;
    EXPECT_EQ(read<Value>(text.str(), is_readable), value) << text.str();
    EXPECT_TRUE(is_readable) << text.str();
  }
}

TEST(FabricUpdates, AreReadAsTheyWereWritten) {
  expect_read_as_written<FabricUpdate>(
      {{},
       {.generation = 3},
       {.generation = 1, .lost_cables = {0, 7, 4'000'000'000}},
       {.lost_cables = {2}, .avoided_cables = {1, 4'000'000'000}, .needed_cables = {1}},
       {.generation = 2, .bytes_per_second = {{1, 5}, {9, UINT64_MAX}}},
       {.generation = 4, .lost_cables = {2}, .bytes_per_second = {{1, 5}}, .plan = " {\n \"banyan\": 1}\n 0 0 "}});
  expect_read_as_written<PlanWish>({{},
                                    {.avoided_cables = {1, 2}, .restored_cables = {3}, .mended_cables = {4}},
                                    {.bytes_per_second = {{7, 8}}, .plan = "a b\n", .planner = "ring"}});
}

TEST(FabricUpdates, AreNotReadFromOtherTexts) {
  for (const char* text :
       {"", "1", "1 2 3", "1 0 0 0 1 2", "1 0 1", "1 0 0 0 0 5 abc", "x 0 0 0 0 0", "1 99999999999 0 0 0 0"}) {
    bool is_readable = true;
    read<FabricUpdate>(text, is_readable);
    EXPECT_FALSE(is_readable) << text;
    read<PlanWish>(text, is_readable);
    EXPECT_FALSE(is_readable) << text;
  }
}

TEST(FabricUpdates, AreWhatComesOfWishes) {
  const FabricUpdate update{.generation = 5, .bytes_per_second = {{2, 20}, {3, 30}}, .plan = "old"};
  EXPECT_EQ(update.after({}), update);
  const FabricUpdate avoids = update.after({.avoided_cables = {1, 4}, .bytes_per_second = {{3, 33}}});
  EXPECT_EQ(
      avoids,
      (FabricUpdate{.generation = 5, .avoided_cables = {1, 4}, .bytes_per_second = {{2, 20}, {3, 33}}, .plan = "old"}));
  EXPECT_EQ(avoids.after({.restored_cables = {4, 7}}).avoided_cables, std::set<uint32_t>{1});
  EXPECT_EQ(avoids.after({.avoided_cables = {7}, .restored_cables = {7}}).avoided_cables,
            (std::set<uint32_t>{1, 4, 7}));
  const FabricUpdate other = avoids.after({.plan = "new", .planner = "ring"});
  EXPECT_EQ(other.plan, "new");
  EXPECT_EQ(other.planner, "ring");
  EXPECT_EQ(other.after({.planner = FabricUpdate::kBestPlanner}).planner, "best");
}

TEST(FabricUpdates, KeepApartWhatIsAvoidedAndWhatIsLost) {
  const FabricUpdate both{.lost_cables = {1, 2}, .avoided_cables = {1, 3}};
  EXPECT_EQ(both.unused_cables(), (std::set<uint32_t>{1, 2, 3}));
  // A restore mends nothing.
  const FabricUpdate restored = both.after({.restored_cables = {1, 2, 3}});
  EXPECT_EQ(restored, (FabricUpdate{.lost_cables = {1, 2}}));
  EXPECT_EQ(restored.unused_cables(), (std::set<uint32_t>{1, 2}));
  // What carries again stays avoided.
  const FabricUpdate mended = both.after({.mended_cables = {1, 2, 3}});
  EXPECT_EQ(mended, (FabricUpdate{.avoided_cables = {1, 3}}));
  EXPECT_EQ(mended.unused_cables(), (std::set<uint32_t>{1, 3}));
}

TEST(FabricUpdates, UseNeededCablesWhileOthersAreLost) {
  const FabricUpdate needs{.lost_cables = {1, 2}, .avoided_cables = {3, 4}, .needed_cables = {4}};
  EXPECT_EQ(needs.unused_cables(), (std::set<uint32_t>{1, 2, 3}));
  EXPECT_EQ(needs.after({.mended_cables = {1}}).unused_cables(), (std::set<uint32_t>{2, 3}));
  EXPECT_EQ(needs.after({.mended_cables = {1, 2}}), (FabricUpdate{.avoided_cables = {3, 4}}));
  EXPECT_EQ(needs.after({.restored_cables = {4}}), (FabricUpdate{.lost_cables = {1, 2}, .avoided_cables = {3}}));
}

const std::vector<RevisionReport> kReports{
    {.generation = 1,
     .rank = 0,
     .over = 7,
     .also_over = {9},
     .lanes = {{.peer = 1, .cables = {3}, .is_lost = true, .silent_ms = 2000}}},
    {.generation = 1, .rank = 1, .over = 6},
    {.generation = 1, .rank = 2, .over = 8, .lanes = {{.peer = 1, .cables = {2}, .silent_ms = 1}}}};

TEST(Revisions, AllDrawTheSameConclusionsOnceAllHaveReported) {
  for (size_t first = 0; first < kReports.size(); ++first) {
    Revisions revisions(3);
    EXPECT_EQ(revisions.called_to(0), std::nullopt);
    for (size_t i = 0; i < kReports.size(); ++i) {
      EXPECT_FALSE(revisions.decide(1));
      EXPECT_TRUE(revisions.missing(1));
      revisions.receive(kReports[(first + i) % kReports.size()].encode());
      EXPECT_EQ(revisions.called_to(0), 1u);
    }
    const auto decision = revisions.decide(1);
    ASSERT_TRUE(decision);
    EXPECT_THAT(decision->losses, ElementsAre(3u));
    EXPECT_EQ(decision->update, (FabricUpdate{.generation = 1, .lost_cables = {3}}));
    EXPECT_TRUE(decision->is_over(8) && decision->is_over(9));
    EXPECT_FALSE(decision->is_over(10));
    EXPECT_EQ(revisions.called_to(1), std::nullopt);
  }
}

TEST(Revisions, TellWhoMissedAGenerationWhatTheOthersHaveAdopted) {
  // Ranks 0 and 2 have adopted generation 1; rank 1 was called to generation 2 before it knew how 1 ended.
  const FabricUpdate first{.generation = 1, .lost_cables = {3}, .avoided_cables = {5}, .bytes_per_second = {{6, 60}}};
  const FabricUpdate newer{
      .generation = 2, .lost_cables = {3, 5}, .avoided_cables = {5}, .bytes_per_second = {{6, 60}}};
  Revisions revisions(3);
  revisions.receive(RevisionReport{.generation = 2,
                                   .rank = 0,
                                   .lanes = {{.peer = 1, .cables = {5}, .is_lost = true, .silent_ms = 2500}},
                                   .adopted = first}
                        .encode());
  revisions.receive(RevisionReport{.generation = 2, .rank = 1}.encode());
  revisions.receive(RevisionReport{.generation = 2, .rank = 2, .adopted = first}.encode());
  const auto decision = revisions.decide(2);
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->update, newer);
  EXPECT_THAT(decision->losses, ElementsAre(5u));
}

TEST(Revisions, DropAnOperatorsPlanWhenALinkIsLostThatItDidNotKnowOf) {
  const FabricUpdate with_plan{.generation = 1, .plan = "ring"};
  Revisions revisions(1);
  revisions.receive(RevisionReport{.generation = 2, .adopted = with_plan}.encode());
  EXPECT_EQ(revisions.decide(2)->update, (FabricUpdate{.generation = 2, .plan = "ring"}));
  revisions.receive(RevisionReport{
      .generation = 3, .lanes = {{.peer = 0, .cables = {8}, .is_lost = true, .silent_ms = 2100}}, .adopted = with_plan}
                        .encode());
  EXPECT_EQ(revisions.decide(3)->update, (FabricUpdate{.generation = 3, .lost_cables = {8}}));
}

TEST(Revisions, AnswerTheLatestGenerationAndForgetEarlierOnes) {
  Revisions revisions(2);
  revisions.receive(RevisionReport{.generation = 4, .rank = 1}.encode());
  revisions.receive(RevisionReport{.generation = 2, .rank = 1}.encode());
  EXPECT_EQ(revisions.called_to(1), 4u);
  EXPECT_EQ(revisions.called_to(4), std::nullopt) << "an old generation calls nobody";
  revisions.receive(RevisionReport{.generation = 2, .rank = 0}.encode());
  EXPECT_TRUE(revisions.decide(2));
  revisions.forget_before(4);
  EXPECT_FALSE(revisions.decide(2));
  EXPECT_EQ(revisions.missing(4), 0u);
}

TEST(Revisions, IgnoreWhatTheyCannotRead) {
  Revisions revisions(2);
  for (const char* text : {"revise ", "revise report", "revise report 1", "revise report 1 5 0 0 0 0 0 0 0 0 - 0",
                           "revise report 1 0 0 99999999999", "revise report x y z",
                           "revise report 1 0 3 0 1 1 0 5 18446744073709551615 1", "revise report 1 0 0 0 0",
                           "revise vote 1 0", "revise else 1 0"}) {
    revisions.receive(text);
    EXPECT_EQ(revisions.called_to(0), std::nullopt) << text;
    EXPECT_EQ(revisions.count(), 0u) << text;
  }
  revisions.receive("revise report 1 0 0 0 0 0 0 0 0 0 - 0");
  EXPECT_EQ(revisions.called_to(0), 1u);
}

}  // namespace
}  // namespace banyan::run
