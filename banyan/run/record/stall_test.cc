// What a rank that has lost patience can say from a few facts about each rank.
#include "banyan/run/record/stall.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

RankState in(uint32_t rank, uint64_t sequence, uint32_t waits_for = kNoRank, uint32_t step = 0) {
  return {.rank = rank, .sequence = sequence, .state = OperationState::running, .step = step, .waits_for = waits_for};
}
RankState after(uint32_t rank, uint64_t sequence) { return {.rank = rank, .sequence = sequence}; }
RankState with(RankState state, Health health) {
  state.health = health;
  return state;
}

struct Case {
  const char* name;
  std::vector<RankState> states;
  FindingKind kind;
  std::vector<uint32_t> ranks;
  const char* sentence;
};

class StallOf : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(
    Stall, StallOf,
    ::testing::Values(
        Case{"NobodyWaits", {after(0, 4), after(1, 4), after(2, 3)}, FindingKind::none, {}, ""},
        Case{"NoRanks", {}, FindingKind::none, {}, ""},
        Case{"Late",
             {in(0, 17, 3), in(1, 17, 0), after(3, 16)},
             FindingKind::late,
             {3},
             "rank 3 has not called call #17; its last was #16; ranks 0, 1 wait for it"},
        Case{"LateAtTheFirst",
             {in(0, 1, 1), after(1, 0)},
             FindingKind::late,
             {1},
             "rank 1 has not called call #1; it has called nothing yet; rank 0 waits for it"},
        Case{"SeveralAreLate",
             {in(0, 17, 3), after(1, 16), after(3, 16)},
             FindingKind::late,
             {1, 3},
             "ranks 1, 3 have not called call #17; rank 0 waits for them"},
        Case{"LateWhereNobodySaysForWhom",
             {in(0, 17), in(1, 17), after(2, 16)},
             FindingKind::late,
             {2},
             "rank 2 has not called call #17; its last was #16; ranks 0, 1 wait for it"},
        Case{"LateBesideACircle",
             {in(0, 17, 1), in(1, 17, 0), after(2, 16)},
             FindingKind::late,
             {2},
             "rank 2 has not called call #17; its last was #16; ranks 0, 1 wait for it"},
        Case{"LateBesideOneThatNamesNobody",
             {in(0, 17, 1), in(1, 17), after(2, 16)},
             FindingKind::late,
             {2},
             "rank 2 has not called call #17; its last was #16; ranks 0, 1 wait for it"},
        Case{"EndOfAChain",
             {in(0, 17, 1), in(1, 17, 2), in(2, 17, kNoRank, 4)},
             FindingKind::stuck,
             {2},
             "rank 2 is in call #17 and makes no step (step 4); it waits for nobody; ranks 0, 1 wait for it"},
        Case{"LeastStep",
             {in(0, 17, kNoRank, 5), in(1, 17, kNoRank, 3), in(2, 17, kNoRank, 5)},
             FindingKind::stuck,
             {1},
             "rank 1 is in call #17 and makes no step (step 3); it waits for nobody; ranks 0, 2 wait for it"},
        Case{"AllAlike",
             {in(0, 17), in(1, 17)},
             FindingKind::stuck,
             {0, 1},
             "ranks 0, 1 are in call #17 and make no step (step 0); they name nobody they wait for"},
        // Rank 2 could leave #16 early and waits in #17 for one that is still in #16, which waits for a late one.
        Case{"ThroughAnEarlierCall",
             {in(2, 17, 0), in(0, 16, 1), after(1, 15)},
             FindingKind::late,
             {1},
             "rank 1 has not called call #16; its last was #15; ranks 0, 2 wait for it"},
        Case{"Lost",
             {in(0, 17, 1), after(1, 17), after(2, 17)},
             FindingKind::lost,
             {0, 1},
             "rank 0 is in call #17 and waits for rank 1, which has finished that call: what it sent is lost"},
        Case{"LostByOneThatWentOn",
             {in(0, 16, 1, 2), in(1, 17, 0), in(2, 17, 0)},
             FindingKind::lost,
             {0, 1},
             "rank 0 is in call #16 and waits for rank 1, which has finished that call: what it sent is lost"},
        Case{"Circle",
             {in(0, 17, 2, 5), in(1, 17, 0, 4), in(2, 17, 1, 6)},
             FindingKind::circle,
             {0, 1},
             "rank 1 waits for rank 0, which waits for rank 2, which waits for rank 1, in call #17; rank 1 has come "
             "least far (step 4), so what rank 0 sends to it is late or lost"},
        Case{"WaitingForItself",
             {in(0, 17, 0), in(1, 17, 0)},
             FindingKind::stuck,
             {0},
             "rank 0 is in call #17 and makes no step (step 0); it waits for nobody; rank 1 waits for it"},
        Case{"Dead",
             {in(0, 17, 1), with(after(1, 16), Health::dead), after(2, 16)},
             FindingKind::dead,
             {1},
             "rank 1 is dead; its last was #16; rank 0 waits for it in call #17"},
        Case{"SeveralDead",
             {in(0, 17, 1), with(after(1, 16), Health::dead), with(after(2, 16), Health::dead)},
             FindingKind::dead,
             {1, 2},
             "ranks 1, 2 are dead; rank 0 waits for them in call #17"},
        Case{"Silent",
             {in(0, 17, 1), with(in(1, 17, 0), Health::silent)},
             FindingKind::silent,
             {1},
             "rank 1 gives no sign of life (stopped, or cut off); its last was #17; rank 0 waits for it in call #17"},
        Case{"Left",
             {in(0, 17, 1), with(after(1, 16), Health::left)},
             FindingKind::left,
             {1},
             "rank 1 has left; its last was #16; rank 0 waits for it in call #17"},
        Case{"LeftAtTheEnd", {after(0, 16), with(after(1, 16), Health::left)}, FindingKind::none, {}, ""},
        Case{
            "Missing",
            {in(0, 17, 1), with(after(1, 17), Health::unknown)},
            FindingKind::missing,
            {1},
            "nothing is known of rank 1; the last call that others saw of it is #17; rank 0 waits for it in call #17"}),
    [](const auto& case_info) { return case_info.param.name; });

TEST_P(StallOf, IsNamed) {
  const Case& example = GetParam();
  const Stall stall = diagnose_stall(example.states);
  EXPECT_EQ(stall.kind, example.kind) << to_string(stall.kind);
  EXPECT_EQ(stall.ranks, example.ranks);
  EXPECT_EQ(stall.sentence, example.sentence);
}

TEST(Stall, UsesTheRecordsWhereTheyAreKnown) {
  OperationRecord previous{.sequence = 16, .count = 4, .kind = OperationKind::broadcast};
  OperationRecord wanted{
      .sequence = 17, .count = 1024, .kind = OperationKind::all_reduce, .type = element::DataType::float32};
  RankState late = after(3, 16), waiting = in(0, 17, 3);
  late.operation = &previous;
  late.since = 42 * kSecond / 10;
  waiting.operation = &wanted;
  EXPECT_EQ(
      diagnose_stall(std::vector{waiting, late}).sentence,
      "rank 3 has not called allreduce #17 (1024 float32 sum); its last was broadcast #16, finished 4.2 s before; "
      "rank 0 waits for it");
}

TEST(Stall, AMismatchComesFirst) {
  OperationRecord ours{
      .sequence = 17, .count = 1024, .kind = OperationKind::all_reduce, .type = element::DataType::float32};
  OperationRecord theirs = ours;
  theirs.count = 1000;
  std::vector<RankState> states{in(0, 17, 2), in(1, 17, 0), in(2, 17, 1), with(after(3, 16), Health::dead)};
  states[0].operation = states[2].operation = &ours;
  states[1].operation = &theirs;
  const Stall stall = diagnose_stall(states);
  EXPECT_EQ(stall.kind, FindingKind::mismatch);
  EXPECT_THAT(stall.ranks, ElementsAre(1));
  EXPECT_THAT(stall.waiting, ElementsAre(0, 2));
  EXPECT_EQ(
      stall.sentence,
      "rank 1 called allreduce #17 of 1000 float32 sum where ranks 0, 2 called allreduce #17 of 1024 float32 sum: "
      "the counts differ");
}

// Any facts, however contradictory: it ends, names known ranks only, and does not blame those it says wait.
TEST(Stall, EndsOnAnyFacts) {
  uint64_t random = 12345;
  const auto next = [&](uint64_t below) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return (random >> 33) % below;
  };
  for (int round = 0; round < 20'000; ++round) {
    const auto size = static_cast<uint32_t>(1 + next(6));
    std::vector<RankState> states;
    for (uint32_t rank = 0; rank < size; ++rank) {
      states.push_back({.rank = rank,
                        .sequence = next(4),
                        .state = static_cast<OperationState>(next(kOperationStates)),
                        .step = static_cast<uint32_t>(next(3)),
                        .waits_for = next(3) == 0 ? kNoRank : static_cast<uint32_t>(next(size + 1)),
                        .health = next(3) > 0 ? Health::alive : static_cast<Health>(next(kHealths))});
    }
    const Stall stall = diagnose_stall(states);
    ASSERT_EQ(stall.sentence.empty(), stall.kind == FindingKind::none) << "round " << round;
    ASSERT_EQ(stall.ranks.empty(), stall.kind == FindingKind::none) << "round " << round;
    ASSERT_TRUE(std::is_sorted(stall.ranks.begin(), stall.ranks.end())) << "round " << round;
    for (const uint32_t rank : stall.ranks) {
      ASSERT_LT(rank, size) << "round " << round;
      ASSERT_EQ(std::count(stall.waiting.begin(), stall.waiting.end(), rank), 0) << "round " << round;
    }
    const bool anybody_waits =
        std::any_of(states.begin(), states.end(), [](const RankState& state) { return state.is_inside(); });
    if (anybody_waits) {
      ASSERT_NE(stall.kind, FindingKind::none) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace banyan::run
