// How one rank, or three in one order, take wishes, refusals and revisions. Every order: plan_switch_orders_test.cc.
#include "banyan/run/execute/plan_switch.h"

#include "banyan/run/execute/revision.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

TEST(PlanSwitch, KnowsWhichTextsRefuseTheChangeUnderWay) {
  PlanSwitch leader(0, 2), other(1, 2);
  leader.want_of(1, {});
  ASSERT_TRUE(leader.can_begin());
  const FabricUpdate adopted;
  leader.begin({.adopted = adopted, .shapes = {}});
  for (const std::string& text : leader.take_texts()) {
    EXPECT_FALSE(leader.is_refusal(text)) << text;
    leader.receive(text);
    other.receive(text);
  }
  leader.ready("");
  other.ready("no room");
  const std::vector<std::string> consent = leader.take_texts(), refusal = other.take_texts();
  ASSERT_EQ(consent.size(), 1u);
  ASSERT_EQ(refusal.size(), 1u);
  EXPECT_FALSE(other.is_refusal(consent.front()));
  EXPECT_TRUE(leader.is_refusal(refusal.front()));
  EXPECT_FALSE(leader.is_refusal("look"));
  EXPECT_FALSE(PlanSwitch(0, 2).is_refusal(refusal.front())) << "no change is under way";
}

TEST(PlanSwitch, TellsWhichCallsToPrepareForWithTheirCodes) {
  PlanSwitch leader(0, 2), other(1, 2);
  leader.want_of(1, {});
  const std::vector<CallShape> shapes = {
      {.kind = OperationKind::all_reduce, .type = element::DataType::float32, .count = 1000},
      {.kind = OperationKind::broadcast, .root = 1, .type = codec::parse_wire_type("float32 as int8"), .count = 77},
      {.kind = OperationKind::all_gather, .type = codec::parse_wire_type("float32 as int4:stochastic"), .count = 1}};
  const FabricUpdate adopted;
  leader.begin({.adopted = adopted, .shapes = shapes});
  const std::vector<std::string> texts = leader.take_texts();
  ASSERT_EQ(texts.size(), 1u);
  other.receive(texts.front());
  ASSERT_TRUE(other.change());
  EXPECT_EQ(other.change()->shapes, shapes);
  // A type that nobody knows.
  std::string wrong = texts.front();
  wrong.replace(wrong.rfind(' ', wrong.rfind(' ') - 1), std::string::npos, " 200 1");
  PlanSwitch third(1, 2);
  third.receive(wrong);
  EXPECT_FALSE(third.change());
}

// What ranks tell each other, until nobody says anything.
void talk(std::vector<PlanSwitch*> ranks) {
  for (bool has_news = true; has_news;) {
    has_news = false;
    for (PlanSwitch* const rank : ranks) {
      for (const std::string& text : rank->take_texts()) {
        has_news = true;
        for (PlanSwitch* const other : ranks) other->receive(text);
      }
    }
  }
}

// A rank alone carries out all wishes so far, up to the moment when its calls go over.
void go_over_alone(PlanSwitch& only, const FabricUpdate& adopted) {
  ASSERT_TRUE(only.can_begin());
  only.begin({.adopted = adopted, .shapes = {}});
  only.ready("");
  talk({&only});
  only.hold(0);
  talk({&only});
  ASSERT_TRUE(only.must_go_over(1));
  only.gone_over();
}

TEST(PlanSwitch, RestoresWhatWasAvoidedAMomentAgo) {
  PlanSwitch only(0, 1);
  EXPECT_EQ(only.want({.avoided_cables = {1}}), 1u);
  EXPECT_EQ(only.outcome(1), std::nullopt);
  go_over_alone(only, {});
  const FabricUpdate avoids = only.change()->update;
  EXPECT_EQ(avoids, (FabricUpdate{.generation = 1, .avoided_cables = {1}}));
  EXPECT_EQ(only.outcome(1), (WishOutcome{.generation = 1}));
  // Calls by the old plans are still under way.
  EXPECT_EQ(only.want({.restored_cables = {1}}), 2u);
  EXPECT_FALSE(only.can_begin());
  EXPECT_EQ(only.outcome(2), std::nullopt) << "not by what came of the one before";
  only.drained();
  talk({&only});
  go_over_alone(only, avoids);
  EXPECT_EQ(only.change()->update, (FabricUpdate{.generation = 2}));
  EXPECT_EQ(only.outcome(2), (WishOutcome{.generation = 2}));
}

TEST(PlanSwitch, TakesWishesInTheOrderOfTheirNumbersWhateverThatOfTheirTexts) {
  PlanSwitch leader(0, 2), other(1, 2);
  const std::vector<PlanWish> wishes{{.avoided_cables = {1}}, {.restored_cables = {1}}, {.avoided_cables = {2}}};
  for (const PlanWish& wish : wishes) other.want(wish);
  std::vector<std::string> texts = other.take_texts();
  ASSERT_EQ(texts.size(), 3u);
  for (const size_t late : {2u, 1u}) leader.receive(texts[late]);
  EXPECT_FALSE(leader.can_begin()) << "the first is on its way";
  for (const std::string& text : {texts[0], texts[1], texts[0]}) leader.receive(text);
  const FabricUpdate adopted;
  leader.begin({.adopted = adopted, .shapes = {}});
  EXPECT_EQ(leader.change()->update, (FabricUpdate{.generation = 1, .avoided_cables = {2}}));
  EXPECT_EQ(leader.change()->wishes, (std::vector<uint64_t>{0, 3}));
}

TEST(PlanSwitch, TellsWhyAWishWasRefusedAndForgetsIt) {
  PlanSwitch leader(0, 2), other(1, 2);
  leader.want({.avoided_cables = {1}});
  const FabricUpdate adopted;
  leader.begin({.adopted = adopted, .shapes = {}});
  talk({&leader, &other});
  other.ready("there is no way");
  leader.ready("");
  leader.want({.avoided_cables = {2}});
  talk({&leader, &other});
  EXPECT_EQ(leader.outcome(1), (WishOutcome{.generation = 1, .refusal = "rank 1: there is no way"}));
  EXPECT_EQ(leader.outcome(2), std::nullopt);
  leader.begin({.adopted = adopted, .shapes = {}});
  EXPECT_EQ(leader.change()->update, (FabricUpdate{.generation = 2, .avoided_cables = {2}}));
}

TEST(PlanSwitch, KeepsWishesThroughARevisionButNotWhatCarriedAgainBefore) {
  PlanSwitch leader(0, 2), other(1, 2);
  leader.want({.avoided_cables = {1}, .mended_cables = {7}});
  const FabricUpdate lost{.generation = 3, .lost_cables = {7, 8}};
  leader.begin({.adopted = lost, .shapes = {}});
  EXPECT_EQ(leader.change()->update.lost_cables, std::set<uint32_t>{8});
  leader.want({.restored_cables = {1}});
  other.want({.mended_cables = {8}});
  const std::vector<std::string> late = other.take_texts();
  leader.interrupt(4);
  for (const std::string& text : late) leader.receive(text);
  leader.begin({.adopted = lost, .shapes = {}});
  EXPECT_EQ(leader.change()->update, (FabricUpdate{.generation = 5, .lost_cables = {7, 8}}));
  EXPECT_EQ(leader.change()->steps.size(), 3u);
  // It is said once more by who has heard of the revision.
  leader.interrupt(6);
  other.interrupt(6);
  other.want({.mended_cables = {8}});
  for (const std::string& text : other.take_texts()) leader.receive(text);
  leader.begin({.adopted = lost, .shapes = {}});
  EXPECT_EQ(leader.change()->update, (FabricUpdate{.generation = 7, .lost_cables = {7}}));
}

TEST(PlanSwitch, AdoptsByARevisionWhatAllHaveAgreedOn) {
  PlanSwitch only(0, 1);
  only.want({.avoided_cables = {1}});
  const FabricUpdate adopted;
  only.begin({.adopted = adopted, .shapes = {}});
  only.ready("");
  talk({&only});
  only.hold(3);
  talk({&only});
  ASSERT_TRUE(only.change()->is_agreed());
  only.interrupt(2);
  EXPECT_EQ(only.outcome(1), (WishOutcome{.generation = 2}));
  EXPECT_FALSE(only.can_begin()) << "it is part of what the revision adopts";
}

}  // namespace
}  // namespace banyan::run
