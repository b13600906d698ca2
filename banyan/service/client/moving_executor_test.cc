#include "banyan/service/client/moving_executor.h"

#include "banyan/service/client/test_moves.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

TEST_F(Moves, ComeWhereRulesDenyBarriersThatNobodyCalls) {
  std::mt19937 random(15);
  make_ranks();
  service_.denies_barriers = true;
  for (uint32_t rank = 0; rank < kRanks; ++rank) begin(rank);
  for (uint32_t rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(advance(rank));
  succeed(2);
  turn_until([&] { return all_at(1) && open() == kRanks; }, random);
}

// Rank 1 hears of the refusal before it hears of the change; it would wait for the others until its opening time is
// over.
TEST_F(Moves, AreTriedAgainWhereARefusalComesBeforeItsChange) {
  std::mt19937 random(14);
  std::atomic<bool> is_first{true};
  make_ranks([&](uint32_t rank, MovingExecutor::Options& options) {
    if (rank != 2) return;
    options.open = [&, inner = options.open](const SessionMover::Opening& opening, const run::Deadline& deadline) {
      if (opening.generation > 0 && is_first.exchange(false)) throw Error(ErrorCode::invalid_usage, "a quota");
      return inner(opening, deadline);
    };
  });
  succeed(1);
  const auto is_prepare_for_1 = [](const auto& text) {
    return text.first == 1 && text.second.starts_with("switch prepare 1 ");
  };
  std::optional<std::pair<uint32_t, std::string>> held;
  bool was_on_its_way = false;
  const auto is_refusal_heard = [&] {
    const std::lock_guard lock(mutex_);
    const auto prepare = std::find_if(texts_.begin(), texts_.end(), is_prepare_for_1);
    if (prepare != texts_.end()) held = *prepare;
    std::erase_if(texts_, is_prepare_for_1);
    const bool is_on_its_way = std::any_of(texts_.begin(), texts_.end(), [](const auto& text) {
      return text.first == 1 && text.second.find("a quota") != std::string::npos;
    });
    was_on_its_way |= is_on_its_way;
    return held && was_on_its_way && !is_on_its_way;
  };
  turn_until(is_refusal_heard, random);
  {
    const std::lock_guard lock(mutex_);
    texts_.push_back(*held);
  }
  turn_until([&] { return all_at(2) && open() == kRanks; }, random);
}

// Each refuses what only the other has asked for, and they never ask at the same time.
TEST_F(Moves, ComeWhereTwoDaemonsAreSucceededAndTheirRanksSayItByTurns) {
  std::mt19937 random(13);
  constexpr milliseconds kPause{60};
  std::atomic<bool> is_first{true};
  make_ranks([&](uint32_t rank, MovingExecutor::Options& options) {
    options.first_pause = options.longest_pause = kPause;
    if (rank != 1) return;
    options.find = [&](const run::Deadline&) {
      if (is_first.exchange(false)) std::this_thread::sleep_for(kPause / 2);
    };
  });
  succeed(1);
  succeed(0);
  turn_until([&] { return all_at(1) && open() == kRanks; }, random);
}

TEST_F(Moves, DoNotComeOnceARankHasBegunAMessage) {
  std::mt19937 random(9);
  make_ranks();
  EXPECT_EQ(ranks_[1].executor->start_message({.kind = run::OperationKind::send, .other = 2}), 1);
  succeed(0);
  // Rank 0 stops asking when it has heard why.
  const auto end = std::chrono::steady_clock::now() + milliseconds(100);
  turn_until([&] { return std::chrono::steady_clock::now() > end; }, random);
  turn_until([&] { return open() == kRanks; }, random);
  EXPECT_FALSE(all_at(1));
  for (uint32_t rank = 0; rank < kRanks; ++rank) begin(rank);
  for (uint32_t rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(advance(rank));
}

TEST_F(Moves, DoNotComeWhereNobodyDrivesARank) {
  std::mt19937 random(10);
  make_ranks([](uint32_t rank, MovingExecutor::Options& options) { options.stays = rank == 2; });
  succeed(0);
  const auto end = std::chrono::steady_clock::now() + milliseconds(100);
  turn_until([&] { return std::chrono::steady_clock::now() > end && open() == kRanks; }, random);
  EXPECT_FALSE(all_at(1));
}

// Rank 0 has consented, the others have not heard of the change.
TEST_F(Moves, HoldBackAMessageThatIsBegunAfterTheConsent) {
  std::mt19937 random(11);
  make_ranks();
  succeed(0);
  const auto texts_with = [&](const std::string& words) {
    const std::lock_guard lock(mutex_);
    return std::count_if(texts_.begin(), texts_.end(),
                         [&](const auto& text) { return text.second.find(words) != std::string::npos; });
  };
  const auto holds = [&] { return texts_with("switch ready 1 0") > 0; };
  turn_until(holds, random);
  const uint64_t ticket = ranks_[0].executor->start_message({.kind = run::OperationKind::send, .other = 2});
  std::vector<run::Executor::MessageDone> done;
  ranks_[0].executor->advance_messages(done);
  EXPECT_TRUE(done.empty());
  turn_until([&] { return all_at(1); }, random);
  ranks_[0].executor->advance_messages(done);
  ASSERT_EQ(done.size(), 1);
  EXPECT_EQ(done[0].ticket, ticket);
  EXPECT_EQ(service_.sessions[0].messages[0], 0);
  EXPECT_EQ(service_.sessions[1].messages[0], 1);
}

TEST_F(Moves, AreNoRevisionOfPlans) {
  make_ranks();
  EXPECT_THROW(ranks_[0].executor->reviser()->propose({}), Error);
  EXPECT_EQ(ranks_[0].executor->reviser()->generation(), 0);
}

// Each rank in a thread of its own, whose waits only texts and peers end.
TEST_F(Moves, WakeWhoWaitsInACall) {
  class NoWatch : public run::Watch {
   public:
    void waiting_for(uint32_t) override {}
  };
  delivers_at_once_ = true;
  make_ranks();
  std::atomic<uint32_t> most{0};
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      NoWatch watch;
      for (uint64_t call = 0; most < 4 || call < most; ++call) {
        begin(rank);
        ranks_[rank].executor->finish(watch);
        expect_right(rank);
        const uint32_t at = ranks_[rank].executor->generation_of_sessions();
        if (rank == 1 && at < 3 && call % 50 == 0) succeed(rank);
        if (rank == 0 && at == 3 && most < 4) most = static_cast<uint32_t>(call) + 100;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(all_at(3));
  EXPECT_EQ(ranks_[0].over, ranks_[1].over);
}

}  // namespace
}  // namespace banyan::service
