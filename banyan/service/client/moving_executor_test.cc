// Ranks in one thread, by executors of a false service: a call is over when all ranks have begun the call of its number
// in the sessions of its generation, and yields the sum of what they have given. Texts come in any order, some twice.
#include "banyan/service/client/moving_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <iostream>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <tuple>

namespace banyan::service {
namespace {

using std::chrono::milliseconds;

constexpr uint32_t kRanks = 3;
constexpr size_t kCount = 5;

// What the sessions of one generation have been given.
struct Sessions {
  std::vector<std::vector<run::Call>> calls = std::vector<std::vector<run::Call>>(kRanks);
  // By rank and call: copies, since a rank whose session fails takes its buffers along.
  std::vector<std::vector<std::vector<int64_t>>> inputs = std::vector<std::vector<std::vector<int64_t>>>(kRanks);
  std::vector<std::vector<int64_t>> results;
  std::vector<size_t> over = std::vector<size_t>(kRanks);
  std::vector<size_t> messages = std::vector<size_t>(kRanks);
};

struct Service {
  std::mutex mutex;  // protects what follows
  std::condition_variable changed;
  std::map<uint32_t, Sessions> sessions;  // by generation
  size_t open = 0;
  using Place = std::pair<uint32_t, uint32_t>;  // generation and rank
  std::map<Place, SessionMover::Opening> openings;
  std::map<Place, std::string> broken;
  std::set<Place> alive;  // that are open
  bool denies_barriers = false;
};

class FalseExecutor : public run::Executor {
 public:
  FalseExecutor(Service& service, uint32_t rank, const SessionMover::Opening& opening)
      : service_(service), rank_(rank), generation_(opening.generation) {
    const std::lock_guard lock(service_.mutex);
    ++service_.open;
    service_.openings[{generation_, rank}] = opening;
    service_.alive.insert({generation_, rank});
  }
  ~FalseExecutor() override {
    const std::lock_guard lock(service_.mutex);
    --service_.open;
    service_.alive.erase({generation_, rank_});
  }
  size_t depth() const override { return 8; }
  void start(const run::Call& call, const run::CallNumbers&) override {
    const std::lock_guard lock(service_.mutex);
    if (service_.denies_barriers && call.kind == run::OperationKind::barrier) {
      throw Error(ErrorCode::invalid_usage, "the rules deny barriers");
    }
    own().calls[rank_].push_back(call);
    const auto* const input = reinterpret_cast<const int64_t*>(call.send);
    own().inputs[rank_].emplace_back(input, input + call.count);
    service_.changed.notify_all();
  }
  bool advance() override {
    const std::lock_guard lock(service_.mutex);
    if (const auto broken = service_.broken.find({generation_, rank_}); broken != service_.broken.end()) {
      throw Error(ErrorCode::peer_lost, broken->second);
    }
    Sessions& all = own();
    const size_t number = all.over[rank_];
    if (all.calls[rank_].size() == number) return true;
    for (const auto& calls : all.calls) {
      if (calls.size() <= number) return false;
    }
    const run::Call& call = all.calls[rank_][number];
    std::copy_n(result_of(number).begin(), call.count, reinterpret_cast<int64_t*>(call.recv));
    ++all.over[rank_];
    return true;
  }
  void finish(run::Watch& watch) override {
    while (!advance()) {
      watch.waiting_for(rank_);
      sleep([&] { return false; });
    }
  }
  uint64_t start_message(const run::Call&) override {
    const std::lock_guard lock(service_.mutex);
    return ++own().messages[rank_];
  }
  bool advance_messages(std::vector<MessageDone>& done) override {
    const std::lock_guard lock(service_.mutex);
    if (messages_done_ == own().messages[rank_]) return false;
    done.push_back({.ticket = ++messages_done_, .peer = 0});
    return true;
  }
  uint64_t steps() const override {
    const std::lock_guard lock(service_.mutex);
    return own().over[rank_];
  }
  uint32_t waiting_for() const override { return rank_; }
  bool can_do_without(uint32_t) const override { return false; }
  void sleep(const std::function<bool()>& try_again) override {
    if (try_again()) return;
    std::unique_lock lock(service_.mutex);
    service_.changed.wait_for(lock, milliseconds(1));
  }
  void wake() override { service_.changed.notify_all(); }
  run::BackOff back_off() const override { return run::BackOff(true); }
  void break_with(const Error& error) override {
    const std::lock_guard lock(service_.mutex);
    service_.broken[{generation_, rank_}] = error.message();
  }
  std::optional<Error> broken() const override {
    const std::lock_guard lock(service_.mutex);
    const auto found = service_.broken.find({generation_, rank_});
    if (found == service_.broken.end()) return std::nullopt;
    return Error(ErrorCode::peer_lost, found->second);
  }
  run::PlanReviser* reviser() override { return nullptr; }
  run::EventSource* events() override { return nullptr; }
  run::SentBytes sent_bytes() const override { return {.tcp = 10, .shared_memory = 0}; }

 private:
  Sessions& own() const { return service_.sessions[generation_]; }
  const std::vector<int64_t>& result_of(size_t number) {
    std::vector<std::vector<int64_t>>& results = own().results;
    if (number < results.size()) return results[number];
    std::vector<int64_t>& result = results.emplace_back(kCount);
    for (const auto& inputs : own().inputs) {
      for (size_t i = 0; i < inputs[number].size(); ++i) result[i] += inputs[number][i];
    }
    return result;
  }

  Service& service_;
  const uint32_t rank_, generation_;
  size_t messages_done_ = 0;
};

class Moves : public ::testing::Test {
 protected:
  struct Rank {
    std::unique_ptr<MovingExecutor> executor;
    std::deque<std::pair<std::vector<int64_t>, std::vector<int64_t>>> flights;  // given and got
    uint64_t begun = 0, over = 0, steps = 0;
    std::vector<std::string> told;
  };
  void make_ranks(const std::function<void(uint32_t rank, MovingExecutor::Options&)>& change = {}) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      MovingExecutor::Options options{.rank = rank,
                                      .size = kRanks,
                                      .tell = [this](const std::string& text) { tell(text); },
                                      .tell_peers =
                                          [this, rank](const Error& error) {
                                            const std::lock_guard lock(mutex_);
                                            ranks_[rank].told.push_back(error.message());
                                          },
                                      .open =
                                          [this, rank](const SessionMover::Opening& opening, const run::Deadline&) {
                                            return std::make_unique<FalseExecutor>(service_, rank, opening);
                                          },
                                      .first_pause = milliseconds(2),
                                      .longest_pause = milliseconds(4)};
      if (change) change(rank, options);
      ranks_[rank].executor =
          std::make_unique<MovingExecutor>(std::move(options), run::Deadline::after(std::chrono::seconds(10)));
    }
  }
  ~Moves() override {
    for (Rank& rank : ranks_) rank.executor.reset();
    EXPECT_EQ(service_.open, 0) << "sessions are left";
  }

  void tell(const std::string& text) {
    if (delivers_at_once_) {
      for (const Rank& rank : ranks_) {
        if (rank.executor) rank.executor->reviser()->hear(text);
      }
      return;
    }
    const std::lock_guard lock(mutex_);
    for (uint32_t rank = 0; rank < kRanks; ++rank) texts_.push_back({rank, text});
  }
  // One of those on their way, at times without taking it from there. False when there is none.
  bool deliver_any(std::mt19937& random) {
    std::pair<uint32_t, std::string> text;
    {
      const std::lock_guard lock(mutex_);
      if (texts_.empty()) return false;
      const size_t place = random() % texts_.size();
      text = texts_[place];
      if (random() % 8 != 0) texts_.erase(texts_.begin() + static_cast<ptrdiff_t>(place));
    }
    ranks_[text.first].executor->reviser()->hear(text.second);
    return true;
  }
  void succeed(uint32_t rank) {
    std::function<void()> hook;
    {
      const std::lock_guard lock(service_.mutex);
      hook = service_.openings.at({ranks_[rank].executor->generation_of_sessions(), rank}).succeeded;
    }
    hook();
  }
  static int64_t value(uint64_t call, uint32_t rank, size_t i) {
    return static_cast<int64_t>(call * 1000 + (rank + 1) * 17 * (i + 1));
  }
  void begin(uint32_t number) {
    Rank& rank = ranks_[number];
    auto& [given, got] = rank.flights.emplace_back(std::vector<int64_t>(kCount), std::vector<int64_t>(kCount));
    for (size_t i = 0; i < kCount; ++i) given[i] = value(rank.begun, number, i);
    ++rank.begun;
    const run::Call call{.kind = run::OperationKind::all_reduce,
                         .type = element::DataType::int64,
                         .send = reinterpret_cast<const std::byte*>(given.data()),
                         .recv = reinterpret_cast<std::byte*>(got.data()),
                         .count = kCount};
    rank.executor->start(call, run::numbers_of(call));
  }
  bool advance(uint32_t number) {
    Rank& rank = ranks_[number];
    const uint64_t steps = rank.executor->steps();
    EXPECT_GE(steps, rank.steps) << "steps go back";
    rank.steps = steps;
    if (rank.flights.empty() || !rank.executor->advance()) return false;
    expect_right(number);
    return true;
  }
  void expect_right(uint32_t number) {
    Rank& rank = ranks_[number];
    for (size_t i = 0; i < kCount; ++i) {
      int64_t sum = 0;
      for (uint32_t each = 0; each < kRanks; ++each) sum += value(rank.over, each, i);
      ASSERT_EQ(rank.flights.front().second[i], sum)
          << "rank " << number << ", call " << rank.over << ", element " << i;
    }
    rank.flights.pop_front();
    ++rank.over;
  }
  void attend_all() {
    for (const Rank& rank : ranks_) rank.executor->reviser()->attend();
  }
  template <typename Condition>
  void turn_until(const Condition& condition, std::mt19937& random) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "nothing comes of it";
      if (!deliver_any(random)) std::this_thread::sleep_for(std::chrono::microseconds(100));
      attend_all();
    }
  }
  bool all_at(uint32_t generation) {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const Rank& rank) { return rank.executor->generation_of_sessions() >= generation; });
  }
  size_t open() {
    const std::lock_guard lock(service_.mutex);
    return service_.open;
  }

  Service service_;
  std::vector<Rank> ranks_ = std::vector<Rank>(kRanks);
  std::mutex mutex_;  // protects texts_, told
  std::deque<std::pair<uint32_t, std::string>> texts_;
  bool delivers_at_once_ = false;
};

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
        ranks_[rank].executor->reviser()->attend();
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
      ranks_[random_() % kRanks].executor->reviser()->attend();
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
      options.tell_peers = [this](const Error& error) { tell_of(error); };
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
        ranks_[rank].executor->reviser()->attend();
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
      tell = service_.openings.at(place).tell_peers;
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

TEST_F(Moves, ComeWithoutCalls) {
  std::mt19937 random(7);
  make_ranks();
  succeed(2);
  turn_until([&] { return all_at(1) && open() == kRanks; }, random);
  EXPECT_EQ(ranks_[0].executor->sent_bytes().tcp, 20) << "what the sessions before have sent counts";
}

// Each rank says, amid a call, that it may begin others before it waits. None does.
TEST_F(Moves, ComeWhereCallsEndBeforeTheOneThatWasAgreedOn) {
  std::mt19937 random(16);
  make_ranks();
  succeed(1);
  const auto is_on_its_way = [&](const std::string& words) {
    const std::lock_guard lock(mutex_);
    return std::any_of(texts_.begin(), texts_.end(), [&](const auto& text) { return text.second.starts_with(words); });
  };
  turn_until([&] { return is_on_its_way("switch hold 1 "); }, random);
  for (uint32_t rank = 0; rank < kRanks; ++rank) begin(rank);
  turn_until([&] { return is_on_its_way("switch go 1 "); }, random);
  for (uint32_t rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(advance(rank));
  EXPECT_FALSE(all_at(1));
  turn_until([&] { return all_at(1) && open() == kRanks; }, random);
  for (uint32_t rank = 0; rank < kRanks; ++rank) begin(rank);
  for (uint32_t rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(advance(rank));
}

TEST_F(Moves, AreTriedAgainWhereASessionCouldNotBeOpened) {
  std::mt19937 random(8);
  std::atomic<int> refusals{0};
  make_ranks([&](uint32_t rank, MovingExecutor::Options& options) {
    if (rank != 1) return;
    options.open = [&, inner = options.open](const SessionMover::Opening& opening, const run::Deadline& deadline) {
      if (opening.generation > 0 && refusals < 2) {
        ++refusals;
        throw Error(ErrorCode::invalid_usage, "a quota");
      }
      return inner(opening, deadline);
    };
  });
  succeed(0);
  turn_until([&] { return all_at(3) && open() == kRanks; }, random);
  EXPECT_EQ(refusals, 2);
}

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

TEST_F(Moves, TellOfFailuresOfSessionsThatHaveCallsOnly) {
  std::mt19937 random(12);
  make_ranks();
  succeed(1);
  const auto fail = [&](uint32_t generation, const std::string& words) {
    std::function<void(const Error&)> tell;
    {
      const std::lock_guard lock(service_.mutex);
      tell = service_.openings.at({generation, 1}).tell_peers;
    }
    tell(Error(ErrorCode::peer_lost, words));
  };
  const auto is_opened = [&] {
    const std::lock_guard lock(service_.mutex);
    return service_.openings.contains({1, 1});
  };
  turn_until(is_opened, random);
  fail(1, "the next one");
  EXPECT_TRUE(ranks_[1].told.empty()) << "no call is in it";
  turn_until([&] { return all_at(1); }, random);
  EXPECT_EQ(ranks_[1].told, std::vector<std::string>{"the next one"});
  ranks_[1].executor->break_with(Error(ErrorCode::peer_lost, "all"));
  EXPECT_EQ(ranks_[1].executor->broken()->message(), "all");
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
