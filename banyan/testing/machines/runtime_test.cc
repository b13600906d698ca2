// The whole runtime in simulated machines: joining, agents, transports, plans, communicators, as they were compiled,
// under faults that a seed decides. What is watched from outside: nobody waits beyond its deadline, no success with
// wrong data, the error of a rank names a true cause, all who live come to the same end.
//
//   BANYAN_TEST_SEED=4711 build/banyan_testing_machines_test --gtest_filter=Runtime.*   # one seed again, its story
//   BANYAN_TEST_SEEDS=2500 build/banyan_testing_machines_test --gtest_filter=Runtime.*  # so many of each test
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "banyan/testing/machines/test_world.h"

namespace banyan::testing::machines {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Runtime, GoesOnWithoutTheDeadWheneverTheyDie) {
  for_each_seed(100, [](uint64_t seed) -> std::string {
    World world(seed, {.least_ranks = 3});
    Machines& machines = world.machines();
    for (uint64_t deaths = 1 + machines.draw(world.size() - 1); deaths > 0; --deaths) {
      world.some_time_within(milliseconds(600),
                             [&] { world.kill(static_cast<uint32_t>(machines.draw(world.size()))); });
    }
    // Where the host of the dead can only refuse calls, this is believed after 2 s, and no call waits so long.
    return expect_all_well(world, [](const std::string& error) {
      return error.find("is dead") != std::string::npos ||
             error.find("shrinks the communicator") != std::string::npos ||
             error.find("the connection to rank") != std::string::npos;
    });
  });
}

// All connections between two processes break, again and again: those of agents, and the lanes of calls under way.
std::string live_through_resets(uint64_t seed, World::Options options) {
  options.least_ranks = 3;
  options.revises_plans = true;
  options.has_checksums = seed % 2 == 0;
  World world(seed, options);
  Machines& machines = world.machines();
  for (int resets = 0; resets < 10; ++resets) {
    world.some_time_within(milliseconds(600), [&] {
      machines.reset(static_cast<uint32_t>(machines.draw(world.size())),
                     static_cast<uint32_t>(machines.draw(world.size())));
    });
  }
  return expect_all_well(world, expects_no_error);
}

TEST(Runtime, CarriesOutAllCallsThoughConnectionsAreReset) {
  for_each_seed(20, [](uint64_t seed) { return live_through_resets(seed, {}); });
}

TEST(Runtime, CarriesOutAllCallsAndMessagesThoughConnectionsAreReset) {
  for_each_seed(40, [](uint64_t seed) { return live_through_resets(seed, {.passes_messages = true}); });
}

// The same where ranks forward what others exchange, and tell each other first how much of it there is.
TEST(Runtime, CarriesOutAllToAllsOfARingThoughConnectionsAreReset) {
  for_each_seed(
      40, [](uint64_t seed) { return live_through_resets(seed, {.is_ring = true, .passes_messages = seed % 3 == 0}); });
}

// Whoever has sent a message needs to make no call for it to come, though the connections are reset meanwhile.
TEST(Runtime, BringsMessagesWhoseSenderIsIdle) {
  for_each_seed(40, [](uint64_t seed) -> std::string {
    World world(seed, {.rounds = 1, .idles = true, .revises_plans = true});
    Machines& machines = world.machines();
    for (int resets = 0; resets < 4; ++resets) {
      world.some_time_within(milliseconds(1900), [&] { machines.reset(0, 1); });
      world.some_time_within(milliseconds(1900), [&] { machines.reset(1, 0); });
    }
    return expect_all_well(world, expects_no_error);
  });
}

// A rank that closes its communicator while others call, and lives on: they end with an error that names it, at their
// timeout where plans can be revised, since what it closed may be lost lanes.
TEST(Runtime, EndsCallsWhenARankClosesItsCommunicator) {
  for_each_seed(40, [](uint64_t seed) -> std::string {
    World world(seed, {.revises_plans = seed % 2 == 0, .closes_in_round = 5});
    std::string wrong = world.run();
    for (uint32_t rank = 0; rank < world.size(); ++rank) {
      const Story& story = world.story(rank);
      if (rank == 1) continue;
      const std::string error = story.errors.empty() ? "no error" : story.errors.front();
      if (error.find("rank 1") == std::string::npos) wrong += " rank " + std::to_string(rank) + ": " + error;
      if (story.text != "ended") wrong += " rank " + std::to_string(rank) + " did not go on: " + story.text;
      const auto call = duration_cast<milliseconds>(story.longest_call);
      if (call > kTimeout + seconds(2)) {
        wrong += " rank " + std::to_string(rank) + " learnt it after " + std::to_string(call.count()) + " ms";
      }
    }
    return wrong;
  });
}

// A pause of some processes, or of all, that is shorter than the timeout, is nobody's death.
TEST(Runtime, GoesOnWhenProcessesWereStoppedForAWhile) {
  for_each_seed(60, [](uint64_t seed) -> std::string {
    World world(seed, {.least_ranks = 3});
    Machines& machines = world.machines();
    for (int stops = 0; stops < 5; ++stops) {
      world.some_time_within(milliseconds(600), [&] {
        const auto rank = static_cast<uint32_t>(machines.draw(world.size()));
        machines.stop(rank);
        machines.after(milliseconds(machines.draw(3000)), [&machines, rank] { machines.go_on(rank); });
      });
    }
    return expect_all_well(world, expects_no_error);
  });
}

TEST(Runtime, CarriesOutAllCallsWhateverTheSeed) {
  for_each_seed(100, [](uint64_t seed) -> std::string {
    World world(seed, {});
    return expect_all_well(world, expects_no_error);
  });
}

}  // namespace
}  // namespace banyan::testing::machines
