// The whole runtime in simulated machines, where one allocation or one system call of a rank fails (runtime_test.cc
// says more). Wherever that is: no process ends by it, nobody hangs, nobody gets wrong data, and the others go on.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>

#include "banyan/testing/machines/test_world.h"

namespace banyan::testing::machines {
namespace {

using std::chrono::seconds;

// A number below 2^`bits`, small ones more often.
uint64_t draw_spread(const Machines& machines, uint64_t bits) {
  const uint64_t power = uint64_t{1} << machines.draw(bits);
  return power + machines.draw(power);
}

using Fail = std::function<void(Machines& machines, uint32_t victim)>;

std::string expect_the_others_well(uint64_t seed, const Fail& fail) {
  World world(seed, {.least_ranks = 3, .has_routes = seed % 3 == 0, .revises_plans = seed % 2 == 0});
  Machines& machines = world.machines();
  const auto victim = static_cast<uint32_t>(machines.draw(world.size()));
  fail(machines, victim);
  std::string wrong = world.run();
  if (std::getenv("BANYAN_TEST_SEED") != nullptr) std::cout << "victim: " << victim << "\n";
  for (uint32_t rank = 0; rank < world.size(); ++rank) {
    const Story& story = world.story(rank);
    const std::string who = " rank " + std::to_string(rank) + " of " + std::to_string(world.size());
    if (story.text.empty()) wrong += who + " has no end;";
    if (story.text.find("WRONG DATA") != std::string::npos) wrong += who + ": " + story.text + ";";
    if (rank != victim && world.has_begun() && story.text != "ended") {
      wrong += who + " did not go on after round " + std::to_string(story.rounds) + ": " + story.text + ";";
    }
    wrong += world.waits_beyond(kTimeout + seconds(3), rank);
  }
  return wrong.empty() ? "" : wrong + " (victim: " + std::to_string(victim) + ")";
}

TEST(RuntimeFaults, AnAllocationThatFailsHurtsNobodyElse) {
  for_each_seed(40, [](uint64_t seed) {
    return expect_the_others_well(
        seed, [](Machines& machines, uint32_t victim) { machines.fail_allocation(victim, draw_spread(machines, 15)); });
  });
}

TEST(RuntimeFaults, ASystemCallThatFailsHurtsNobodyElse) {
  for_each_seed(40, [](uint64_t seed) {
    return expect_the_others_well(
        seed, [](Machines& machines, uint32_t victim) { machines.fail_call(victim, draw_spread(machines, 12)); });
  });
}

}  // namespace
}  // namespace banyan::testing::machines
