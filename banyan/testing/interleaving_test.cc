#include "banyan/testing/interleaving.h"

#include "banyan/testing/test.h"

namespace banyan::testing {
namespace {

RaceDetector detector() {
  return RaceDetector(2, {.step = [](uint32_t step) { return "step " + std::to_string(step); },
                          .place = [](uint32_t place) { return "place " + std::to_string(place); },
                          .mend = ""});
}

// A clock of three actors that has seen each up to these times.
VectorClock clock_at(uint32_t a, uint32_t b, uint32_t c) {
  VectorClock clock(3);
  clock.advance(0, a);
  clock.advance(1, b);
  clock.advance(2, c);
  return clock;
}

TEST(VectorClock, SeesWhatItHasJoined) {
  VectorClock clock = clock_at(2, 0, 1);
  EXPECT_TRUE(clock.has_seen({.actor = 0, .time = 2}));
  EXPECT_FALSE(clock.has_seen({.actor = 0, .time = 3}));
  EXPECT_FALSE(clock.has_seen({.actor = 1, .time = 1}));
  clock.join(clock_at(1, 4, 0));
  EXPECT_TRUE(clock.has_seen({.actor = 0, .time = 2}));
  EXPECT_TRUE(clock.has_seen({.actor = 1, .time = 4}));
  VectorClock first(3);
  first.join_first(clock_at(7, 7, 7), 1);
  EXPECT_EQ(first.at(0), 7u);
  EXPECT_EQ(first.at(1), 0u);
}

TEST(RaceDetector, AcceptsWhatClocksOrder) {
  RaceDetector races = detector();
  races.write(0, {.actor = 0, .time = 1, .step = 1}, clock_at(1, 0, 0));
  races.read(0, {.actor = 1, .time = 1, .step = 2}, clock_at(1, 1, 0));
  races.read(0, {.actor = 2, .time = 1, .step = 3}, clock_at(1, 0, 1));
  EXPECT_NO_THROW(races.write(0, {.actor = 0, .time = 2, .step = 4}, clock_at(2, 1, 1)));
  EXPECT_NO_THROW(races.write(1, {.actor = 2, .time = 2, .step = 5}, clock_at(0, 0, 2)));
}

TEST(RaceDetector, RefusesEachPairThatNothingOrders) {
  const Touch first{.actor = 0, .time = 1, .step = 1}, second{.actor = 1, .time = 1, .step = 2};
  const VectorClock by_first = clock_at(1, 0, 0), by_second = clock_at(0, 1, 0);
  for (const bool write_first : {false, true}) {
    for (const bool write_second : {false, true}) {
      RaceDetector races = detector();
      write_first ? races.write(0, first, by_first) : races.read(0, first, by_first);
      std::string refusal = "accepted";
      try {
        write_second ? races.write(0, second, by_second) : races.read(0, second, by_second);
      } catch (const Error& error) {
        refusal = error.what();
      }
      if (!write_first && !write_second) {
        EXPECT_EQ(refusal, "accepted");
      } else {
        EXPECT_THAT(refusal,
                    AllOf(HasSubstr("place 0"), HasSubstr(write_second ? "step 2 writes it" : "step 2 reads it"),
                          HasSubstr(write_first ? "step 1 writes it" : "step 1 reads it")));
      }
    }
  }
}

TEST(RaceDetector, RemembersEveryReadSinceTheLastWrite) {
  RaceDetector races = detector();
  // Two steps of one actor at one time: threads of a block that have not met. The second must not hide the first.
  races.read(0, {.actor = 0, .time = 1, .step = 1}, clock_at(0, 0, 0));
  races.read(0, {.actor = 0, .time = 1, .step = 2}, clock_at(0, 0, 0));
  EXPECT_THROW(races.write(0, {.actor = 0, .time = 1, .step = 2}, clock_at(0, 0, 0)), Error);
}

TEST(RaceDetector, LetsAStepReadWhatItWrites) {
  RaceDetector races = detector();
  const Touch touch{.actor = 0, .time = 1, .step = 1};
  races.read(0, touch, clock_at(0, 0, 0));
  EXPECT_NO_THROW(races.write(0, touch, clock_at(0, 0, 0)));
}

// Three machines of four moves each; the order in which they moved.
std::vector<uint32_t> order_of(uint64_t seed) {
  std::vector<uint32_t> order, left(3, 4);
  Interleaver interleaver(3, seed);
  const auto stuck = interleaver.run([&](uint32_t machine) {
    if (left[machine] == 0) return Interleaver::finished();
    --left[machine];
    order.push_back(machine);
    return Interleaver::moved();
  });
  EXPECT_TRUE(stuck.empty());
  return order;
}

TEST(Interleaver, OrdersBySeedAlone) {
  std::set<std::vector<uint32_t>> orders;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(order_of(seed).size(), 12u);
    EXPECT_EQ(order_of(seed), order_of(seed));
    orders.insert(order_of(seed));
  }
  EXPECT_GT(orders.size(), 20u);
}

TEST(Interleaver, WakesThoseThatWaitAndNamesThoseThatWaitForEver) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<bool> done(4, false);
    Interleaver interleaver(4, seed);
    // 0 needs 1, 1 needs 2; 2 needs nothing; 3 needs what never comes.
    const auto stuck = interleaver.run([&](uint32_t machine) {
      if (done[machine]) return Interleaver::finished();
      if (machine == 3) return Interleaver::waits_for(99);
      if (machine < 2 && !done[machine + 1]) return Interleaver::waits_for(machine + 1);
      done[machine] = true;
      interleaver.wake(machine);
      return Interleaver::moved();
    });
    EXPECT_THAT(stuck, ElementsAre(3));
    EXPECT_THAT(done, ElementsAre(true, true, true, false));
  }
}

TEST(Interleaver, ShortensLongDeadlocks) {
  std::vector<uint32_t> stuck;
  for (uint32_t i = 0; i < 10; ++i) stuck.push_back(i);
  const auto name = [](uint32_t machine) { return "m" + std::to_string(machine); };
  EXPECT_EQ(describe_deadlock(stuck, name), "deadlock: m0; m1; m2; m3; m4; m5; m6; m7; and 2 more");
}

}  // namespace
}  // namespace banyan::testing
