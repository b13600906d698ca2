// Changes of sessions while calls are made, in many orders of texts, calls and failures.

#include "banyan/service/client/test_moves.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

class MovesInAnyOrder : public Moves, public ::testing::WithParamInterface<uint32_t> {
 protected:
  // All ranks make calls up to this one, while daemons are succeeded now and then, up to `most_successions` times.
  void call_up_to(uint64_t last, uint32_t most_successions) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const auto is_over = [&] {
      return std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return rank.over == last; });
    };
    while (!is_over()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "a call does not end";
      const auto rank = static_cast<uint32_t>(random_() % kRanks);
      const auto action = static_cast<uint32_t>(random_() % 10);
      if (action < 3) {
        deliver_any(random_);
      } else if (action < 6) {
        if (ranks_[rank].flights.size() < 8 && ranks_[rank].begun < last) begin(rank);
      } else if (action < 9) {
        advance(rank);
      } else {
        ranks_[rank].executor->reviser()->poll();
        if (random_() % 20 == 0 && successions_ < most_successions && all_at(successions_)) {
          ++successions_;
          succeed(rank);
        }
      }
      if (HasFatalFailure()) return;
      if (random_() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  void expect_arrival() {
    turn_until([&] { return all_at(successions_) && open() == kRanks; }, random_);
  }

  std::mt19937 random_{GetParam()};
  uint32_t successions_ = 0;
};

TEST_P(MovesInAnyOrder, GiveEachCallToOneGenerationOnAllRanks) {
  std::cout << "seed " << GetParam() << std::endl;
  make_ranks();
  call_up_to(400, 3);
  if (HasFatalFailure()) return;
  expect_arrival();
}

// Calls end at any point of a change. Some changes are still under way when the next calls begin.
TEST_P(MovesInAnyOrder, ComeWhereCallsAreMadeInBursts) {
  std::cout << "seed " << GetParam() << std::endl;
  make_ranks();
  for (uint32_t burst = 1; burst <= 20 && !HasFatalFailure(); ++burst) {
    if (all_at(successions_)) {
      ++successions_;
      succeed(static_cast<uint32_t>(random_() % kRanks));
    }
    const auto turns = static_cast<uint32_t>(random_() % 60);
    for (uint32_t turn = 0; turn < turns; ++turn) {
      if (!deliver_any(random_)) std::this_thread::sleep_for(std::chrono::microseconds(100));
      ranks_[random_() % kRanks].executor->reviser()->poll();
    }
    call_up_to(ranks_[0].over + 1 + random_() % 12, successions_);
    if (burst % 2 == 0) expect_arrival();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, MovesInAnyOrder, ::testing::Range(1u, 41u));

// A rank's old or next session fails, as where its daemon is killed, after each number of texts that have been
// delivered: the change is refused and tried again, or all ranks hear of it.
class MovesWhereASessionFails : public Moves, public ::testing::WithParamInterface<std::tuple<uint32_t, uint32_t>> {
 protected:
  static constexpr size_t kSteps = 100;  // a change and its wishes have fewer texts

  void go_through(size_t step, uint32_t seed) {
    const auto [victim, generation] = GetParam();
    std::mt19937 random(seed);
    reset();
    make_ranks([&](uint32_t rank, MovingExecutor::Options& options) {
      options.fail_peers = [this](const Error& error) { tell_of(error); };
      if (rank != victim) return;
      options.open = [this, inner = options.open](const SessionMover::Opening& opening, const run::Deadline& deadline) {
        if (opening.generation > 0 && is_dead_.exchange(false)) throw Error(ErrorCode::peer_lost, kGone);
        return inner(opening, deadline);
      };
    });
    succeed(1);
    size_t delivered = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!is_over()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "it does not end";
      break_told();
      const auto rank = static_cast<uint32_t>(random() % kRanks);
      const auto action = static_cast<uint32_t>(random() % 10);
      if (action < 3) {
        if (deliver_any(random) && ++delivered == step) fail({generation, victim});
      } else if (is_broken(rank)) {
        continue;
      } else if (action < 6) {
        if (ranks_[rank].flights.size() < 4) begin(rank);
      } else if (action < 9) {
        try_to_advance(rank);
      } else {
        ranks_[rank].executor->reviser()->poll();
      }
      if (HasFatalFailure()) return;
      if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    ++(is_any_broken() ? broken_ : unharmed_);
  }
  size_t broken_ = 0, unharmed_ = 0;  // runs

 private:
  static constexpr const char* kGone = "the service has gone";

  void reset() {
    for (Rank& rank : ranks_) rank.executor.reset();
    ASSERT_EQ(service_.open, 0) << "sessions are left";
    ranks_ = std::vector<Rank>(kRanks);
    service_.sessions.clear();
    service_.openings.clear();
    service_.broken.clear();
    texts_.clear();
    told_.reset();
    is_dead_ = false;
  }
  // One that is not there yet cannot be opened; one that is over harms nobody.
  void fail(const Service::Place& place) {
    std::function<void(const Error&)> tell;
    {
      const std::lock_guard lock(service_.mutex);
      if (!service_.openings.contains(place)) {
        is_dead_ = true;
        return;
      }
      if (!service_.alive.contains(place)) return;
      service_.broken.emplace(place, kGone);
      tell = service_.openings.at(place).fail_peers;
    }
    tell(Error(ErrorCode::peer_lost, kGone));
  }
  void tell_of(const Error& error) {
    const std::lock_guard lock(mutex_);
    told_ = error;
  }
  void break_told() {
    std::optional<Error> told;
    {
      const std::lock_guard lock(mutex_);
      told = std::exchange(told_, std::nullopt);
    }
    for (const Rank& rank : ranks_) {
      if (told) rank.executor->break_with(*told);
    }
  }
  void try_to_advance(uint32_t rank) {
    try {
      advance(rank);
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), kGone);
      EXPECT_TRUE(is_broken(rank));
    }
  }
  bool is_broken(uint32_t rank) const { return ranks_[rank].executor->broken().has_value(); }
  bool is_any_broken() const { return is_broken(0) || is_broken(1) || is_broken(2); }
  // All have failed, or all are in next sessions and those before are closed.
  bool is_over() {
    if (is_any_broken()) return is_broken(0) && is_broken(1) && is_broken(2);
    return all_at(1) && open() == kRanks;
  }

  std::optional<Error> told_;  // under mutex_
  std::atomic<bool> is_dead_{false};
};

TEST_P(MovesWhereASessionFails, AreRefusedOrEndTheCommunicatorOnAllRanks) {
  for (size_t step = 1; step <= kSteps; ++step) {
    const auto seed = static_cast<uint32_t>(step * 97 + std::get<0>(GetParam()) * 7 + std::get<1>(GetParam()));
    SCOPED_TRACE("after " + std::to_string(step) + " texts, seed " + std::to_string(seed));
    go_through(step, seed);
    if (HasFailure()) return;
  }
  std::cout << broken_ << " communicators have ended, " << unharmed_ << " have gone over" << std::endl;
  EXPECT_GT(broken_, 0u);
  EXPECT_GT(unharmed_, 0u);
}

INSTANTIATE_TEST_SUITE_P(OfEachRank, MovesWhereASessionFails,
                         ::testing::Combine(::testing::Values(0u, 1u, 2u), ::testing::Values(0u, 1u)));

}  // namespace
}  // namespace banyan::service
