// Every order in which ranks can begin, end and confirm calls, and stop for revisions amid them, some of which are over
// at a rank before they are confirmed: no rank is left without a result that another one has told its caller of, all
// ranks get the same one, and whoever is to share it still has it. Each rank does what revision.h says; reports and
// decisions are those of the product.

#include <iostream>

#include "banyan/run/execute/revision.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

enum class Phase : uint8_t { none, begun, has_result, is_over };

// What a rank knows of a call.
struct CallHere {
  Phase phase = Phase::none;
  uint32_t round = 0;               // in which it was begun last: others take what it sent from this one
  bool waits_for_share = false;     // for the result from another rank
  bool keeps = false;               // a copy of the result
  bool has_confirmed = false;       // has said that it has the result, in this round
  std::set<uint32_t> heard = {};    // who has said so to it
  std::optional<uint32_t> value{};  // the result: the round in which it was computed
  auto operator<=>(const CallHere&) const = default;
};

struct RankHere {
  std::vector<CallHere> calls;
  uint32_t round = 0;                     // the generation that it has adopted
  std::optional<uint32_t> stopped_for{};  // a later one
  auto operator<=>(const RankHere&) const = default;
};

struct World {
  std::vector<RankHere> ranks;
  std::map<uint32_t, std::map<uint32_t, std::string>> reports = {};  // by generation and rank
  std::map<uint32_t, std::map<uint32_t, uint32_t>> sharers = {};     // by call and generation: who shares its result
  uint32_t revisions = 0;                                            // that may still be begun
  auto operator<=>(const World&) const = default;
};

struct Limits {
  uint32_t ranks = 2;
  std::vector<bool> is_small = {true};  // by call
  uint32_t revisions = 1;
};

using Wrong = std::string;  // empty: nothing is
struct Move {
  std::string name;
  std::function<Wrong(World&)> make;
};

class Explorer {
 public:
  explicit Explorer(const Limits& limits) : limits_(limits) {}

  // "", or the first story that ends badly.
  std::string explore() {
    World start{.ranks = std::vector<RankHere>(limits_.ranks), .revisions = limits_.revisions};
    for (RankHere& rank : start.ranks) rank.calls.resize(limits_.is_small.size());
    seen_.clear();
    seen_.insert(start);
    std::string story = visit(start);
    std::cout << seen_.size() << " states" << std::endl;
    return story;
  }
  // One of the orders, by chance.
  std::string walk(uint64_t seed) {
    std::mt19937_64 random(seed);
    World world{.ranks = std::vector<RankHere>(limits_.ranks), .revisions = limits_.revisions};
    for (RankHere& rank : world.ranks) rank.calls.resize(limits_.is_small.size());
    std::string story = "seed " + std::to_string(seed) + "\n";
    for (;;) {
      const std::vector<Move> moves = moves_of(world);
      if (moves.empty()) break;
      const Move& move = moves[random() % moves.size()];
      story += move.name + "\n";
      if (const Wrong wrong = move.make(world); !wrong.empty()) return story + wrong;
    }
    const Wrong wrong = wrong_at_end(world);
    return wrong.empty() ? "" : story + wrong;
  }
  size_t shares() const { return shares_; }

 private:
  bool is_small(uint32_t call) const { return limits_.is_small[call]; }
  bool is_confirmed(const CallHere& here) const { return here.heard.size() + 1 == limits_.ranks; }
  // It has nothing to do with it any more.
  bool is_through(const CallHere& here) const { return here.phase == Phase::is_over && is_confirmed(here); }

  std::string visit(const World& world) {
    const std::vector<Move> moves = moves_of(world);
    if (moves.empty()) return wrong_at_end(world);
    for (const Move& move : moves) {
      World next = world;
      Wrong wrong = move.make(next);
      if (wrong.empty() && seen_.insert(next).second) wrong = visit(next);
      if (!wrong.empty()) return move.name + "\n" + wrong;
    }
    return "";
  }

  std::vector<Move> moves_of(const World& world) {
    std::vector<Move> moves;
    for (uint32_t r = 0; r < limits_.ranks; ++r) {
      const auto add = [&](const std::string& name, std::function<Wrong(World&, RankHere&)> make) {
        moves.push_back({"rank " + std::to_string(r) + " " + name,
                         [r, make = std::move(make)](World& next) { return make(next, next.ranks[r]); }});
      };
      const RankHere& rank = world.ranks[r];
      add_stops(world, r, add);
      if (rank.stopped_for) continue;
      for (uint32_t c = 0; c < rank.calls.size(); ++c) add_steps(world, r, c, add);
    }
    return moves;
  }

  template <typename Add>
  void add_stops(const World& world, uint32_t r, const Add& add) {
    const RankHere& rank = world.ranks[r];
    const uint32_t known = world.reports.empty() ? 0 : world.reports.rbegin()->first;
    const auto stop = [this, r](World& next, RankHere& it, uint32_t generation) {
      it.stopped_for = generation;
      next.reports[generation][r] = report(it, r, generation).encode();
      return Wrong();
    };
    if (known > std::max(rank.round, rank.stopped_for.value_or(0))) {
      add("is called", [stop, known](World& next, RankHere& it) { return stop(next, it, known); });
    }
    // Who has lost something; also before others have heard how the last generation ended.
    if (world.revisions > 0 && !rank.stopped_for) {
      add("stops", [stop, known](World& next, RankHere& it) {
        --next.revisions;
        return stop(next, it, known + 1);
      });
    }
    if (rank.stopped_for && world.reports.at(*rank.stopped_for).size() == limits_.ranks) {
      add("goes on", [this, r](World& next, RankHere& it) { return restart(next, it, r); });
    }
  }

  template <typename Add>
  void add_steps(const World& world, uint32_t r, uint32_t c, const Add& add) {
    const CallHere& here = world.ranks[r].calls[c];
    const std::string call = " call " + std::to_string(c);
    const auto at = [c](RankHere& it) -> CallHere& { return it.calls[c]; };
    const bool is_next = c == 0 || world.ranks[r].calls[c - 1].phase != Phase::none;
    if (here.phase == Phase::none && is_next) {
      add("begins" + call, [at](World&, RankHere& it) {
        at(it).phase = Phase::begun;
        at(it).round = it.round;
        return "";
      });
    }
    const auto sharers = world.sharers.find(c);
    const bool is_shared = sharers != world.sharers.end() && sharers->second.contains(here.round);
    if (here.waits_for_share) {
      const uint32_t sharer = sharers->second.at(here.round);
      if (world.ranks[sharer].calls[c].round == here.round) {
        add("gets the result of" + call, [at, sharer, c](World& next, RankHere& it) -> Wrong {
          CallHere& mine = at(it);
          mine.waits_for_share = false;
          if (mine.phase == Phase::begun) mine.phase = Phase::has_result;
          const std::optional<uint32_t> value = next.ranks[sharer].calls[c].value;
          if (mine.value && mine.value != value) return "a rank gets another result than it had";
          mine.value = value;
          return "";
        });
      }
    } else if (here.phase == Phase::begun && !is_shared) {
      const bool have_all_begun = std::all_of(world.ranks.begin(), world.ranks.end(), [&](const RankHere& rank) {
        return rank.calls[c].phase != Phase::none && rank.calls[c].round == here.round;
      });
      if (have_all_begun) {
        add("has the result of" + call, [at](World&, RankHere& it) {
          at(it).phase = Phase::has_result;
          at(it).value = at(it).round;
          return "";
        });
      }
    }
    const bool has = here.phase >= Phase::has_result && !here.waits_for_share;
    if (has && !here.has_confirmed) {
      add("confirms" + call, [at](World&, RankHere& it) {
        at(it).has_confirmed = true;
        return "";
      });
    }
    for (uint32_t other = 0; has && other < limits_.ranks; ++other) {
      const CallHere& there = world.ranks[other].calls[c];
      if (other == r || here.heard.contains(other) || !there.has_confirmed || there.round != here.round) continue;
      add("hears rank " + std::to_string(other) + " confirm" + call, [this, at, other](World&, RankHere& it) {
        at(it).heard.insert(other);
        if (is_through(at(it))) at(it).keeps = false;
        return "";
      });
    }
    const bool is_oldest = c == 0 || world.ranks[r].calls[c - 1].phase == Phase::is_over;
    if (here.phase == Phase::has_result && is_oldest && (is_small(c) ? has : is_confirmed(here))) {
      add("tells that it is over,", [this, at](World&, RankHere& it) {
        at(it).phase = Phase::is_over;
        at(it).keeps = !is_confirmed(at(it));
        return "";
      });
    }
  }

  bool is_reported_over(const CallHere& here, uint32_t c) const {
    if (here.phase == Phase::is_over || here.keeps) return true;
    return here.phase == Phase::has_result && (is_confirmed(here) || is_small(c));
  }

  // It keeps what it has for others from now on.
  RevisionReport report(RankHere& rank, uint32_t r, uint32_t generation) const {
    RevisionReport report{.generation = generation, .rank = r};
    bool is_first = true;
    for (uint32_t c = 0; c < rank.calls.size(); ++c) {
      CallHere& here = rank.calls[c];
      if (!is_reported_over(here, c)) {
        is_first = false;
        continue;
      }
      here.keeps |= is_small(c) && here.phase == Phase::has_result;
      if (is_first) {
        report.over = c + 1;
      } else {
        report.also_over.push_back(c + 1);
      }
    }
    return report;
  }

  Wrong restart(World& world, RankHere& rank, uint32_t r) {
    const uint32_t generation = *rank.stopped_for;
    Revisions revisions(limits_.ranks);
    for (const auto& [number, text] : world.reports.at(generation)) revisions.receive(text);
    const RevisionDecision decision = *revisions.decide(generation);
    rank.stopped_for.reset();
    rank.round = generation;
    for (uint32_t c = 0; c < rank.calls.size(); ++c) {
      CallHere& here = rank.calls[c];
      const uint64_t number = c + 1;
      const std::string call = "call " + std::to_string(c);
      const bool has = here.phase == Phase::is_over || here.phase == Phase::has_result || here.keeps;
      if (here.phase == Phase::none) {
        if (decision.is_over(number)) return call + " is over somewhere before all have begun it";
      } else if (decision.is_over_everywhere(number) || (decision.is_over(number) && !is_small(c))) {
        if (!has) return call + " is taken for over without its result";
        if (here.phase == Phase::begun) here.phase = Phase::has_result;
        finish(here, r);
      } else if (decision.is_over(number)) {
        ++shares_;
        if (Wrong wrong = share(world, here, c, *decision.first_over(number), r, generation); !wrong.empty()) {
          return wrong;
        }
      } else {
        if (here.phase == Phase::is_over) return call + " begins again, though its buffers have other uses";
        here = {.phase = Phase::begun, .round = generation};
      }
    }
    return "";
  }

  void finish(CallHere& here, uint32_t r) const {
    here.waits_for_share = here.keeps = false;
    here.has_confirmed = true;
    for (uint32_t other = 0; other < limits_.ranks; ++other) {
      if (other != r) here.heard.insert(other);
    }
  }

  Wrong share(World& world, CallHere& here, uint32_t c, uint32_t root, uint32_t r, uint32_t generation) {
    world.sharers[c][generation] = root;
    if (r == root && !here.keeps) return "rank " + std::to_string(r) + " does not keep what it is to share";
    const bool had = here.phase == Phase::is_over || here.keeps;
    here.round = generation;
    here.has_confirmed = false;
    here.heard.clear();
    here.waits_for_share = r != root;
    if (!had) {
      here.phase = Phase::begun;
      here.value.reset();
    }
    return "";
  }

  Wrong wrong_at_end(const World& world) const {
    for (uint32_t c = 0; c < limits_.is_small.size(); ++c) {
      for (const RankHere& rank : world.ranks) {
        const CallHere& here = rank.calls[c];
        if (here.phase != Phase::is_over) return "call " + std::to_string(c) + " does not end";
        if (here.keeps) return "a copy of call " + std::to_string(c) + " is kept for ever";
        if (!here.value || here.value != world.ranks[0].calls[c].value) return "ranks have different results";
      }
    }
    return "";
  }

  const Limits limits_;
  std::set<World> seen_;
  size_t shares_ = 0;
};

void explore(const Limits& limits) {
  Explorer explorer(limits);
  EXPECT_EQ(explorer.explore(), "");
  EXPECT_GT(explorer.shares(), 0u);
}

TEST(RevisionOrders, OfOneSmallCallOfTwoRanksAndThreeRevisions) { explore({.ranks = 2, .revisions = 3}); }

TEST(RevisionOrders, OfOneSmallCallOfThreeRanksAndTwoRevisions) { explore({.ranks = 3, .revisions = 2}); }

TEST(RevisionOrders, OfSeveralCallsOfTwoRanks) {
  explore({.ranks = 2, .is_small = {true, true}, .revisions = 2});
  explore({.ranks = 2, .is_small = {true, false}, .revisions = 2});
  explore({.ranks = 2, .is_small = {false, true}, .revisions = 2});
}

TEST(RevisionOrders, OfManyCallsAndRevisionsOfFourRanksByChance) {
  Explorer explorer({.ranks = 4, .is_small = {true, false, true, true, false, true}, .revisions = 4});
  for (uint64_t seed = 0; seed < 2000; ++seed) ASSERT_EQ(explorer.walk(seed), "");
  EXPECT_GT(explorer.shares(), 0u);
}

}  // namespace
}  // namespace banyan::run
