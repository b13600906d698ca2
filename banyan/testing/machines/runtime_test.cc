// The whole runtime in simulated machines: joining, agents, transports, plans, communicators, as they were compiled,
// under faults that a seed decides. What is watched from outside: nobody waits beyond its deadline, no success with
// wrong data, the error of a rank names a true cause, all who live come to the same end.
//
//   BANYAN_SEED=4711 build/banyan_testing_machines_test --gtest_filter=Runtime.*    # one seed again, and its story
//   BANYAN_SEEDS=2500 build/banyan_testing_machines_test --gtest_filter=Runtime.*   # so many of each test
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <set>
#include <thread>

#include "banyan/compose/planner.h"
#include "banyan/run/communicator/communicator.h"
#include "banyan/testing/machines/machines.h"

namespace banyan::testing::machines {
namespace {

using run::Communicator;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr milliseconds kTimeout{8000};

// What a rank has done, as it tells the test.
struct Story {
  std::string text;     // how it ended
  uint32_t rounds = 0;  // of collectives with the right results
  std::vector<std::string> errors;
  nanoseconds longest{0};       // round, or shrinking
  nanoseconds longest_call{0};  // round
};

// Notes how long a call took, also one that throws.
class Longest {
 public:
  Longest(const Machines& machines, nanoseconds& longest)
      : machines_(machines), longest_(longest), begin_(machines.now()) {}
  ~Longest() { longest_ = std::max(longest_, machines_.now() - begin_); }
  Longest(const Longest&) = delete;
  Longest& operator=(const Longest&) = delete;

 private:
  const Machines& machines_;
  nanoseconds& longest_;
  const nanoseconds begin_;
};

// Rounds of collectives whose results are known. Throws banyan::Error, or std::runtime_error for a wrong result.
class Program {
 public:
  Program(Machines& machines, Communicator& communicator, uint32_t world_rank)
      : machines_(machines), communicator_(communicator), own_(world_rank) {}

  void rounds_until(uint32_t end, Story& story) {
    while (story.rounds < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(machines_.draw(40'000)));
      const Longest watch(machines_, story.longest), call(machines_, story.longest_call);
      round(story.rounds);
      ++story.rounds;
    }
  }

 private:
  void round(uint32_t number) {
    const size_t count = size_t{1} << number % 14;
    std::vector<uint64_t> mine(count), sums(count);
    for (size_t i = 0; i < count; ++i) mine[i] = value(communicator_.rank(), number, i);
    communicator_.all_reduce<uint64_t>(mine, sums);
    for (size_t i = 0; i < count; ++i) {
      uint64_t sum = 0;
      for (uint32_t rank = 0; rank < communicator_.size(); ++rank) sum += value(rank, number, i);
      expect(sums[i] == sum, "all_reduce", number, i);
    }
    std::vector<uint64_t> all(communicator_.size());
    communicator_.all_gather<uint64_t>(std::span(mine).first(1), all);
    for (uint32_t rank = 0; rank < all.size(); ++rank) {
      expect(all[rank] == value(rank, number, 0), "all_gather", number, rank);
    }
  }
  static uint64_t value(uint32_t rank, uint32_t number, size_t i) { return (rank + 1) * 1'000'003 + number * 101 + i; }
  void expect(bool is_right, const char* what, uint32_t number, size_t i) const {
    if (is_right) return;
    throw std::runtime_error("WRONG DATA on rank " + std::to_string(own_) + " by " + what + " of round " +
                             std::to_string(number) + " at " + std::to_string(i));
  }

  Machines& machines_;
  Communicator& communicator_;
  const uint32_t own_;
};

class World {
 public:
  explicit World(uint64_t seed, uint32_t least_ranks = 2)
      : machines_({.seed = seed}), size_(least_ranks + static_cast<uint32_t>(machines_.draw(4))) {
    const auto hosts = 1 + static_cast<uint32_t>(machines_.draw(3));
    for (uint32_t host = 0; host < hosts; ++host) {
      const std::string number = std::to_string(host + 1);
      machines_.add_host({"10.1.0." + number, "10.2.0." + number});
    }
    stories_.resize(size_);
    for (uint32_t rank = 0; rank < size_; ++rank) {
      const uint32_t host = rank == 0 ? 0 : static_cast<uint32_t>(machines_.draw(hosts));
      hosts_.push_back(host);
      machines_.add_process(host, [this, rank] { live(rank); });
    }
  }

  Machines& machines() { return machines_; }
  uint32_t size() const { return size_; }
  uint32_t host_of(uint32_t rank) const { return hosts_[rank]; }
  Story& story(uint32_t rank) { return stories_[rank]; }
  uint32_t rounds = 30;
  bool revises_plans = false;
  uint32_t closes_in_round = UINT32_MAX;  // rank 1: closes its communicator then, and lives on with its agent

  // What kept it from its end, or nothing.
  std::string run() { return machines_.run(); }
  // As by kill -9; the last one who lives is spared.
  void kill(uint32_t rank) {
    uint32_t alive = 0;
    for (uint32_t other = 0; other < size_; ++other) alive += machines_.is_alive(other) ? 1 : 0;
    if (alive < 2 || !machines_.is_alive(rank)) return;
    killed_.insert(rank);
    machines_.kill(rank);
  }
  // For those who look at one seed.
  void print() const {
    std::cout << size_ << " ranks, " << since() << "\n";
    for (uint32_t rank = 0; rank < size_; ++rank) {
      const Story& story = stories_[rank];
      std::cout << "rank " << rank << " on host " << hosts_[rank] << (killed_.contains(rank) ? ", killed" : "") << ": "
                << story.rounds << " rounds, " << story.text << "\n";
      for (const std::string& error : story.errors) std::cout << "  " << error << "\n";
    }
    std::cout << std::flush;
  }
  // Once all have joined, some time within `time`.
  void some_time_within(milliseconds time, std::function<void()> event) {
    const nanoseconds delay(machines_.draw(static_cast<uint64_t>(nanoseconds(time).count())));
    events_.push_back([this, delay, event = std::move(event)] { machines_.after(delay, event); });
  }
  bool was_killed(uint32_t rank) const { return killed_.contains(rank); }

 private:
  Communicator::Options options() const {
    Communicator::Options options;
    options.timeout = options.join_timeout = kTimeout;
    options.revises_plans = revises_plans;
    options.plans = [](const run::RankLayout& layout) { return compose::make_planner({}, layout); };
    return options;
  }

  void live(uint32_t rank) {
    Story& story = stories_[rank];
    try {
      // Never given back: each process has its own.
      auto* const pool = new run::RegionPool();
      const Communicator::Options options = this->options();
      Communicator communicator =
          Communicator::join(*pool, {.url = "tcp://host0:29500", .rank = rank, .size = size_, .name = ""}, options);
      has_joined();
      bool is_new = false;  // made of survivors, which may have come to different rounds
      while (story.rounds < rounds) {
        try {
          if (std::exchange(is_new, false)) story.rounds = least(communicator, story.rounds);
          Program program(machines_, communicator, rank);
          if (rank == 1 && closes_in_round < rounds) {
            program.rounds_until(closes_in_round, story);
            return close(std::move(communicator), story);
          }
          program.rounds_until(rounds, story);
          communicator.finalize();
        } catch (const Error& error) {
          story.errors.push_back(std::string(error.what()) + since());
          const Longest watch(machines_, story.longest);
          communicator = communicator.shrink({}, kTimeout, options);
          is_new = true;
        }
      }
      story.text = "ended";
    } catch (const Error& error) {
      story.text = std::string("ended by ") + error.what() + since();
    } catch (const std::exception& error) {
      story.text = error.what() + since();
    }
  }

  // The agent stays, as that of a process with other communicators does.
  static void close(Communicator communicator, Story& story) {
    const std::shared_ptr<run::JoinedProcesses> job = communicator.shared_job();
    { const Communicator closed = std::move(communicator); }
    std::this_thread::sleep_for(3 * kTimeout);
    story.text = "closed";
  }
  void has_joined() {
    if (++joined_ < size_) return;
    for (const std::function<void()>& event : events_) event();
  }
  static uint32_t least(Communicator& communicator, uint32_t own) {
    std::vector<uint32_t> mine{own}, all{0};
    communicator.all_reduce<uint32_t>(mine, all, element::ReduceOp::min);
    return all.front();
  }
  std::string since() const {
    return " (" + std::to_string(duration_cast<milliseconds>(machines_.now()).count()) + " ms)";
  }

  Machines machines_;
  const uint32_t size_;
  std::vector<uint32_t> hosts_;
  std::vector<Story> stories_;
  std::set<uint32_t> killed_;
  uint32_t joined_ = 0;
  std::vector<std::function<void()>> events_;  // to be planned then
};

uint64_t number_of(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// One world for each seed: of so many, of as many as BANYAN_SEEDS says, or of the one that BANYAN_SEED names.
void for_each_seed(uint64_t seeds, const std::function<std::string(uint64_t seed)>& body) {
  setenv("BANYAN_SECRET", "secret of the simulated world", 1);
  const uint64_t only = number_of("BANYAN_SEED", 0);
  const uint64_t first = only == 0 ? 1 : only, end = only == 0 ? number_of("BANYAN_SEEDS", seeds) : only;
  uint64_t failures = 0;
  for (uint64_t seed = first; seed <= end; ++seed) {
    const std::string wrong = run_world([&]() -> std::string {
      if (only == 0 && std::freopen("/dev/null", "w", stderr) == nullptr) return "/dev/null cannot be opened";
      return body(seed);
    });
    if (wrong.empty()) continue;
    ADD_FAILURE() << "seed " << seed << ": " << wrong;
    if (++failures == 5) break;
  }
}

// All who live have done all rounds, and no rank has had an error that `is_expected` does not know.
std::string expect_all_well(World& world, const std::function<bool(const std::string& error)>& is_expected) {
  std::string wrong = world.run();
  if (std::getenv("BANYAN_SEED") != nullptr) world.print();
  for (uint32_t rank = 0; rank < world.size(); ++rank) {
    const Story& story = world.story(rank);
    const std::string who = " rank " + std::to_string(rank) + " of " + std::to_string(world.size());
    if (!world.was_killed(rank) && (story.text != "ended" || story.rounds != world.rounds)) {
      wrong += who + " came to round " + std::to_string(story.rounds) + ": " + story.text + ";";
    }
    if (story.longest > kTimeout) {
      wrong +=
          who + " was in one call for " + std::to_string(duration_cast<milliseconds>(story.longest).count()) + " ms;";
    }
    for (const std::string& error : story.errors) {
      if (!is_expected(error)) wrong += who + " had: " + error + ";";
    }
  }
  return wrong;
}

TEST(Runtime, GoesOnWithoutTheDeadWheneverTheyDie) {
  for_each_seed(250, [](uint64_t seed) -> std::string {
    World world(seed, 3);
    Machines& machines = world.machines();
    for (uint64_t deaths = 1 + machines.draw(world.size() - 1); deaths > 0; --deaths) {
      world.some_time_within(milliseconds(600),
                             [&] { world.kill(static_cast<uint32_t>(machines.draw(world.size()))); });
    }
    return expect_all_well(world, [](const std::string& error) {
      return error.find("is dead") != std::string::npos || error.find("shrinks the communicator") != std::string::npos;
    });
  });
}

// All connections between two processes break, again and again: those of agents, and the lanes of calls under way.
TEST(Runtime, CarriesOutAllCallsThoughConnectionsAreReset) {
  for_each_seed(60, [](uint64_t seed) -> std::string {
    World world(seed, 3);
    world.revises_plans = true;
    Machines& machines = world.machines();
    for (int resets = 0; resets < 10; ++resets) {
      world.some_time_within(milliseconds(600), [&] {
        machines.reset(static_cast<uint32_t>(machines.draw(world.size())),
                       static_cast<uint32_t>(machines.draw(world.size())));
      });
    }
    return expect_all_well(world, [](const std::string&) { return false; });
  });
}

// A rank that closes its communicator while others call, and lives on: they end with an error that names it, at their
// timeout where plans can be revised, since what it closed may be lost lanes.
TEST(Runtime, EndsCallsWhenARankClosesItsCommunicator) {
  for_each_seed(40, [](uint64_t seed) -> std::string {
    World world(seed, 2);
    world.revises_plans = seed % 2 == 0;
    world.closes_in_round = 5;
    std::string wrong = world.run();
    if (std::getenv("BANYAN_SEED") != nullptr) world.print();
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
  for_each_seed(150, [](uint64_t seed) -> std::string {
    World world(seed, 3);
    Machines& machines = world.machines();
    for (int stops = 0; stops < 5; ++stops) {
      world.some_time_within(milliseconds(600), [&] {
        const auto rank = static_cast<uint32_t>(machines.draw(world.size()));
        machines.stop(rank);
        machines.after(milliseconds(machines.draw(3000)), [&machines, rank] { machines.go_on(rank); });
      });
    }
    return expect_all_well(world, [](const std::string&) { return false; });
  });
}

TEST(Runtime, CarriesOutAllCallsWhateverTheSeed) {
  for_each_seed(100, [](uint64_t seed) -> std::string {
    World world(seed);
    return expect_all_well(world, [](const std::string&) { return false; });
  });
}

}  // namespace
}  // namespace banyan::testing::machines
