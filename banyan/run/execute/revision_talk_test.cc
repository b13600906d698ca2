#include "banyan/run/execute/revision_talk.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using Cables = std::set<uint32_t>;

// Three ranks that hear each other at once. Cables 1 and 2 are the two ways between them.
class Talks : public ::testing::Test {
 protected:
  Talks() {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      talks_.push_back(std::make_unique<RevisionTalk>(rank, 3, [this](const std::string& text) {
        for (const auto& talk : talks_) EXPECT_TRUE(talk->receive(text));
      }));
    }
  }

  static constexpr uint32_t kOnly = 9;  // of rank 0
  static void expect_possible(const FabricUpdate& update) {
    const Cables unused = update.unused_cables();
    if (unused.contains(kOnly)) throw Error(ErrorCode::peer_lost, "rank 0 has no way");
    if (unused.contains(1) && unused.contains(2)) {
      throw Error(ErrorCode::peer_lost, "there is no way");
    }
  }

  // All report that they have adopted these cables as lost, and rank 1 that it has lost others. What all agree on.
  RevisionTalk::Agreement agree(uint32_t generation, const Cables& adopted, const Cables& lost,
                                const Cables& avoided = {}) {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      RevisionReport report{
          .generation = generation,
          .adopted = {.generation = generation - 1, .lost_cables = adopted, .avoided_cables = avoided}};
      if (rank == 1 && !lost.empty()) {
        report.lanes = {
            {.peer = 2, .cables = std::vector<uint32_t>(lost.begin(), lost.end()), .is_lost = true, .silent_ms = 2000}};
      }
      talks_[rank]->report(std::move(report));
    }
    std::vector<std::optional<RevisionTalk::Agreement>> agreements(3);
    for (uint32_t rank = 0; rank < 3; ++rank) agreements[rank] = talks_[rank]->agreement(expect_possible);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      talks_[rank]->finish();
      EXPECT_EQ(agreements[rank].value().update, agreements[0].value().update);
    }
    return *agreements[0];
  }

  std::vector<std::unique_ptr<RevisionTalk>> talks_;
};

TEST_F(Talks, DoWithoutWhatIsLost) {
  EXPECT_EQ(agree(1, {}, {1}).update, (FabricUpdate{.generation = 1, .lost_cables = {1}}));
  EXPECT_EQ(agree(2, {1}, {7}).update, (FabricUpdate{.generation = 2, .lost_cables = {1, 7}}));
}

TEST_F(Talks, UseAgainWhatWasLostEarlierWhereThereIsNoWayElse) {
  const RevisionTalk::Agreement agreement = agree(1, {1, 7}, {2});
  EXPECT_EQ(agreement.update, (FabricUpdate{.generation = 1, .lost_cables = {2}}));
  EXPECT_EQ(agreement.decision.losses, Cables{2});
}

TEST_F(Talks, UseAllAgainWhereNotEvenThatIsAWay) {
  EXPECT_EQ(agree(1, {7}, {1, 2}).update, (FabricUpdate{.generation = 1}));
}

TEST_F(Talks, BlameNoCableThatNothingCanBeDoneWithout) {
  EXPECT_EQ(agree(1, {}, {1, kOnly}).update, (FabricUpdate{.generation = 1, .lost_cables = {1}}));
  EXPECT_EQ(agree(2, {}, {kOnly}).update, (FabricUpdate{.generation = 2}));
}

TEST_F(Talks, StillAvoidWhatAnOperatorWants) {
  EXPECT_EQ(agree(1, {}, {8}, {1, 7}).update,
            (FabricUpdate{.generation = 1, .lost_cables = {8}, .avoided_cables = {1, 7}}));
  EXPECT_EQ(agree(2, {1}, {7}, {1}).update,
            (FabricUpdate{.generation = 2, .lost_cables = {1, 7}, .avoided_cables = {1}}));
}

TEST_F(Talks, UseWhatIsAvoidedWhereThereIsNoWayWithoutAndNoMoreOfIt) {
  EXPECT_EQ(agree(1, {}, {2}, {1, 7}).update,
            (FabricUpdate{.generation = 1, .lost_cables = {2}, .avoided_cables = {1, 7}, .needed_cables = {1}}));
  // Rather than what was lost earlier, which carries nothing.
  EXPECT_EQ(agree(2, {2, 8}, {3}, {1}).update,
            (FabricUpdate{.generation = 2, .lost_cables = {2, 3, 8}, .avoided_cables = {1}, .needed_cables = {1}}));
  // What was needed is lost, too: both ways are tried again, and then the first is avoided as before.
  EXPECT_EQ(agree(3, {2}, {1}, {1}).update, (FabricUpdate{.generation = 3, .lost_cables = {1}, .avoided_cables = {1}}));
}

TEST_F(Talks, WaitForTheReportsOfAll) {
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(talks_[0]->agreement(expect_possible).has_value(), false) << rank;
    talks_[rank]->report({.generation = 1});
    EXPECT_EQ(talks_[0]->missing(), rank == 2 ? std::nullopt : std::optional(rank + 1));
    EXPECT_EQ(talks_[2]->called_to(), rank < 2 ? std::optional(1u) : std::nullopt);
  }
  EXPECT_EQ(talks_[0]->agreement(expect_possible)->update, (FabricUpdate{.generation = 1}));
}

}  // namespace
}  // namespace banyan::run
