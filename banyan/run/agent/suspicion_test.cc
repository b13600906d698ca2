// A whole world of agents in one thread, in a network that loses, parts and resets, with processes that stop, die and
// have wrong clocks: who is concluded dead, who is fenced out, and who may go on.
//
// A seed that fails is a number: BANYAN_TEST_SEED=4711 runs it alone, BANYAN_TEST_SEEDS=10000 that many.

#include <cstdio>

#include "banyan/run/agent/test_simulated_world.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using TimePoint = TimeSource::TimePoint;

constexpr milliseconds kLostAfter = SimulatedWorld::kLostAfter;

uint64_t number_from(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Each seed, or the one that is asked for.
void for_seeds(uint64_t count, const std::function<void(uint64_t seed)>& test) {
  const uint64_t one = number_from("BANYAN_TEST_SEED", 0);
  const uint64_t last = one != 0 ? one : number_from("BANYAN_TEST_SEEDS", count);
  for (uint64_t seed = one != 0 ? one : 1; seed <= last && !::testing::Test::HasFatalFailure(); ++seed) {
    SCOPED_TRACE("to repeat it: BANYAN_TEST_SEED=" + std::to_string(seed));
    test(seed);
  }
}

std::vector<uint32_t> ranks_below(uint32_t size) {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < size; ++rank) ranks.push_back(rank);
  return ranks;
}

// ---- The rule, case by case ----

TEST(Suspicion, ConcludesADeathInMillisecondsWhereTheConnectionWasClosed) {
  for_seeds(100, [](uint64_t seed) {
    SimulatedWorld world(seed, 3);
    world.time().run_for(seconds(1));
    const uint32_t victim = world.draw_rank();
    world.kill(victim);
    world.time().run_for(milliseconds(100));
    ASSERT_EQ(world.wrong_opinions(), "");
    for (const uint32_t rank : world.alive()) ASSERT_TRUE(world.core(rank).liveness().is_certain(victim));
  });
}

TEST(Suspicion, SurvivesAFirewallThatResetsForHalfASecond) {
  for_seeds(100, [](uint64_t seed) {
    SimulatedWorld world(seed, 2);
    world.time().run_for(milliseconds(world.network().draw(300)));
    const uint32_t rank = world.draw_rank();
    world.network().refuse(rank, true);
    world.time().run_for(milliseconds(500));
    world.network().refuse(rank, false);
    world.time().run_for(seconds(10));
    ASSERT_EQ(world.wrong_opinions(), "");
  });
}

TEST(Suspicion, ConcludesNobodyDeadWhoseProcessRunsOnThisHost) {
  for_seeds(50, [](uint64_t seed) {
    SimulatedWorld world(seed, 2, 8, 1, 1);
    world.time().run_for(milliseconds(100));
    world.network().refuse(world.draw_rank(), true);
    world.network().cut({world.draw_rank()});
    world.time().run_for(5 * kLostAfter);
    world.network().heal();
    for (const uint32_t rank : world.alive()) world.network().refuse(rank, false);
    world.time().run_for(seconds(20));
    ASSERT_EQ(world.wrong_opinions(), "");
  });
}

TEST(Suspicion, KeepsThoseWhomOnlyOthersHear) {
  for_seeds(60, [](uint64_t seed) {
    SimulatedWorld world(seed, 3, 8, 1);
    world.time().run_for(milliseconds(100));
    // The hub and one rank cannot reach each other; everybody else can reach both.
    const uint32_t far = 1 + static_cast<uint32_t>(world.network().draw(world.size() - 1));
    world.network().block(0, far, 0);
    if (seed % 2 == 0) world.network().block(far, 0, 0);
    world.time().run_for(4 * kLostAfter);
    ASSERT_EQ(world.wrong_opinions(), "");
  });
}

TEST(Suspicion, KeepsTheStopped) {
  for_seeds(60, [](uint64_t seed) {
    SimulatedWorld world(seed, 2);
    world.time().run_for(milliseconds(100));
    const uint32_t rank = world.draw_rank();
    world.stop(rank);
    for (uint32_t other = 0; other < world.size(); ++other) world.network().reset(rank, other);
    world.time().run_for(4 * kLostAfter);
    for (const uint32_t other : world.alive()) ASSERT_FALSE(world.core(other).liveness().is_gone(rank));
    world.go_on(rank);
    world.time().run_for(seconds(20));
    ASSERT_EQ(world.wrong_opinions(), "");
  });
}

TEST(Suspicion, IsNotMisledByAClockThatJumps) {
  for_seeds(60, [](uint64_t seed) {
    SimulatedWorld world(seed, 2);
    world.time().run_for(milliseconds(100));
    world.network().cut({world.draw_rank()});
    for (int i = 0; i < 10; ++i) {
      const uint32_t rank = world.draw_rank();
      world.some_time_within(seconds(5), [&, rank] { world.clock(rank).jump(2 * kLostAfter); });
    }
    world.time().run_for(seconds(5));
    world.network().heal();
    world.time().run_for(seconds(20));
    ASSERT_EQ(world.wrong_opinions(), "");
  });
}

TEST(Suspicion, FencesOutAHostThatComesBackAndTellsItSo) {
  for_seeds(40, [](uint64_t seed) {
    SimulatedWorld world(seed, 3);
    world.time().run_for(milliseconds(100));
    const uint32_t lost = world.draw_rank();
    bool is_alone = true;
    for (const uint32_t other : world.alive())
      is_alone = is_alone && (other == lost || !world.are_on_one_host(other, lost));
    if (!is_alone) return;
    world.network().cut({lost});
    world.time().run_for(2 * kLostAfter);
    for (const uint32_t rank : world.alive()) {
      ASSERT_TRUE(rank == lost || world.core(rank).liveness().state(lost) == Health::dead) << "rank " << rank;
    }
    world.network().heal();
    world.time().run_for(seconds(20));
    ASSERT_TRUE(world.core(lost).liveness().is_fenced());
    ASSERT_THAT(world.core(lost).liveness().fence(), HasSubstr("not heard of for 30 s) and is fenced out"));
    for (const uint32_t rank : world.alive()) ASSERT_EQ(world.core(rank).liveness().is_fenced(), rank == lost);
  });
}

TEST(Suspicion, GoesRoundAPathThatLosesOneWay) {
  for_seeds(100, [](uint64_t seed) {
    SimulatedWorld world(seed, 2, 8, 2);
    world.time().run_for(seconds(1));
    const uint32_t path = static_cast<uint32_t>(world.network().draw(2));
    for (uint32_t a = 0; a < world.size(); ++a) {
      for (uint32_t b = 0; b < world.size(); ++b) {
        if (a != b && world.network().draw(2) == 0) world.network().block(a, b, path);
      }
    }
    const uint32_t teller = world.draw_rank();
    world.core(teller).queries().broadcast(SimulatedWorld::kGroup, "news");
    world.time().run_for(seconds(3));
    for (const uint32_t rank : world.alive()) ASSERT_THAT(world.texts(rank), ::testing::ElementsAre("news")) << rank;
    world.time().run_for(2 * kLostAfter);
    ASSERT_EQ(world.wrong_opinions(), "");
  });
}

// ---- What agents tell each other ----

TEST(Suspicion, TellsEverybodyEverythingOnceThoughConnectionsBreak) {
  for_seeds(200, [](uint64_t seed) {
    SimulatedWorld world(seed);
    std::vector<std::string> sent;
    for (int i = 0; i < 20; ++i) {
      world.some_time_within(seconds(2), [&] {
        sent.push_back("text " + std::to_string(sent.size()));
        world.core(world.draw_rank()).queries().broadcast(SimulatedWorld::kGroup, sent.back());
      });
      world.some_time_within(seconds(2), [&] { world.network().reset(world.draw_rank(), world.draw_rank()); });
    }
    world.time().run_for(seconds(8));
    ASSERT_EQ(world.wrong_opinions(), "");
    for (const uint32_t rank : world.alive()) {
      ASSERT_THAT(world.texts(rank), ::testing::UnorderedElementsAreArray(sent)) << "rank " << rank;
    }
  });
}

TEST(Suspicion, AnswersQuestionsThoughTheHubDies) {
  for_seeds(200, [](uint64_t seed) {
    SimulatedWorld world(seed, 3, 9);
    world.time().run_for(milliseconds(100));
    const uint32_t asker = 1 + static_cast<uint32_t>(world.network().draw(world.size() - 1));
    std::optional<std::vector<PeerReport>> reports;
    world.some_time_within(milliseconds(10), [&] { world.kill(0); });
    world.some_time_within(milliseconds(10), [&] {
      world.core(asker).queries().ask(SimulatedWorld::kGroup, world.time().now() + seconds(1),
                                      [&](std::vector<PeerReport> found) { reports = std::move(found); });
    });
    world.time().run_for(seconds(2));
    ASSERT_TRUE(reports.has_value());
    for (const uint32_t rank : world.alive()) {
      ASSERT_EQ((*reports)[rank].health, Health::alive) << "rank " << rank << ", asked by " << asker;
      ASSERT_EQ((*reports)[rank].text, "state of " + std::to_string(rank));
    }
  });
}

// ---- Whatever happens ----

// Watches from outside who could reach whom, and what came of that.
class Watcher {
 public:
  explicit Watcher(SimulatedWorld& world) : world_(world), since_(world.size(), std::vector<TimePoint>(world.size())) {
    for (auto& row : since_) row.assign(world.size(), world.time().now());
    last_ = std::vector(world.size(), std::vector<TimePoint>(world.size()));
    world_.on_changed([this](uint32_t rank, uint32_t other) {
      if (number_from("BANYAN_TEST_SEED", 0) != 0 && world_.is_alive(rank)) {
        const Liveness& liveness = world_.core(rank).liveness();
        const auto time = std::chrono::duration<double>(world_.time().now().time_since_epoch()).count() - 3600;
        std::printf("%7.3f s: at rank %u, rank %u is %s (%s) %s\n", time, rank, other,
                    std::string(to_string(liveness.state(other))).c_str(), liveness.why(other).c_str(),
                    liveness.fence().c_str());
      }
      check(rank, other);
    });
    tick();
  }

  std::string complaints;

 private:
  static constexpr milliseconds kTick{100};
  // Long enough to be noticed: a call may hang that long before it is made again, and questions take their turns.
  static constexpr milliseconds kNoticed{9000};

  bool joins(uint32_t a, uint32_t b) const {
    if (refused.contains(a) || refused.contains(b)) return false;
    for (uint32_t path = 0; path < world_.network().paths(); ++path) {
      if (!world_.network().is_blocked(a, b, path) && !world_.network().is_blocked(b, a, path)) return true;
    }
    return false;
  }

  // Ranks that are reached over others that run.
  std::vector<bool> reached_from(uint32_t from) const {
    std::vector<bool> is_reached(world_.size());
    std::vector<uint32_t> next = {from};
    is_reached[from] = true;
    while (!next.empty()) {
      const uint32_t at = next.back();
      next.pop_back();
      if (world_.is_stopped(at) && at != from) continue;
      for (uint32_t to = 0; to < world_.size(); ++to) {
        if (is_reached[to] || !world_.is_alive(to) || !joins(at, to)) continue;
        is_reached[to] = true;
        next.push_back(to);
      }
    }
    return is_reached;
  }

  // since_: they reach each other since then; last_: when they had done so for long enough the last time.
  void tick() {
    const TimePoint now = world_.time().now();
    for (uint32_t a = 0; a < world_.size(); ++a) {
      const std::vector<bool> is_reached = reached_from(a);
      for (uint32_t b = 0; b < world_.size(); ++b) {
        const bool can_act = world_.is_alive(a) && !world_.is_stopped(a);
        if (!is_reached[b] || !can_act) {
          since_[a][b] = now;
        } else if (now - since_[a][b] >= kNoticed) {
          last_[a][b] = now;
        }
      }
    }
    world_.time().after(kTick, [this] { tick(); });
  }

  void check(uint32_t rank, uint32_t other) {
    if (rank == other || !world_.is_alive(rank)) return;
    const Liveness& liveness = world_.core(rank).liveness();
    if (liveness.state(other) != Health::dead || !world_.is_alive(other)) return;
    if (world_.core(other).liveness().is_fenced() || liveness.is_fenced()) return;  // by its own word
    if (first_.contains(other)) return;  // it had been excluded before; this rank has heard of that
    first_.insert(other);
    const std::string text = "rank " + std::to_string(rank) + " concluded that rank " + std::to_string(other) +
                             " is dead: " + liveness.why(other);
    const bool was_refused = liveness.why(other).find("its port is closed") != std::string::npos;
    if (liveness.is_certain(other) && !was_refused) complaints += text + "; it was certain\n";
    if (liveness.why(other).find("smaller side") != std::string::npos) return;
    // The rule wants a fifteenth of a host that refuses all that time.
    const milliseconds least = was_refused ? kLostAfter / 15 - 2 * kTick : kLostAfter / 3;
    if (world_.time().now() - last_[rank][other] < least) complaints += text + "; it could be reached\n";
  }

  SimulatedWorld& world_;
  std::vector<std::vector<TimePoint>> since_, last_;
  std::set<uint32_t> first_;

 public:
  std::set<uint32_t> refused;
};

// Half a minute of trouble, while a group of all shrinks under the rule `majority`; then all is mended.
struct Trouble {
  explicit Trouble(uint64_t seed)
      : world(seed, 2, 8, 1 + static_cast<uint32_t>(seed / 7 % 3)), watcher(world), outcomes(world.size()) {}

  uint64_t draw(uint64_t n) { return world.network().draw(n); }

  void blow() {
    const uint32_t a = world.draw_rank(), b = world.draw_rank();
    const uint32_t path = static_cast<uint32_t>(draw(world.network().paths()));
    const milliseconds pause(draw(4) == 0 ? draw(100'000) : draw(5000));
    const uint64_t way = draw(8);
    tell(std::vector<std::string>{"reset", "block", "block", "cut", "refuse", "stop", "jump", "kill"}[way] + " " +
         std::to_string(a) + " " + std::to_string(b) + " path " + std::to_string(path) + " for " +
         std::to_string(pause.count()) + " ms");
    switch (way) {
      case 0:
        return world.network().reset(a, b);
      case 1:
      case 2:
        if (a != b) world.network().block(a, b, path);
        return later(pause, [this, a, b, path] { world.network().open(a, b, path); });
      case 3: {
        std::set<uint32_t> side;
        for (uint32_t rank = 0; rank < world.size(); ++rank) {
          if (draw(2) == 0) side.insert(rank);
        }
        world.network().cut(side);
        return later(pause, [this] { world.network().heal(); });
      }
      case 4:
        world.network().refuse(a, true);
        watcher.refused.insert(a);
        return later(milliseconds(draw(1500)), [this, a] {
          world.network().refuse(a, false);
          watcher.refused.erase(a);
        });
      case 5:
        world.stop(a);
        return later(pause, [this, a] { world.go_on(a); });
      case 6:
        if (world.is_alive(a)) world.clock(a).jump(milliseconds(draw(100'000)));
        return;
      default:
        if (draw(3) == 0) world.kill(a);
        return;
    }
  }

  // What happens, where one seed is looked at.
  void tell(const std::string& text) const {
    if (number_from("BANYAN_TEST_SEED", 0) == 0) return;
    const auto time = std::chrono::duration<double>(world.time().now().time_since_epoch()).count() - 3600;
    std::printf("%7.3f s: %s\n", time, text.c_str());
  }

  void later(milliseconds pause, std::function<void()> event) { world.time().after(pause, std::move(event)); }

  void shrink(uint32_t rank) {
    if (!world.is_alive(rank)) return;
    if (world.is_stopped(rank)) return later(milliseconds(50), [this, rank] { shrink(rank); });
    SurvivorQuestion question{.epoch = 9, .candidates = ranks_below(world.size())};
    question.rule = SurvivorRule::parse("majority");
    question.deadline = world.clock(rank).now() + seconds(13);
    Outcome& own = outcomes[rank];
    own.called = world.time().now();
    world.core(rank).membership().agree(question, [this, &own](Membership::Outcome found) {
      own.found = std::move(found);
      own.took = world.time().now() - own.called;
    });
  }

  void run() {
    tell(std::to_string(world.size()) + " ranks, " + std::to_string(world.network().paths()) + " paths");
    for (uint64_t blows = 3 + draw(12); blows > 0; --blows) world.some_time_within(seconds(60), [this] { blow(); });
    const milliseconds begin(draw(60'000));
    for (uint32_t rank = 0; rank < world.size(); ++rank) {
      later(begin + milliseconds(draw(draw(2) == 0 ? 100 : 4000)), [this, rank] { shrink(rank); });
    }
    world.time().run_for(seconds(190));  // every trouble is over
    world.network().heal();
    world.time().run_for(seconds(90));
  }

  struct Outcome {
    TimePoint called{};
    std::optional<Membership::Outcome> found;
    TimePoint::duration took{};
  };
  mutable SimulatedWorld world;
  Watcher watcher;
  std::vector<Outcome> outcomes;
};

// No two groups go on.
void expect_one_group(const Trouble& trouble, uint32_t size) {
  const Survivors* agreed = nullptr;
  for (const Trouble::Outcome& outcome : trouble.outcomes) {
    if (!outcome.found || !outcome.found->survivors) continue;
    const Survivors& own = *outcome.found->survivors;
    ASSERT_GT(2 * own.ranks.size(), size);
    ASSERT_TRUE(agreed == nullptr || own.ranks == agreed->ranks);
    agreed = &own;
  }
}

// How many outcomes were groups, and how many ranks were fenced out.
struct Counts {
  uint64_t groups = 0, fences = 0;
};

void expect_rules_in_trouble(uint64_t seed, Counts& counts) {
  Trouble trouble(seed);
  trouble.run();
  SimulatedWorld& world = trouble.world;
  ASSERT_EQ(trouble.watcher.complaints, "");
  expect_one_group(trouble, world.size());
  std::vector<uint32_t> in;
  for (const uint32_t rank : world.alive()) {
    const Trouble::Outcome& outcome = trouble.outcomes[rank];
    ASSERT_TRUE(outcome.found) << "rank " << rank << " waits for ever";
    counts.groups += outcome.found->survivors ? 1 : 0;
    if (world.core(rank).liveness().is_fenced()) {
      ++counts.fences;
    } else {
      in.push_back(rank);
    }
  }
  // All who are in the world know the same: who is not, is gone.
  for (const uint32_t rank : in) {
    for (uint32_t other = 0; other < world.size(); ++other) {
      const bool is_in = std::find(in.begin(), in.end(), other) != in.end();
      ASSERT_EQ(world.core(rank).liveness().is_gone(other), !is_in)
          << "rank " << other << " at rank " << rank << ": " << world.core(rank).liveness().why(other);
    }
  }
}

TEST(Suspicion, HoldsItsRulesWhateverHappens) {
  Counts counts;
  for_seeds(500, [&](uint64_t seed) { expect_rules_in_trouble(seed, counts); });
  std::printf("%lu outcomes were groups, %lu ranks were fenced out\n", counts.groups, counts.fences);
}

// Two ranks had fences against each other, and each took its side of now for larger than the other's of then.
TEST(Suspicion, HasOneGiveWayOfTwoThatFenceEachOtherOut) {
  Counts counts;
  expect_rules_in_trouble(9295, counts);
  EXPECT_GT(counts.fences, 0u);
}

// ---- Kills at every message ----

struct Kill {
  uint64_t piece = 0;
  uint32_t victim = 0;
};

// A world of `size` shrinks, while ranks are killed at those pieces of messages. How many pieces there were.
uint64_t shrink_while(uint32_t size, uint64_t seed, const std::vector<Kill>& kills) {
  SimulatedWorld world(seed, size, size);
  world.time().run_for(milliseconds(200));
  const uint64_t before = world.network().pieces();
  for (const Kill& kill : kills) {
    world.network().before_piece(kill.piece, [&world, victim = kill.victim] {
      world.network().silence(victim);  // at once; the rest when nothing of it runs any more
      world.time().after({}, [&world, victim] { world.kill(victim); });
    });
  }
  std::vector<std::optional<Membership::Outcome>> outcomes(size);
  for (uint32_t rank = 0; rank < size; ++rank) {
    SurvivorQuestion question{.epoch = 9, .candidates = ranks_below(size)};
    question.deadline = world.time().now() + seconds(13);
    world.core(rank).membership().agree(
        question, [&outcomes, rank](Membership::Outcome outcome) { outcomes[rank] = std::move(outcome); });
  }
  world.time().run_for(seconds(2));
  std::string text;
  for (const Kill& kill : kills) {
    text += "rank " + std::to_string(kill.victim) + " killed at piece " + std::to_string(kill.piece) + "; ";
  }
  const std::vector<uint32_t> alive = world.alive();
  for (const uint32_t rank : alive) {
    EXPECT_TRUE(outcomes[rank] && outcomes[rank]->survivors)
        << text << "rank " << rank << " of " << size << " has none";
    if (!outcomes[rank] || !outcomes[rank]->survivors || !outcomes[alive.front()]) return 0;
    EXPECT_EQ(outcomes[rank]->survivors->ranks, outcomes[alive.front()]->survivors->ranks) << text;
    const std::vector<uint32_t>& ranks = outcomes[rank]->survivors->ranks;
    EXPECT_TRUE(std::includes(ranks.begin(), ranks.end(), alive.begin(), alive.end())) << text;
  }
  EXPECT_EQ(world.wrong_opinions(), "") << text;
  return world.network().pieces() - before;
}

TEST(Kills, AtEveryMessageOfAShrinkLeaveOneGroup) {
  uint64_t kills = 0;
  for (uint32_t size = 2; size <= 4; ++size) {
    const uint64_t pieces = shrink_while(size, 1, {});
    for (uint64_t piece = 0; piece <= pieces && !HasFailure(); ++piece) {
      for (uint32_t victim = 0; victim < size; ++victim, ++kills) shrink_while(size, 1, {{piece, victim}});
    }
  }
  std::printf("%lu kills\n", kills);
}

TEST(Kills, OfTwoAtAnyTwoMessagesOfAShrinkLeaveOneGroup) {
  uint64_t pairs = 0;
  for (uint32_t size = 3; size <= 4; ++size) {
    const uint64_t pieces = shrink_while(size, 1, {});
    for (uint64_t first = 0; first <= pieces && !HasFailure(); first += size - 2) {
      for (uint64_t second = first; second <= pieces + 20; second += 2 * size - 5) {
        const auto victim = static_cast<uint32_t>((first + second) % size);
        const uint32_t other = (victim + 1 + static_cast<uint32_t>(second / size) % (size - 1)) % size;
        shrink_while(size, 1, {{first, victim}, {second, other}});
        ++pairs;
      }
    }
  }
  std::printf("%lu pairs of kills\n", pairs);
}

}  // namespace
}  // namespace banyan::run
