// Executions that are over before they are confirmed, and confirmations that wait for the next message.

#include "banyan/run/engine/engine.h"
#include "banyan/run/engine/test_fleet.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// Ranks that carry out confirmed allreduces, one thing at a time.
class Confirmations : public ::testing::Test {
 protected:
  explicit Confirmations(uint32_t ranks = 2)
      : world_({.ranks = ranks, .least_capacity = 1000, .most_capacity = 2000, .seed = 3}) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      engines_.push_back(std::make_unique<Engine>(world_.transport(rank), EngineOptions{.can_rewind = true}));
    }
  }

  void start(bool confirms_late) {
    const uint64_t sequence = operations_.size() + 1;
    operations_.push_back(
        std::make_unique<TestOperation>(TestOperation::Options{.ranks = static_cast<uint32_t>(engines_.size()),
                                                               .in_place = true,
                                                               .elements = 40,
                                                               .trees_per_root = 1,
                                                               .is_confirmed = true,
                                                               .seed = sequence}));
    tickets_.emplace_back();
    for (uint32_t rank = 0; rank < engines_.size(); ++rank) {
      EngineCommand command = operations_.back()->command(rank, sequence);
      command.confirms_late = confirms_late;
      tickets_.back().push_back(engines_[rank]->start(command));
    }
  }
  // Until nothing moves: calls fail at random one time in four.
  void go_on() {
    for (int still = 0; still < 200;) {
      bool moved = world_.deliver_some();
      for (const auto& engine : engines_) moved |= engine->progress();
      still = moved ? 0 : still + 1;
    }
  }
  std::vector<bool> are_over(size_t operation) const {
    std::vector<bool> are;
    for (size_t rank = 0; rank < engines_.size(); ++rank) {
      are.push_back(engines_[rank]->is_over(tickets_[operation][rank]));
    }
    return are;
  }
  std::vector<bool> are_done(size_t operation) const {
    std::vector<bool> are;
    for (size_t rank = 0; rank < engines_.size(); ++rank) {
      are.push_back(engines_[rank]->is_done(tickets_[operation][rank]));
    }
    return are;
  }
  // Its buffers are used for something else.
  void take(size_t operation) {
    for (uint32_t rank = 0; rank < engines_.size(); ++rank) {
      engines_[rank]->release_buffers(tickets_[operation][rank]);
      operations_[operation]->take_result(rank);
    }
    EXPECT_EQ(operations_[operation]->wrong_elements(), 0u);
  }
  uint64_t messages() const {
    uint64_t sum = 0;
    for (const auto& engine : engines_) sum += engine->messages_sent();
    return sum;
  }

  testing::SimulatedWorld world_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::unique_ptr<TestOperation>> operations_;
  std::vector<std::vector<Engine::Ticket>> tickets_;  // by operation and rank
};

TEST_F(Confirmations, GoAtOnceWhereSomebodyWaitsForThem) {
  start(false);
  go_on();
  EXPECT_THAT(are_done(0), Each(true));
  EXPECT_FALSE(engines_[0]->is_holding());
}

TEST_F(Confirmations, WaitForTheNextExecution) {
  start(true);
  go_on();
  EXPECT_THAT(are_over(0), Each(true));
  EXPECT_THAT(are_done(0), Each(false));
  EXPECT_TRUE(engines_[0]->is_holding() && engines_[1]->is_holding());
  const uint64_t without = messages();
  take(0);
  start(true);
  go_on();
  EXPECT_THAT(are_done(0), Each(true)) << "its confirmations came with the next messages";
  EXPECT_THAT(are_over(1), Each(true));
  EXPECT_THAT(are_done(1), Each(false));
  EXPECT_EQ(messages(), 2 * without + 2);
  take(1);
  for (const auto& engine : engines_) engine->let_go();
  go_on();
  EXPECT_THAT(are_done(1), Each(true));
  EXPECT_EQ(messages(), 2 * without + 4);
  EXPECT_TRUE(engines_[0]->is_idle() && engines_[1]->is_idle());
}

TEST_F(Confirmations, OfOneRankDoNotWaitForThoseOfTheOther) {
  start(true);
  go_on();
  engines_[0]->let_go();
  go_on();
  EXPECT_THAT(are_done(0), Each(false)) << "each needs that of the other";
  EXPECT_FALSE(engines_[0]->is_holding());
  EXPECT_TRUE(engines_[1]->is_holding());
  engines_[1]->let_go();
  go_on();
  EXPECT_THAT(are_done(0), Each(true));
}

TEST_F(Confirmations, AreOfNoUseAnyMoreWhenAllIsStopped) {
  start(true);
  go_on();
  take(0);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const std::vector<Engine::Suspended> suspended = engines_[rank]->suspend();
    ASSERT_EQ(suspended.size(), 1u);
    EXPECT_TRUE(suspended[0].has_result);
    EXPECT_FALSE(engines_[rank]->is_holding());
    engines_[rank]->drop(suspended[0].ticket);
    EXPECT_TRUE(engines_[rank]->is_done(suspended[0].ticket));
  }
}

class ConfirmationsOfThree : public Confirmations {
 protected:
  ConfirmationsOfThree() : Confirmations(3) {}
};

TEST_F(ConfirmationsOfThree, AreNotHeldBack) {
  start(true);
  go_on();
  EXPECT_THAT(are_done(0), Each(true)) << "a rank waits for those of others to pass its own on";
}

}  // namespace
}  // namespace banyan::run
