// The whole runtime in simulated machines, where a rank is killed at each of its system calls in turn, locks and clocks
// included (runtime_test.cc says more).
//
//   BANYAN_TEST_STEPS=20000 build/banyan_testing_machines_test --gtest_filter=RuntimeKills.*   # so many at most
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "banyan/testing/machines/test_world.h"

namespace banyan::testing::machines {
namespace {

struct Step {
  uint32_t ranks = 0, victim = 0;
  uint64_t call = 0;  // of the victim; 0: it lives
};

World::Options short_life(uint32_t ranks) {
  return {.least_ranks = ranks, .most_ranks = ranks, .rounds = 4, .survivors = "any"};
}

// What was wrong. With `calls`, how many the victim makes.
std::string live_until(const Step& step, uint64_t* calls) {
  World world(step.ranks, short_life(step.ranks));
  Machines& machines = world.machines();
  if (step.call > 0) machines.kill_at_call(step.victim, step.call);
  std::string wrong = world.run();
  if (calls != nullptr) *calls = machines.calls(step.victim);
  for (uint32_t rank = 0; rank < world.size(); ++rank) {
    const Story& story = world.story(rank);
    const std::string who = " rank " + std::to_string(rank);
    if (rank == step.victim && step.call > 0) continue;
    // Who waits for one that never came can only say so.
    const bool is_well = story.text == "ended" || (!world.has_begun() && story.text.find("ended by") == 0);
    if (!is_well) wrong += who + " came to round " + std::to_string(story.rounds) + ": " + story.text + ";";
    for (const std::string& error : story.errors) {
      const bool is_true = error.find("is dead") != std::string::npos || error.find("rank") != std::string::npos;
      if (!is_true) wrong += who + " had: " + error + ";";
    }
    wrong += world.waits_beyond(kTimeout, rank);
  }
  return wrong;
}

uint64_t calls_of(uint32_t ranks, uint32_t victim) {
  uint64_t calls = 0;
  const std::string told = run_world([&] {
    uint64_t count = 0;
    const std::string wrong = live_until({.ranks = ranks, .victim = victim}, &count);
    return wrong.empty() ? std::to_string(count) : "0" + wrong;
  });
  calls = std::strtoull(told.c_str(), nullptr, 10);
  EXPECT_GT(calls, 100u) << told;
  return calls;
}

TEST(RuntimeKills, AtAnyCallOfAnyRankAreSurvived) {
  set_secret();
  const char* const most = std::getenv("BANYAN_TEST_STEPS");
  const uint64_t steps = most == nullptr ? 150 : std::strtoull(most, nullptr, 10);
  uint64_t all = 0, done = 0, failures = 0;
  for (uint32_t ranks = 2; ranks <= 4; ++ranks) {
    for (uint32_t victim = 0; victim < ranks; ++victim) all += calls_of(ranks, victim);
  }
  const uint64_t stride = std::max<uint64_t>(1, all / steps);
  for (uint32_t ranks = 2; ranks <= 4; ++ranks) {
    for (uint32_t victim = 0; victim < ranks; ++victim) {
      const uint64_t calls = calls_of(ranks, victim);
      for (uint64_t call = 1 + victim % stride; call <= calls && failures < 5; call += stride, ++done) {
        const std::string wrong = run_world([&]() -> std::string {
          if (std::freopen("/dev/null", "w", stderr) == nullptr) return "/dev/null cannot be opened";
          return live_until({.ranks = ranks, .victim = victim, .call = call}, nullptr);
        });
        if (wrong.empty()) continue;
        ++failures;
        ADD_FAILURE() << "rank " << victim << " of " << ranks << " killed at its call " << call << ": " << wrong;
      }
    }
  }
  std::printf("%lu of %lu calls\n", done, all);
}

}  // namespace
}  // namespace banyan::testing::machines
