// Every order in which three ranks can go over to other plans, with calls under way, wishes that are taken back, a rank
// that is lost and a revision that stops all ranks in between; then long random runs, in which texts come late and more
// than once.

#include <iostream>
#include <iterator>

#include "banyan/run/execute/plan_switch.h"
#include "banyan/run/execute/revision.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using Phase = PlanSwitch::Phase;

constexpr uint32_t kRanks = 3;
constexpr uint32_t kLost = 9;  // the cable that a revision finds lost; those that ranks wish about have their numbers

struct Text {
  uint32_t to = 0;
  std::string text;
  auto operator<=>(const Text&) const = default;
};

// One rank: what its executor would do with a PlanSwitch.
struct Rank {
  explicit Rank(uint32_t rank) : changes(rank, kRanks) {}
  PlanSwitch changes;
  FabricUpdate adopted = {};  // the plans that its next call follows
  uint64_t begun = 0;
  uint64_t over = 0;  // calls that are over here
  bool is_lost = false;
  uint32_t wished = 0;                       // how often: to avoid its cable, to restore it, and so on
  bool has_mended = false;                   // it has said that the lost cable carries again
  std::optional<uint32_t> stopped_for = {};  // a revision
  std::string report = {};                   // in that
  auto operator<=>(const Rank&) const = default;
};

struct World {
  std::vector<Rank> ranks;
  std::set<Text> texts;                       // on their way
  uint64_t over = 0;                          // calls that are over everywhere, as all ranks know
  std::map<uint64_t, uint32_t> generations;   // by call: of the plans by which somebody has begun it
  std::map<uint32_t, FabricUpdate> contents;  // by generation: what somebody has adopted
  uint32_t revisions = 0;                     // that are still to come
  bool has_loss = false;                      // one has found kLost lost
  auto operator<=>(const World&) const = default;
};

struct Limits {
  uint64_t calls = 3;
  uint32_t wishes = 2;  // of the last ranks
  uint32_t steps = 1;   // of each of these
  bool mends = false;   // the last rank says once that what was lost carries again
  std::optional<uint32_t> refuses = {}, lost = {};
  uint32_t revisions = 0;
  uint64_t ahead = 1;       // calls that a rank allows itself when it is asked to hold
  bool rests = true;        // and says so; else calls are made up to the last one of the old plans
  bool ends_apart = false;  // calls are over at one rank after the other, before they are confirmed
};

// What is wrong; empty: nothing.
using Wrong = std::string;

// A move: a name, and what it does.
struct Move {
  std::string name;
  std::function<Wrong(World&)> make;
};

void post(World& world, Rank& from) {
  for (const std::string& text : from.changes.take_texts()) {
    // What only rank 0 listens to is left out for the others.
    const bool is_for_all = !text.starts_with("switch want") && !text.starts_with("switch ready") &&
                            !text.starts_with("switch held") && !text.starts_with("switch rest") &&
                            !text.starts_with("switch drained");
    for (uint32_t to = 0; to < (is_for_all ? kRanks : 1); ++to) world.texts.insert({.to = to, .text = text});
  }
}

Wrong adopt(World& world, Rank& rank, const FabricUpdate& update) {
  rank.adopted = update;
  const auto [found, is_new] = world.contents.emplace(update.generation, update);
  return found->second == update ? "" : "two updates of generation " + std::to_string(update.generation);
}

Wrong begin_call(World& world, Rank& rank) {
  const uint64_t number = rank.begun + 1;
  if (rank.changes.must_go_over(number)) {
    const FabricUpdate update = rank.changes.change()->update;
    rank.changes.gone_over();
    if (Wrong wrong = adopt(world, rank, update); !wrong.empty()) return wrong;
  }
  rank.begun = number;
  const auto [found, is_new] = world.generations.emplace(number, rank.adopted.generation);
  if (found->second == rank.adopted.generation) return "";
  return "call " + std::to_string(number) + " follows generations " + std::to_string(found->second) + " and " +
         std::to_string(rank.adopted.generation);
}

// As restart() of an executor, when all that live have stopped.
Wrong restart(World& world) {
  Revisions revisions(kRanks);
  for (const Rank& rank : world.ranks) revisions.receive(rank.report);
  const uint32_t generation = *world.ranks[0].stopped_for;
  const std::optional<RevisionDecision> decision = revisions.decide(generation);
  if (!decision) return "the ranks do not agree on a revision";
  for (Rank& rank : world.ranks) {
    rank.stopped_for.reset();
    rank.report.clear();
    if (Wrong wrong = adopt(world, rank, decision->update); !wrong.empty()) return wrong;
    post(world, rank);
  }
  // What is over at some ranks the others get by the new plans.
  uint64_t least_over = UINT64_MAX;
  for (const Rank& rank : world.ranks) least_over = std::min(least_over, rank.over);
  world.over = std::max(world.over, least_over);
  for (auto& [call, by] : world.generations) {
    if (call > world.over) by = generation;
  }
  return "";
}

Wrong stop(World& world, Rank& rank, uint32_t generation, bool has_lost_lane = false) {
  const auto& change = rank.changes.change();
  const bool is_decided = change && change->is_agreed() && change->phase <= Phase::going;
  const auto number = static_cast<uint32_t>(&rank - world.ranks.data());
  RevisionReport report{
      .generation = generation, .rank = number, .adopted = is_decided ? change->update : rank.adopted};
  if (has_lost_lane) {
    report.lanes = {{.peer = (number + 1) % kRanks, .cables = {kLost}, .is_lost = true, .silent_ms = 2000}};
  }
  rank.report = report.encode();
  rank.stopped_for = generation;
  rank.changes.interrupt(generation);
  for (uint32_t to = 0; to < kRanks; ++to) {
    world.texts.insert({.to = to, .text = "revise " + std::to_string(generation)});
  }
  const bool have_all = std::all_of(world.ranks.begin(), world.ranks.end(),
                                    [&](const Rank& each) { return each.stopped_for == generation; });
  return have_all ? restart(world) : "";
}

Wrong deliver(World& world, const Text& text) {
  Rank& rank = world.ranks[text.to];
  if (text.text.starts_with("revise ")) {
    const auto generation = static_cast<uint32_t>(std::stoul(text.text.substr(7)));
    // As RevisionTalk: what is not newer than what is settled, or than the revision that it is in, calls nobody.
    if (generation <= rank.changes.settled()) return "";
    return stop(world, rank, generation);
  }
  rank.changes.receive(text.text);
  PlanSwitch again = rank.changes;
  again.receive(text.text);
  if (again != rank.changes) return "it matters that '" + text.text + "' came twice";
  post(world, rank);
  return "";
}

using AddMove = std::function<void(const std::string& name, std::function<Wrong(World&, Rank&)> make)>;

// What the rank may do about the change that is under way, or due.
void add_moves_of_change(const World& world, const Limits& limits, uint32_t number, const AddMove& add) {
  const Rank& rank = world.ranks[number];
  const auto& change = rank.changes.change();
  if (rank.changes.can_begin()) {
    add("begins a change", [](World&, Rank& it) {
      it.changes.begin({.adopted = it.adopted, .shapes = {}});
      return "";
    });
  }
  if (change && change->phase == Phase::preparing) {
    add("is ready", [refuses = limits.refuses == number](World&, Rank& it) {
      it.changes.ready(refuses ? "no" : "");
      return "";
    });
  }
  const bool is_idle = rank.over >= rank.begun;
  if (change && change->phase == Phase::asked) {
    const bool is_again = change->is_agreed();
    const uint64_t most = is_again ? (is_idle ? 0 : 1) : limits.ahead;
    for (uint64_t ahead = is_again ? most : 0; ahead <= most; ++ahead) {
      add("holds", [ahead](World&, Rank& it) {
        it.changes.hold(it.begun + ahead);
        return "";
      });
    }
  }
  if (change && change->phase == Phase::draining && world.over >= change->limit) {
    add("has drained", [](World&, Rank& it) {
      it.changes.drained();
      return "";
    });
  }
  const bool waits_for_calls = change && change->phase == Phase::going && rank.begun < change->limit;
  if (limits.rests && waits_for_calls && is_idle && !change->rested) {
    add("rests", [](World&, Rank& it) {
      it.changes.rest(it.begun);
      return "";
    });
  }
}

// Of calls that all have begun: together and known to all, or at one rank after the other, of which all hear at last.
void add_ends(const World& world, const Limits& limits, uint64_t least_begun, std::vector<Move>& moves) {
  if (!limits.ends_apart && world.over < least_begun) {
    moves.push_back({"a call ends", [](World& next) {
                       ++next.over;
                       for (Rank& rank : next.ranks) rank.over = next.over;
                       return Wrong();
                     }});
  }
  if (!limits.ends_apart) return;
  uint64_t least_over = UINT64_MAX;
  for (uint32_t number = 0; number < kRanks; ++number) {
    const Rank& rank = world.ranks[number];
    least_over = std::min(least_over, rank.over);
    if (rank.over >= least_begun) continue;
    moves.push_back({"a call is over at rank " + std::to_string(number), [number](World& next) {
                       ++next.ranks[number].over;
                       return Wrong();
                     }});
  }
  if (world.over < least_over) {
    moves.push_back({"a call is confirmed", [](World& next) {
                       ++next.over;
                       return Wrong();
                     }});
  }
}

// All that can happen next.
std::vector<Move> moves_of(const World& world, const Limits& limits) {
  std::vector<Move> moves;
  for (const Text& text : world.texts) {
    const Rank& rank = world.ranks[text.to];
    // Who is stopped reads later what others say about changes.
    if (rank.is_lost || (rank.stopped_for && !text.text.starts_with("revise "))) continue;
    moves.push_back({"rank " + std::to_string(text.to) + " hears '" + text.text + "'", [text](World& next) {
                       next.texts.erase(text);
                       return deliver(next, text);
                     }});
  }
  uint64_t least_begun = UINT64_MAX;
  bool is_one_lost = false;
  for (const Rank& rank : world.ranks) {
    least_begun = std::min(least_begun, rank.begun);
    is_one_lost |= rank.is_lost;
  }
  for (uint32_t number = 0; number < kRanks; ++number) {
    const Rank& rank = world.ranks[number];
    if (rank.is_lost) continue;
    const auto add = [&](const std::string& name, std::function<Wrong(World&, Rank&)> make) {
      moves.push_back({"rank " + std::to_string(number) + " " + name, [number, make = std::move(make)](World& next) {
                         Wrong wrong = make(next, next.ranks[number]);
                         post(next, next.ranks[number]);
                         return wrong;
                       }});
    };
    if (limits.lost == number) {
      add("is lost", [](World&, Rank& it) {
        it.is_lost = true;
        return "";
      });
    }
    if (rank.stopped_for) continue;
    if (world.revisions > 0 && !is_one_lost) {
      add("loses a lane", [](World& next, Rank& it) {
        --next.revisions;
        next.has_loss = true;
        return stop(next, it, it.changes.latest() + 1, true);
      });
    }
    if (number + limits.wishes >= kRanks && rank.wished < limits.steps) {
      add("wishes", [number](World&, Rank& it) {
        const bool restores = it.wished++ % 2 == 1;
        it.changes.want(restores ? PlanWish{.restored_cables = {number}} : PlanWish{.avoided_cables = {number}});
        return "";
      });
    }
    if (limits.mends && number + 1 == kRanks && !rank.has_mended && rank.adopted.lost_cables.contains(kLost)) {
      add("finds that a cable carries again", [](World&, Rank& it) {
        it.has_mended = true;
        it.changes.want({.mended_cables = {kLost}});
        return "";
      });
    }
    const auto& change = rank.changes.change();
    add_moves_of_change(world, limits, number, add);
    const bool waits_for_calls = change && change->phase == Phase::going && rank.begun < change->limit;
    const bool goes_on = rank.begun < limits.calls || (!limits.rests && waits_for_calls);
    if (goes_on && rank.changes.may_begin(rank.begun + 1)) add("begins a call", begin_call);
    if (rank.changes.must_go_over(rank.begun + 1)) {  // though no call is made
      add("goes over", [](World& next, Rank& it) {
        const FabricUpdate update = it.changes.change()->update;
        it.changes.gone_over();
        return adopt(next, it, update);
      });
    }
  }
  const bool are_stopped = std::any_of(world.ranks.begin(), world.ranks.end(),
                                       [](const Rank& rank) { return rank.stopped_for.has_value(); });
  if (!are_stopped && !is_one_lost) add_ends(world, limits, least_begun, moves);
  return moves;
}

// What is about something that is settled changes nothing any more.
void forget_stale(World& world) {
  std::erase_if(world.texts, [&](const Text& text) {
    const Rank& rank = world.ranks[text.to];
    if (text.text.starts_with("switch want")) return rank.is_lost;
    const size_t number = text.text.find_first_of("0123456789");
    const auto generation = static_cast<uint32_t>(std::stoul(text.text.substr(number)));
    const auto& change = rank.changes.change();
    const bool is_under_way = change && change->update.generation == generation && text.text.starts_with("switch");
    return rank.is_lost || (generation <= rank.changes.settled() && !is_under_way);
  });
}

World begin(const Limits& limits) {
  World world;
  world.revisions = limits.revisions;
  for (uint32_t rank = 0; rank < kRanks; ++rank) world.ranks.emplace_back(rank);
  return world;
}

// Where nothing can happen any more, all calls are over, all wishes are settled, and all ranks agree.
Wrong wrong_at_end(const World& world, const Limits& limits) {
  if (std::any_of(world.ranks.begin(), world.ranks.end(), [](const Rank& rank) { return rank.is_lost; })) return "";
  for (const Rank& rank : world.ranks) {
    if (rank.begun < limits.calls) return "a rank waits for ever with its calls";
    if (rank.changes.change()) return "a change does not end";
    if (rank.stopped_for) return "a revision does not end";
    if (rank.adopted != world.ranks[0].adopted) return "ranks have adopted different updates";
    if (rank.changes.settled() != world.ranks[0].changes.settled()) return "ranks know of different generations";
  }
  std::set<uint32_t> avoided, lost;
  for (uint32_t number = 0; number < kRanks; ++number) {
    if (world.ranks[number].wished % 2 == 1 && !limits.refuses) avoided.insert(number);
  }
  if (world.ranks[0].adopted.avoided_cables != avoided) return "other cables are avoided than ranks have wished for";
  if (world.has_loss && !world.ranks[kRanks - 1].has_mended) lost.insert(kLost);
  if (world.ranks[0].adopted.lost_cables != lost) return "other cables are lost than were found lost";
  return "";
}

// Numbers stand for ranks and texts, which are few, so that many worlds can be remembered.
class Seen {
 public:
  // Whether it is new.
  bool add(const World& world) {
    std::vector<uint32_t> key;
    for (const Rank& rank : world.ranks) key.push_back(number(ranks_, rank));
    key.push_back(static_cast<uint32_t>(world.over));
    key.push_back(world.revisions * 2 + (world.has_loss ? 1 : 0));
    for (const auto& [call, generation] : world.generations) key.push_back(generation);
    key.push_back(UINT32_MAX);
    key.push_back(number(contents_, world.contents));
    for (const Text& text : world.texts) key.push_back(number(texts_, text));
    return worlds_.insert(std::move(key)).second;
  }
  size_t size() const { return worlds_.size(); }

 private:
  template <typename Value>
  static uint32_t number(std::map<Value, uint32_t>& numbers, const Value& value) {
    return numbers.try_emplace(value, static_cast<uint32_t>(numbers.size())).first->second;
  }
  std::map<Rank, uint32_t> ranks_;
  std::map<Text, uint32_t> texts_;
  std::map<std::map<uint32_t, FabricUpdate>, uint32_t> contents_;
  std::set<std::vector<uint32_t>> worlds_;
};

// All have heard `go`, and nobody has begun a call yet.
World begin_with_go(const Limits& limits) {
  World world = begin(limits);
  for (;;) {
    std::vector<Move> moves = moves_of(world, limits);
    const auto next = std::find_if(moves.rbegin(), moves.rend(), [](const Move& move) {
      return move.name.ends_with("'") || move.name.ends_with("wishes") || move.name.ends_with("change") ||
             move.name.ends_with("is ready") || move.name.ends_with("holds");
    });
    if (next == moves.rend()) return world;
    EXPECT_EQ(next->make(world), "");
  }
}

void explore(const Limits& limits, World start) {
  Seen seen;
  struct Step {
    World world;
    std::vector<Move> moves;
  };
  std::vector<Step> path;
  std::vector<std::string> names;
  const auto fail = [&](const Wrong& wrong) {
    std::string story;
    for (const std::string& name : names) story += "\n  " + name;
    FAIL() << wrong << story;
  };
  const auto enter = [&](World world) {
    if (!seen.add(world)) return;
    std::vector<Move> moves = moves_of(world, limits);
    path.push_back({.world = std::move(world), .moves = std::move(moves)});
  };
  enter(std::move(start));
  size_t ends = 0;
  while (!path.empty()) {
    Step& step = path.back();
    names.resize(path.size() - 1);
    if (step.moves.empty()) {
      path.pop_back();
      continue;
    }
    const Move move = std::move(step.moves.back());
    step.moves.pop_back();
    World next = step.world;
    names.push_back(move.name);
    if (const Wrong wrong = move.make(next); !wrong.empty()) return fail(wrong);
    forget_stale(next);
    Limits last = limits;
    last.lost.reset();
    if (World calm = next; calm.revisions = 0, moves_of(calm, last).empty()) {
      ++ends;
      if (const Wrong wrong = wrong_at_end(next, limits); !wrong.empty()) return fail(wrong);
    }
    const size_t depth = path.size();
    enter(std::move(next));
    if (path.size() == depth) names.pop_back();
  }
  EXPECT_GT(ends, 0u);
  std::cout << seen.size() << " states" << std::endl;
}

void explore(const Limits& limits) { explore(limits, begin(limits)); }

// The wish is not told again.
void explore_from_go(Limits limits) {
  World start = begin_with_go(limits);
  limits.wishes = 0;
  for (const Rank& rank : start.ranks) {
    ASSERT_TRUE(rank.changes.change() && rank.changes.change()->phase == Phase::going);
    ASSERT_EQ(rank.changes.change()->limit, limits.ahead);
  }
  explore(limits, std::move(start));
}

TEST(PlanSwitch, GoesOverInAnyOrderOfTwoWishes) { explore({.calls = 1, .wishes = 2, .ahead = 0}); }

TEST(PlanSwitch, TakesBackAWishInAnyOrder) {
  explore({.calls = 0, .wishes = 1, .steps = 2, .ahead = 0, .rests = false});
  explore({.calls = 0, .wishes = kRanks, .steps = 1, .ahead = 0, .rests = false});
}

TEST(PlanSwitch, KeepsWhatIsAvoidedApartFromWhatIsLostInAnyOrder) {
  explore({.calls = 0, .wishes = 1, .steps = 2, .revisions = 1, .ahead = 0, .rests = false});
  explore({.calls = 0, .wishes = 1, .mends = true, .revisions = 1, .ahead = 0, .rests = false});
}

TEST(PlanSwitch, GoesOverAmidCalls) { explore({.calls = 3, .wishes = 1, .rests = false}); }

TEST(PlanSwitch, GoesOverWhereCallsAreOverHereAndNotElsewhere) {
  explore({.calls = 1, .wishes = 1, .ends_apart = true});
  explore_from_go({.calls = 2, .wishes = 1, .rests = false, .ends_apart = true});
  explore_from_go({.calls = 1, .wishes = 1, .revisions = 1, .ends_apart = true});
}

TEST(PlanSwitch, GoesOverWhereCallsEndBeforeTheAgreedOne) {
  explore({.calls = 1, .wishes = 1});
  explore_from_go({.calls = 1, .wishes = 1, .ahead = 2});
}

TEST(PlanSwitch, AdoptsNothingWhereOneRefuses) { explore({.calls = 2, .wishes = 1, .refuses = 1}); }

TEST(PlanSwitch, IsSafeWhenARankIsLost) {
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    explore({.calls = 2, .wishes = 1, .lost = rank, .rests = false});
    explore_from_go({.calls = 1, .wishes = 1, .lost = rank});
  }
}

TEST(PlanSwitch, IsSafeWhenAllAreStoppedForLostLanes) {
  explore({.calls = 1, .wishes = 1, .revisions = 1, .rests = false});
  explore_from_go({.calls = 1, .wishes = 1, .revisions = 1});
}

// Ends when nothing can happen any more; says what was wrong.
Wrong run_randomly(uint64_t seed) {
  std::mt19937_64 random(seed);
  Limits limits{.calls = 40,
                .wishes = 3,
                .mends = true,
                .revisions = static_cast<uint32_t>(seed % 4),
                .ends_apart = seed % 2 == 1};
  World world = begin(limits);
  std::vector<Text> earlier;
  for (int step = 0; step < 100'000; ++step) {
    const bool is_restless = step < 1000;
    if (is_restless && random() % 40 == 0) ++limits.steps;  // each may wish for one more thing
    if (!is_restless) world.revisions = 0;
    // Nobody takes for whole what was lost after a later revision.
    Rank& last = world.ranks.back();
    last.has_mended &= !last.adopted.lost_cables.contains(kLost) || random() % 10 > 0;
    if (is_restless && !earlier.empty() && random() % 5 == 0) {
      world.texts.insert(earlier[random() % earlier.size()]);
    }
    const std::vector<Move> moves = moves_of(world, limits);
    if (moves.empty() && !is_restless) {
      if (!last.has_mended || !last.adopted.lost_cables.contains(kLost)) break;
      last.has_mended = false;
    }
    if (moves.empty()) continue;
    const std::set<Text> before = world.texts;
    if (Wrong wrong = moves[random() % moves.size()].make(world); !wrong.empty()) {
      return "seed " + std::to_string(seed) + ": " + wrong;
    }
    std::set_difference(before.begin(), before.end(), world.texts.begin(), world.texts.end(),
                        std::back_inserter(earlier));
  }
  world.ranks.back().has_mended = true;  // it has said so until nothing was lost
  const Wrong wrong = wrong_at_end(world, limits);
  return wrong.empty() ? "" : "seed " + std::to_string(seed) + ", at its end: " + wrong;
}

TEST(PlanSwitch, IsSafeWhateverTextsComeLateAndAgain) {
  for (uint64_t seed = 0; seed < 300; ++seed) EXPECT_EQ(run_randomly(seed), "");
}

}  // namespace
}  // namespace banyan::run
