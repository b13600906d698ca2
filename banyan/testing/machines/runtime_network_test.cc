// The whole runtime in simulated machines, on networks that break and are mended (runtime_test.cc says more).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <set>
#include <string>

#include "banyan/testing/machines/test_world.h"

namespace banyan::testing::machines {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;

// One trouble after the other: a port of a host loses what goes one way, or both, for a while, and is mended before the
// next one.
class Troubles {
 public:
  Troubles(World& world, uint64_t count) : world_(world), left_(count) {
    world.some_time_within(milliseconds(600), [this] { begin(); });
  }

 private:
  void begin() {
    if (left_-- == 0) return;
    Machines& machines = world_.machines();
    const auto host = static_cast<uint32_t>(machines.draw(world_.hosts()));
    const std::string network = World::kNetworks[machines.draw(2)];
    const uint64_t way = machines.draw(3);
    world_.set_port(host, network, way == 0, way == 1);
    machines.after(milliseconds(machines.draw(6000)), [this, host, network] {
      world_.set_port(host, network, true, true);
      world_.machines().after(milliseconds(world_.machines().draw(6000)), [this] { begin(); });
    });
  }

  World& world_;
  uint64_t left_;
};

TEST(RuntimeNetwork, CarriesOutAllCallsWhileThereIsAWay) {
  for_each_seed(15, [](uint64_t seed) {
    World world(seed, {.least_ranks = 3, .has_routes = true, .rounds = 100, .passes_messages = seed % 2 == 0});
    Troubles troubles(world, 4);
    return expect_all_well(world, expects_no_error);
  });
}

// A host has no way at all, for less than the timeout.
TEST(RuntimeNetwork, WaitsOutWhatIsMendedInTime) {
  for_each_seed(15, [](uint64_t seed) {
    World world(seed, {.least_ranks = 3, .has_routes = true, .rounds = 60, .passes_messages = seed % 2 == 0});
    Machines& machines = world.machines();
    world.some_time_within(milliseconds(600), [&] {
      const auto host = static_cast<uint32_t>(machines.draw(world.hosts()));
      for (const char* network : World::kNetworks) {
        world.set_port(host, network, false, false);
        machines.after(milliseconds(500 + machines.draw(2500)),
                       [&world, host, network] { world.set_port(host, network, true, true); });
      }
    });
    return expect_all_well(world, expects_no_error);
  });
}

// What ranks send last is lost on one way, and sent again when they have long said good-bye on the other.
TEST(RuntimeNetwork, BringsTheLastBytesOfWhoHasLeft) {
  for_each_seed(40, [](uint64_t seed) {
    World world(seed, {.has_routes = true, .rounds = 1, .messages = 3});
    Machines& machines = world.machines();
    world.some_time_within(milliseconds(100), [&] {
      const auto host = static_cast<uint32_t>(machines.draw(world.hosts()));
      const std::string network = World::kNetworks[machines.draw(2)];
      world.set_port(host, network, false, true);
      machines.after(milliseconds(300 + machines.draw(1200)),
                     [&world, host, network] { world.set_port(host, network, true, true); });
    });
    return expect_all_well(world, expects_no_error);
  });
}

// Longer than anybody waits. Of the two sides at most one goes on, under the rule that it must be more than half.
TEST(RuntimeNetwork, LetsNoTwoSidesOfAPartitionGoOn) {
  constexpr seconds kShrink{60};
  for_each_seed(20, [&](uint64_t seed) -> std::string {
    World world(seed, {.least_ranks = 3,
                       .rounds = 100,
                       .survivors = "majority",
                       .shrink_timeout = duration_cast<milliseconds>(kShrink)});
    Machines& machines = world.machines();
    std::set<uint32_t> side;  // hosts
    for (uint32_t host = 0; host < world.hosts(); ++host) {
      if (machines.draw(2) == 0) side.insert(host);
    }
    const auto cut = [&world, side](bool is_open) {
      for (uint32_t a = 0; a < world.hosts(); ++a) {
        for (uint32_t b = 0; b < world.hosts(); ++b) {
          if (side.contains(a) != side.contains(b)) world.machines().set_way(a, b, "", is_open);
        }
      }
    };
    const bool heals = machines.draw(2) == 0;
    world.some_time_within(milliseconds(800), [&, cut, heals] {
      cut(false);
      if (heals) machines.after(seconds(10 + machines.draw(60)), [cut] { cut(true); });
    });
    std::string wrong = world.run();
    std::set<bool> sides;  // that have gone on to the end
    bool has_cut = false;
    for (uint32_t rank = 0; rank < world.size(); ++rank) {
      const Story& story = world.story(rank);
      has_cut |= !story.errors.empty();
      if (story.text == "ended") {
        sides.insert(side.contains(world.host_of(rank)));
      } else if (story.text.find("ended by") != 0) {
        wrong += " rank " + std::to_string(rank) + ": " + story.text + ";";
      }
      wrong += world.waits_beyond(kShrink + seconds(5), rank);
    }
    // Where nobody noticed, or it was mended in time, there are no sides.
    if (!heals && has_cut && sides.size() > 1) wrong += " both sides have gone on;";
    return wrong;
  });
}

}  // namespace
}  // namespace banyan::testing::machines
