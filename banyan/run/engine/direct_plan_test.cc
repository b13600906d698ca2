#include "banyan/run/engine/direct_plan.h"

#include "banyan/run/engine/test_fleet.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

TEST(DirectPlan, SendsEachPieceStraightToItsRank) {
  const std::vector<Block> send = equal_blocks(4, 10), receive = equal_blocks(4, 10);
  const RankPlan plan = make_all_to_all_plan({.rank = 1, .ranks = 4}, send, receive);
  EXPECT_EQ(plan.input_elements, 40u);
  EXPECT_EQ(plan.output_elements, 40u);
  EXPECT_TRUE(plan.shuffles);
  EXPECT_THAT(plan.streams_to, ElementsAre(1u, 0u, 1u, 1u));
  EXPECT_THAT(plan.streams_from, ElementsAre(1u, 0u, 1u, 1u));
  EXPECT_THAT(peers_of(plan), ElementsAre(0u, 2u, 3u));
  for (const Role& role : plan.roles) {
    if (!role.out_children.empty()) {
      EXPECT_EQ(role.input_at, 10 * role.out_children[0].peer);
    }
    if (role.out_parent) {
      EXPECT_EQ(role.output_at, 10 * role.out_parent->peer);
    }
    if (role.out_children.empty() && role.is_root()) {
      EXPECT_EQ(role.input_at, role.output_at);
    }
  }
}

TEST(DirectPlan, KeepsPiecesOfNothingSoThatSizesAreCompared) {
  const std::vector<Block> nothing(2), receive = {{.at = 0, .count = 3}, {.at = 3, .count = 0}};
  const RankPlan plan = make_all_to_all_plan({.rank = 1, .ranks = 2}, nothing, receive);
  ASSERT_EQ(plan.roles.size(), 2u);
  EXPECT_EQ(plan.roles[0].length, 0u);
  EXPECT_EQ(plan.roles[1].length, 3u);
  EXPECT_EQ(plan.input_elements, 0u);
}

TEST(DirectPlan, GathersAndScattersAtTheRoot) {
  const std::vector<Block> blocks = {{.at = 2, .count = 1}, {.at = 9, .count = 4}, {.at = 20, .count = 5}};
  const RankPlan root = make_gather_plan({.rank = 2, .ranks = 3}, 2, 5, blocks);
  EXPECT_EQ(root.input_elements, 5u);
  EXPECT_EQ(root.output_elements, 25u);
  EXPECT_THAT(root.streams_from, ElementsAre(1u, 1u, 0u));
  const RankPlan leaf = make_gather_plan({.rank = 0, .ranks = 3}, 2, 1, {});
  EXPECT_EQ(leaf.output_elements, 0u);
  EXPECT_THAT(peers_of(leaf), ElementsAre(2u));
  const RankPlan source = make_scatter_plan({.rank = 2, .ranks = 3}, 2, blocks, 5);
  EXPECT_EQ(source.input_elements, 25u);
  EXPECT_EQ(source.output_elements, 5u);
  EXPECT_EQ(elements_sent(source), 5u);
}

TEST(DirectPlan, PairsTransfersInTheirOrder) {
  const std::vector<Transfer> transfers = {{.is_send = true, .peer = 1, .block = {.at = 0, .count = 3}},
                                           {.is_send = false, .peer = 1, .block = {.at = 5, .count = 2}},
                                           {.is_send = true, .peer = 0, .block = {.at = 3, .count = 4}},
                                           {.is_send = true, .peer = 1, .block = {.at = 7, .count = 1}},
                                           {.is_send = false, .peer = 0, .block = {.at = 0, .count = 4}}};
  const RankPlan plan = make_transfer_plan({.rank = 0, .ranks = 2}, transfers);
  ASSERT_EQ(plan.roles.size(), 4u);
  EXPECT_EQ(plan.roles[0].out_children[0].number, 0u);
  EXPECT_EQ(plan.roles[1].out_parent->number, 0u);
  EXPECT_EQ(plan.roles[2].out_children[0].number, 1u);
  EXPECT_EQ(plan.roles[3].input_at, 3u);
  EXPECT_EQ(plan.roles[3].output_at, 0u);
}

TEST(DirectPlan, RefusesAPieceForItselfThatDoesNotFit) {
  const std::vector<Block> send = {{.at = 0, .count = 3}}, receive = {{.at = 0, .count = 4}};
  EXPECT_THAT(testing::error_of([&] { make_all_to_all_plan({.rank = 0, .ranks = 1}, send, receive); }),
              HasSubstr("rank 0 sends itself 3 elements, but expects 4 of itself"));
  const Transfer alone{.is_send = true, .peer = 0, .block = {}};
  EXPECT_THAT(testing::error_of(
                  [&] {
                    make_transfer_plan({.rank = 0, .ranks = 2}, {&alone, 1});
                  },
                  ErrorCode::invalid_usage),
              HasSubstr("rank 0 sends itself 1 messages and receives 0 of them"));
}

// Whoever has come tells his parent when all below him have; so n - 1 edges and no more than log2(n) steps.
TEST(DirectPlan, MakesABarrierALowTree) {
  for (uint32_t ranks = 1; ranks <= 70; ++ranks) {
    uint32_t edges = 0, highest = 0;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const RankPlan plan = make_barrier_plan({.rank = rank, .ranks = ranks});
      if (ranks == 1) {
        EXPECT_TRUE(plan.roles.empty());
        continue;
      }
      ASSERT_EQ(plan.roles.size(), 1u);
      EXPECT_EQ(plan.roles[0].length, 0u);
      edges += static_cast<uint32_t>(plan.roles[0].in_children.size());
      uint32_t height = 0;
      for (uint32_t at = rank; at != 0; ++height) {
        at = make_barrier_plan({.rank = at, .ranks = ranks}).roles[0].in_parent->peer;
      }
      highest = std::max(highest, height);
    }
    EXPECT_EQ(edges, ranks - 1);
    EXPECT_LE(uint64_t{1} << highest, ranks);
  }
}

TEST(DirectPlan, ConfirmsAmongItsMembers) {
  RankPlan plan = make_transfer_plan({.rank = 3, .ranks = 8}, {});
  add_confirmation(plan, std::vector<uint32_t>{6, 3, 7});
  ASSERT_EQ(plan.roles.size(), 1u);
  EXPECT_TRUE(plan.roles[0].is_confirmation);
  EXPECT_EQ(plan.roles[0].in_parent->peer, 6u);
}

TEST(DirectPlan, TwoConfirmToEachOtherAtOnce) {
  RankPlan plan = make_transfer_plan({.rank = 3, .ranks = 8}, {});
  add_confirmation(plan, std::vector<uint32_t>{6, 3});
  ASSERT_EQ(plan.roles.size(), 2u);
  EXPECT_EQ(plan.roles[0].out_parent->peer, 6u);
  EXPECT_FALSE(plan.roles[0].says_anything());
  EXPECT_EQ(plan.roles[1].out_children.front().peer, 6u);
  EXPECT_TRUE(plan.roles[0].is_confirmation && plan.roles[1].is_confirmation);
}

}  // namespace
}  // namespace banyan::run
