// A world of ranks that live in simulated machines (machines.h) and make calls whose results are known, with the whole
// runtime as it was compiled, for tests: they let things happen to it, and look at what became of the ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/communicator/communicator.h"
#include "banyan/testing/machines/machines.h"

namespace banyan::testing::machines {

constexpr std::chrono::milliseconds kTimeout{8000};  // of calls

// What a rank has done.
struct Story {
  std::string text;     // how it ended
  uint32_t rounds = 0;  // of collectives with the right results
  std::vector<std::string> errors;
  std::chrono::nanoseconds longest{0};       // round, or shrinking
  std::chrono::nanoseconds longest_call{0};  // round
};

class World {
 public:
  // With routes there are two or three hosts, and two networks between them among which plans choose; every host has a
  // rank. Otherwise there are one to three, and calls go as the system sends them.
  struct Options {
    uint32_t least_ranks = 2, most_ranks = 0;  // 0: three more
    bool has_routes = false;
    uint32_t rounds = 30;
    bool is_ring = false;          // ranks are joined directly, so that all-to-alls are planned, and made in each round
    bool passes_messages = false;  // in each round, from each rank to the next one, or to the one before
    uint32_t messages = 0;         // behind the rounds, likewise; then it leaves
    bool idles = false;  // behind the rounds, rank 0 sends messages, and then all but rank 1 make no call for a while
    bool revises_plans = false, has_checksums = false;
    uint32_t closes_in_round = UINT32_MAX;  // rank 1: closes its communicator then, and lives on with its agent
    std::string survivors = "any";          // who may shrink
    std::chrono::milliseconds shrink_timeout = kTimeout;
  };
  static constexpr const char* kNetworks[] = {"10.1", "10.2"};

  World(uint64_t seed, Options options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Machines& machines() { return machines_; }
  uint32_t size() const { return size_; }
  uint32_t hosts() const { return hosts_; }
  uint32_t host_of(uint32_t rank) const { return host_of_[rank]; }
  const Options& options() const { return options_; }
  const Story& story(uint32_t rank) const { return stories_[rank]; }
  bool has_begun() const { return joined_ == size_; }  // all have joined

  // Once all have joined, some time within `time`.
  void some_time_within(std::chrono::milliseconds time, std::function<void()> event);
  // As by kill -9; the last one who lives is spared.
  void kill(uint32_t rank);
  bool was_killed(uint32_t rank) const { return killed_.contains(rank); }
  // Whether what the host sends into a network arrives, and what is sent to it there.
  void set_port(uint32_t host, const std::string& network, bool sends, bool receives);

  // What kept it from its end, or nothing. Prints its story to those who look at one seed.
  std::string run();
  // A complaint about a rank that was in one call for longer than that, or nothing.
  std::string waits_beyond(std::chrono::nanoseconds most, uint32_t rank) const;

 private:
  void print() const;
  void place_ranks();
  void write_routes();
  void join_in_a_ring();
  run::Communicator::Options communicator_options() const;
  void live(uint32_t rank);
  void has_joined();
  void note_error(Story& story, const Error& error) const;
  std::string since() const;

  Machines machines_;
  const Options options_;
  uint32_t size_ = 0, hosts_ = 0;
  std::vector<uint32_t> host_of_;
  std::string fabric_, routes_;  // as text, and a file
  std::vector<Story> stories_;
  std::set<uint32_t> killed_;
  uint32_t joined_ = 0;
  std::vector<std::function<void()>> events_;  // to be planned then
};

// The secret of the ranks of all worlds to come.
void set_secret();

// One world for each seed: of so many, of as many as BANYAN_TEST_SEEDS says, or of the one that BANYAN_TEST_SEED names.
// `body` says what was wrong.
void for_each_seed(uint64_t seeds, const std::function<std::string(uint64_t seed)>& body);

// Lets the world run. Wrong is: a rank that lives and has not done all rounds, a wait beyond the timeout, and an error
// that `is_expected` does not know.
std::string expect_all_well(World& world, const std::function<bool(const std::string& error)>& is_expected);
inline bool expects_no_error(const std::string& /*error*/) { return false; }

}  // namespace banyan::testing::machines
