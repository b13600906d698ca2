#include "banyan/run/execute/revision_talk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "banyan/base/error.h"

namespace banyan::run {
namespace {

using Cables = std::set<uint32_t>;

// Three ranks that hear each other at once. Cables 1 and 2 are the two ways between them.
class Talks : public ::testing::Test {
 protected:
  Talks() {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      talks_.push_back(std::make_unique<RevisionTalk>(rank, 3, [this](const std::string& text) {
        for (const auto& talk : talks_) EXPECT_TRUE(talk->hear(text));
      }));
    }
  }

  static constexpr uint32_t kOnly = 9;  // of rank 0
  static void expect_possible(const FabricUpdate& update) {
    if (!update.plan.empty()) throw Error(ErrorCode::invalid_input, "a plan that nobody can follow");
    if (update.lost_cables.contains(kOnly)) throw Error(ErrorCode::peer_lost, "rank 0 has no way");
    if (update.lost_cables.contains(1) && update.lost_cables.contains(2)) {
      throw Error(ErrorCode::peer_lost, "there is no way");
    }
  }

  // All report that they have adopted these cables as lost, and rank 1 that it has lost others. What all agree on.
  RevisionTalk::Agreement agree(uint32_t generation, const Cables& adopted, const Cables& lost) {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      RevisionReport report{.generation = generation,
                            .adopted = {.generation = generation - 1, .lost_cables = adopted}};
      if (rank == 1 && !lost.empty()) {
        report.lanes = {
            {.peer = 2, .cables = std::vector<uint32_t>(lost.begin(), lost.end()), .is_lost = true, .silent_ms = 2000}};
      }
      talks_[rank]->report(std::move(report));
    }
    std::vector<std::optional<RevisionTalk::Agreement>> agreements(3);
    for (int round = 0; round < 2; ++round) {  // in the first one they vote, if need be
      for (uint32_t rank = 0; rank < 3; ++rank) {
        if (!agreements[rank]) agreements[rank] = talks_[rank]->agreement(expect_possible);
      }
    }
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

TEST_F(Talks, UseMendedCablesAgainWhenOneRankAsks) {
  const FabricUpdate wish{.mended_cables = {1}};
  talks_[2]->propose(wish);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(talks_[rank]->untold_wish(), rank == 2 ? std::optional(wish) : std::nullopt);
    EXPECT_EQ(talks_[rank]->untold_wish(), std::nullopt) << "it was told";
    EXPECT_EQ(talks_[rank]->called_to(), std::nullopt) << "a wish stops nobody";
  }
  EXPECT_EQ(agree(1, {1, 7}, {}).update, (FabricUpdate{.generation = 1, .lost_cables = {7}}));
  // Somebody else has found it out, too: that is no news.
  talks_[0]->propose({.mended_cables = {1}});
  EXPECT_EQ(agree(2, {7}, {}).update, (FabricUpdate{.generation = 2, .lost_cables = {7}}));
  for (const auto& talk : talks_) EXPECT_EQ(talk->untold_wish(), std::nullopt) << "it is fulfilled";
}

TEST_F(Talks, TellAWishAgainThatCameDuringARevision) {
  agree(1, {}, {1});
  talks_[1]->propose({.mended_cables = {1}});
  EXPECT_EQ(talks_[1]->untold_wish(), (FabricUpdate{.mended_cables = {1}}));
  talks_[1]->finish();
  EXPECT_EQ(talks_[1]->untold_wish(), (FabricUpdate{.mended_cables = {1}})) << "who was told has forgotten it";
  talks_[1]->forget_wish({.mended_cables = {1}});
  talks_[1]->finish();
  EXPECT_EQ(talks_[1]->untold_wish(), std::nullopt);
}

TEST_F(Talks, KeepAWishThatIsRefusedFromBringingNewPlans) {
  talks_[1]->propose({.plan = "impossible"});
  EXPECT_EQ(agree(1, {}, {1}).update, (FabricUpdate{.generation = 1, .lost_cables = {1}}));
  for (const auto& talk : talks_) EXPECT_EQ(talk->untold_wish(), std::nullopt) << "it was refused";
}

}  // namespace
}  // namespace banyan::run
