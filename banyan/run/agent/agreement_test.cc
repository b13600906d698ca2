#include "banyan/run/agent/agreement.h"

#include <queue>

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using Clock = Agreement::Clock;

std::vector<uint32_t> all_of(uint32_t size) {
  std::vector<uint32_t> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0u);
  return ranks;
}

// A group whose time and network are simulated: messages between two ranks take a random time and keep their order; the
// stopped read theirs when they go on; of a death the others learn a little later, each at its own time.
class Group {
 public:
  Group(uint32_t size, uint64_t seed)
      : random_(seed), nodes_(size), arrivals_(size, std::vector<Clock::time_point>(size)) {
    for (uint32_t rank = 0; rank < size; ++rank) nodes_[rank].agreement = std::make_unique<Agreement>(rank);
  }

  void at(milliseconds when, std::function<void()> action) { at(start_ + when, std::move(action)); }

  void call(uint32_t rank, milliseconds when, std::vector<uint32_t> excluded = {}) {
    at(when, [this, rank, excluded] {
      act(rank, [this, rank, excluded] {
        nodes_[rank].agreement->call({.epoch = 1,
                                      .candidates = all_of(size()),
                                      .excluded = excluded,
                                      .card = "card " + std::to_string(rank),
                                      .patience = kPatience,
                                      .rule = rule,
                                      .deadline = now_ + kDeadline},
                                     now_);
      });
    });
  }
  void call_all() {
    for (uint32_t rank = 0; rank < size(); ++rank) call(rank, milliseconds(0));
  }

  // When so many messages have been sent, in the middle of a batch if need be.
  void after_letters(uint64_t count, std::function<void()> action) { after_letters_.emplace(count, std::move(action)); }

  void kill(uint32_t rank, milliseconds when) {
    at(when, [this, rank] { kill_now(rank); });
  }
  void kill_now(uint32_t rank) {
    if (std::exchange(nodes_[rank].is_dead, true)) return;
    for (uint32_t other = 0; other < size(); ++other) {
      if (other == rank) continue;
      at(now_ + delay(20'000), [=, this] { act(other, [=, this] { nodes_[other].agreement->gone(rank, now_); }); });
    }
  }
  void stop(uint32_t rank, milliseconds when) {
    at(when, [this, rank] { nodes_[rank].is_stopped = true; });
  }
  void stop_now(uint32_t rank) { nodes_[rank].is_stopped = true; }
  void go_on(uint32_t rank, milliseconds when) {
    at(when, [this, rank] { go_on_now(rank); });
  }
  void go_on_later(uint32_t rank, milliseconds pause) {
    at(now_ + pause, [this, rank] { go_on_now(rank); });
  }
  void go_on_now(uint32_t rank) {
    nodes_[rank].is_stopped = false;
    for (const auto& action : std::exchange(nodes_[rank].held, {})) act(rank, action);
  }

  void run(milliseconds until) {
    while (!events_.empty() && events_.top().when <= start_ + until) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.when;
      event.action();
    }
  }

  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }
  bool is_dead(uint32_t rank) const { return nodes_[rank].is_dead; }
  bool is_stopped(uint32_t rank) const { return nodes_[rank].is_stopped; }
  const Agreement& operator[](uint32_t rank) const { return *nodes_[rank].agreement; }
  // Since the beginning; when its outcome was there.
  milliseconds settled_at(uint32_t rank) const {
    return std::chrono::duration_cast<milliseconds>(nodes_[rank].settled_at - start_);
  }

  static constexpr milliseconds kPatience{1500}, kDeadline{8000};
  SurvivorRule rule;

 private:
  struct Event {
    Clock::time_point when;
    uint64_t number;
    std::function<void()> action;
    bool operator<(const Event& other) const { return std::pair(when, number) > std::pair(other.when, other.number); }
  };
  struct Node {
    std::unique_ptr<Agreement> agreement;
    bool is_dead = false, is_stopped = false;
    std::vector<std::function<void()>> held;
    Clock::time_point settled_at;
    uint64_t tick = 0;
  };

  void at(Clock::time_point when, std::function<void()> action) {
    events_.push({.when = std::max(when, now_), .number = ++next_number_, .action = std::move(action)});
  }
  microseconds delay(int64_t most) { return microseconds(std::uniform_int_distribution<int64_t>(50, most)(random_)); }

  // Lets something happen at a rank, and sends what it says to that.
  void act(uint32_t rank, const std::function<void()>& action) {
    Node& node = nodes_[rank];
    if (node.is_dead) return;
    if (node.is_stopped) {
      node.held.push_back(action);
      return;
    }
    const bool was_settled = node.agreement->survivors() || node.agreement->failure();
    action();
    if (!was_settled && (node.agreement->survivors() || node.agreement->failure())) node.settled_at = now_;
    for (auto& [to, paxos] : node.agreement->take_messages()) {
      for (auto due = after_letters_.extract(sent_); !due.empty(); due = after_letters_.extract(sent_)) due.mapped()();
      if (node.is_dead) return;
      ++sent_;
      const Clock::time_point arrival = std::max(now_ + delay(3000), arrivals_[rank][to]);
      arrivals_[rank][to] = arrival;
      const Agreement::PaxosMessage arriving = Agreement::PaxosMessage::parse(paxos.encode());
      at(arrival, [this, rank, receiver = to, arriving] {
        act(receiver, [=, this] { nodes_[receiver].agreement->received(rank, arriving, now_); });
      });
    }
    const uint64_t tick = ++node.tick;
    if (const auto next = node.agreement->next_tick()) {
      at(*next, [this, rank, tick] {
        if (nodes_[rank].tick == tick) act(rank, [this, rank] { nodes_[rank].agreement->tick(now_); });
      });
    }
  }

  std::mt19937_64 random_;
  Clock::time_point start_ = Clock::time_point(std::chrono::hours(1)), now_ = start_;
  std::vector<Node> nodes_;
  std::vector<std::vector<Clock::time_point>> arrivals_;
  std::priority_queue<Event> events_;
  uint64_t next_number_ = 0, sent_ = 0;
  std::multimap<uint64_t, std::function<void()>> after_letters_;
};

constexpr milliseconds kLong{30'000};

// These have agreed on themselves, and in time.
void expect_agreed(const Group& group, const std::vector<uint32_t>& ranks, milliseconds within) {
  for (const uint32_t rank : ranks) {
    ASSERT_TRUE(group[rank].survivors()) << rank;
    EXPECT_EQ(group[rank].survivors()->ranks, ranks);
    EXPECT_LT(group.settled_at(rank), within);
  }
}

std::vector<uint32_t> all_but(uint32_t one, uint32_t size) {
  std::vector<uint32_t> ranks = all_of(size);
  std::erase(ranks, one);
  return ranks;
}

TEST(Agreement, OfAllTakesAFewRoundTrips) {
  Group group(8, 1);
  group.call_all();
  group.run(kLong);
  expect_agreed(group, all_of(8), milliseconds(30));
  for (uint32_t rank = 0; rank < 8; ++rank) EXPECT_EQ(group[rank].survivors()->cards[5], "card 5");
}

TEST(Agreement, LeavesTheDeadOutWithoutWaiting) {
  Group group(8, 2);
  group.kill(0, milliseconds(0));
  group.kill(5, milliseconds(0));
  for (uint32_t rank = 0; rank < 8; ++rank) group.call(rank, milliseconds(1));
  group.run(kLong);
  expect_agreed(group, {1, 2, 3, 4, 6, 7}, milliseconds(60));
}

TEST(Agreement, WaitsForTheStoppedOnceForItsPatience) {
  for (const uint32_t stopped : {0u, 3u}) {
    SCOPED_TRACE(stopped);
    Group group(4, 3);
    group.stop(stopped, milliseconds(0));
    group.call_all();
    group.run(kLong);
    expect_agreed(group, all_but(stopped, 4), Group::kPatience + milliseconds(50));
  }
}

TEST(Agreement, TellsTheStoppedThatItWasLeftOut) {
  Group group(4, 4);
  group.stop(0, milliseconds(0));
  group.call_all();
  group.go_on(0, milliseconds(5000));
  group.run(kLong);
  ASSERT_TRUE(group[0].failure());
  EXPECT_EQ(group[0].failure()->code(), ErrorCode::peer_lost);
  EXPECT_THAT(group[0].failure()->what(), HasSubstr("this rank was left out of the new group (ranks 1, 2, 3)"));
}

TEST(Agreement, ExcludesWhomAnybodyWantsToExclude) {
  for (const uint32_t excluded : {0u, 2u}) {
    Group group(4, 5);
    for (uint32_t rank = 0; rank < 4; ++rank) {
      group.call(rank, milliseconds(0), rank == 1 ? std::vector<uint32_t>{excluded} : std::vector<uint32_t>{});
    }
    group.run(kLong);
    ASSERT_TRUE(group[excluded].failure());
    EXPECT_EQ(group[excluded].failure()->code(), ErrorCode::peer_lost);
    expect_agreed(group, all_but(excluded, 4), milliseconds(500));
  }
}

TEST(Agreement, IsNotFoundedByOneWhoIsEarly) {
  Group group(5, 6);
  group.call(2, milliseconds(0));
  for (const uint32_t rank : {0u, 1u, 3u, 4u}) group.call(rank, milliseconds(4000 + 10 * rank));
  group.run(kLong);
  for (uint32_t rank = 0; rank < 5; ++rank) {
    ASSERT_TRUE(group[rank].survivors()) << rank << ": " << group[rank].failure()->what();
  }
  EXPECT_EQ(group[2].survivors()->ranks, group[0].survivors()->ranks);
}

TEST(Agreement, NamesWhoHasNotComeWhenThereAreTooFew) {
  Group group(4, 7);
  group.call(1, milliseconds(0));
  group.run(kLong);
  ASSERT_TRUE(group[1].failure());
  EXPECT_EQ(group[1].failure()->code(), ErrorCode::timed_out);
  EXPECT_THAT(group[1].failure()->what(), HasSubstr("have not come to the agreement: ranks 0, 2, 3"));
}

TEST(Agreement, OfTheLastOneHoldsAtOnce) {
  Group group(3, 8);
  group.kill(0, milliseconds(0));
  group.kill(1, milliseconds(0));
  group.call(2, milliseconds(100));
  group.run(kLong);
  ASSERT_TRUE(group[2].survivors());
  EXPECT_THAT(group[2].survivors()->ranks, ElementsAre(2));
}

TEST(SurvivorRule, SaysHowManyThereMustBe) {
  EXPECT_EQ(SurvivorRule::parse("any").least_of(5), 1u);
  EXPECT_EQ(SurvivorRule::parse("majority").least_of(4), 3u);
  EXPECT_EQ(SurvivorRule::parse("majority").least_of(5), 3u);
  EXPECT_EQ(SurvivorRule::parse("2").least_of(5), 2u);
  for (const char* const text : {"", "0", "-1", "3x", "most", "99999999999"}) {
    EXPECT_THROW(SurvivorRule::parse(text), Error) << text;
  }
}

TEST(Agreement, FailsAtOnceWhereTheRuleCannotBeKept) {
  Group group(5, 9);
  group.rule = SurvivorRule::parse("majority");
  for (const uint32_t dead : {1u, 3u, 4u}) group.kill(dead, milliseconds(0));
  for (const uint32_t rank : {0u, 2u}) group.call(rank, milliseconds(100));
  group.run(kLong);
  for (const uint32_t rank : {0u, 2u}) {
    ASSERT_TRUE(group[rank].failure()) << rank;
    EXPECT_EQ(group[rank].failure()->code(), ErrorCode::peer_lost);
    EXPECT_THAT(group[rank].failure()->what(),
                HasSubstr("the rule 'majority' needs 3 of the last group's 5, and rank"));
    EXPECT_THAT(group[rank].failure()->what(), HasSubstr("missing: ranks 1, 3, 4 (dead)"));
    EXPECT_LT(group.settled_at(rank), milliseconds(150));
  }
}

TEST(Agreement, OfTooFewNamesTheRuleAndWhoDidNotCome) {
  Group group(4, 10);
  group.rule = SurvivorRule::parse("3");
  for (const uint32_t rank : {0u, 1u}) group.call(rank, milliseconds(0));
  for (const uint32_t rank : {2u, 3u}) group.stop(rank, milliseconds(0));
  group.run(kLong);
  for (const uint32_t rank : {0u, 1u}) {
    ASSERT_TRUE(group[rank].failure()) << rank;
    EXPECT_EQ(group[rank].failure()->code(), ErrorCode::peer_lost) << group[rank].failure()->what();
    EXPECT_THAT(group[rank].failure()->what(), HasSubstr("3 of the last group's 4"));
  }
  EXPECT_THAT(group[0].failure()->what(), HasSubstr("there must be at least 3"));
  EXPECT_THAT(group[0].failure()->what(), HasSubstr("ranks 2, 3 (did not come)"));
}

// No two that live have different opinions of who belongs together.
void expect_one_opinion(const Group& group, uint64_t seed) {
  for (uint32_t x = 0; x < group.size(); ++x) {
    for (uint32_t y = 0; y < group.size(); ++y) {
      if (group.is_dead(x) || group.is_dead(y) || !group[x].survivors() || !group[y].survivors()) continue;
      const std::vector<uint32_t>& of_x = group[x].survivors()->ranks;
      const std::vector<uint32_t>& of_y = group[y].survivors()->ranks;
      EXPECT_TRUE(std::binary_search(of_x.begin(), of_x.end(), x)) << "seed " << seed;
      if (std::binary_search(of_x.begin(), of_x.end(), y)) {
        EXPECT_EQ(of_x, of_y) << "of ranks " << x << " and " << y << ", seed " << seed;
      }
    }
  }
}

// The ends of the ranks that have called and are not kept from it, counted.
struct Ends {
  uint32_t agreed = 0, failed = 0;

  void count(const Group& group, uint64_t seed) {
    for (uint32_t rank = 0; rank < group.size(); ++rank) {
      if (group.is_dead(rank) || group.is_stopped(rank) || !group[rank].has_called()) continue;
      ASSERT_TRUE(group[rank].survivors() || group[rank].failure()) << "rank " << rank << " hangs, seed " << seed;
      ++(group[rank].survivors() ? agreed : failed);
    }
  }
};

TEST(Agreement, SurvivesDeathsAtAnyMoment) {
  milliseconds longest{0};
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
    Group group(2 + below(9), seed);
    milliseconds last{0};
    for (uint32_t rank = 0; rank < group.size(); ++rank) group.call(rank, milliseconds(below(30)));
    for (uint32_t deaths = below(group.size()); deaths > 0; --deaths) {
      const milliseconds when(below(60));
      group.kill(below(group.size()), when);
      last = std::max(last, when);
    }
    group.run(kLong);
    expect_one_opinion(group, seed);
    for (uint32_t rank = 0; rank < group.size(); ++rank) {
      if (group.is_dead(rank)) continue;
      ASSERT_TRUE(group[rank].survivors()) << "rank " << rank << ", seed " << seed << ": "
                                           << (group[rank].failure() ? group[rank].failure()->what() : "it hangs");
      longest = std::max(longest, group.settled_at(rank) - last);
    }
  }
  EXPECT_LT(longest, milliseconds(400));
}

TEST(Agreement, IsOneWhateverStopsAndDies) {
  Ends ends;
  for (uint64_t seed = 1; seed <= 5000; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
    Group group(2 + below(7), seed);
    for (uint32_t rank = 0; rank < group.size(); ++rank) {
      if (below(20) != 0) group.call(rank, milliseconds(below(8) == 0 ? below(4000) : below(30)));
      if (below(4) == 0) {
        const milliseconds when(below(below(2) == 0 ? 60 : 3000));
        group.stop(rank, when);
        if (below(3) != 0) group.go_on(rank, when + milliseconds(below(below(2) == 0 ? 100 : 12'000)));
      }
      if (below(6) == 0) group.kill(rank, milliseconds(below(below(2) == 0 ? 60 : 3000)));
    }
    group.run(kLong);
    expect_one_opinion(group, seed);
    ASSERT_NO_FATAL_FAILURE(ends.count(group, seed));
  }
  EXPECT_GT(ends.agreed, 10'000u);
  EXPECT_LT(ends.failed, ends.agreed) << "it may be safe, but it is of no use";
}

TEST(Agreement, IsOneWhereverItIsInterrupted) {
  Ends ends;
  for (uint64_t seed = 1; seed <= 20'000; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
    Group group(2 + below(4), seed);
    for (uint32_t rank = 0; rank < group.size(); ++rank) group.call(rank, milliseconds(below(4)));
    for (uint32_t blows = 1 + below(4); blows > 0; --blows) {
      const uint32_t rank = below(group.size()), way = below(4);
      const milliseconds pause(below(2) == 0 ? below(40) : below(6000));
      group.after_letters(below(12 * group.size()), [&group, rank, way, pause] {
        if (way == 0) {
          group.kill_now(rank);
        } else {
          group.stop_now(rank);
          if (way != 1) group.go_on_later(rank, pause);
        }
      });
    }
    group.run(kLong);
    expect_one_opinion(group, seed);
    ASSERT_NO_FATAL_FAILURE(ends.count(group, seed));
  }
  EXPECT_GT(ends.agreed, 30'000u);
  EXPECT_LT(10 * ends.failed, ends.agreed) << "it may be safe, but it is of no use";
}

TEST(AgreementLetter, IsReadAsItWasWritten) {
  Agreement::PaxosMessage paxos{.kind = Agreement::PaxosMessage::Kind::promise, .ballot = uint64_t{7} << 32 | 3};
  paxos.has_announced = true;
  paxos.excluded = {1, 2};
  paxos.gone = {5};
  paxos.card = std::string("a\0b", 3);
  paxos.proposal = {.ballot = 9, .list = {.ranks = {0, 4}, .cards = {"zero", "four"}}};
  const std::string bytes = paxos.encode();
  const Agreement::PaxosMessage read = Agreement::PaxosMessage::parse(bytes);
  EXPECT_EQ(read.encode(), bytes);
  EXPECT_EQ(read.proposal->list.cards[1], "four");
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(Agreement::PaxosMessage::parse(std::string_view(bytes).substr(0, size)), Error) << size;
  }
  EXPECT_THROW(Agreement::PaxosMessage::parse(bytes + "x"), Error);
}

}  // namespace
}  // namespace banyan::run
