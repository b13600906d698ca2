#include "banyan/testing/machines/test_world.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/compose/planner.h"
#include "banyan/run/join/secret.h"

namespace banyan::testing::machines {
namespace {

using run::Communicator;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

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
  Program(Machines& machines, Communicator& communicator, uint32_t world_rank, const World::Options& options)
      : machines_(machines),
        communicator_(communicator),
        own_(world_rank),
        passes_messages_(options.passes_messages),
        exchanges_(options.is_ring) {}

  void rounds_until(uint32_t end, Story& story) {
    while (story.rounds < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(machines_.draw(40'000)));
      const Longest watch(machines_, story.longest), call(machines_, story.longest_call);
      round(story.rounds);
      ++story.rounds;
    }
  }

  void pass_messages(uint32_t count) {
    for (uint32_t number = 0; number < count; ++number) {
      std::this_thread::sleep_for(std::chrono::microseconds(machines_.draw(40'000)));
      pass_message(number, 1, true);
    }
  }

  // Rank 1 takes the messages of rank 0 while that is idle.
  void send_and_idle() {
    constexpr size_t kMessages = 20;
    std::vector<uint64_t> values(kMessages);
    std::vector<run::Call> calls;
    for (size_t i = 0; i < kMessages; ++i) {
      auto* const at = reinterpret_cast<std::byte*>(&values[i]);
      if (own_ == 0) values[i] = value(0, 7, i);
      calls.push_back({.kind = own_ == 0 ? run::OperationKind::send : run::OperationKind::recv,
                       .other = 1 - own_,
                       .send = at,
                       .recv = at,
                       .count = sizeof values[i]});
    }
    if (own_ == 0) wait_for(calls);
    const nanoseconds begin = machines_.now();
    if (own_ == 1) std::this_thread::sleep_for(kIdle / 4);
    if (own_ == 1) wait_for(calls);
    for (size_t i = 0; i < kMessages && own_ == 1; ++i) expect(values[i] == value(0, 7, i), "a message", 7, i);
    if (machines_.now() - begin > kIdle / 2) throw std::runtime_error("messages came late");
    std::this_thread::sleep_for(begin + kIdle - machines_.now());
  }

 private:
  static constexpr std::chrono::seconds kIdle{8};

  void wait_for(std::span<const run::Call> calls) {
    for (run::Request& request : communicator_.start_group(calls)) request.wait();
  }
  void pass_message(uint32_t number, size_t count, bool is_upwards) {
    const uint32_t rank = communicator_.rank(), size = communicator_.size();
    const uint32_t above = (rank + 1) % size, below = (rank + size - 1) % size, from = is_upwards ? below : above;
    std::vector<uint64_t> mine(count), came(count);
    for (size_t i = 0; i < count; ++i) mine[i] = value(rank, number, i);
    const run::Call calls[] = {{.kind = run::OperationKind::send,
                                .other = is_upwards ? above : below,
                                .send = reinterpret_cast<const std::byte*>(mine.data()),
                                .count = count * sizeof mine[0]},
                               {.kind = run::OperationKind::recv,
                                .other = from,
                                .recv = reinterpret_cast<std::byte*>(came.data()),
                                .count = count * sizeof came[0]}};
    wait_for(calls);
    for (size_t i = 0; i < count; ++i) expect(came[i] == value(from, number, i), "a message", number, i);
  }
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
    if (exchanges_) exchange(number);
    for (uint32_t i = 0; passes_messages_ && i < 3; ++i)
      pass_message(number + i, size_t{1} << (number + i) % 14, i > 0);
  }
  // What `from` has for `to`: also nothing, or much.
  static size_t elements_between(uint32_t from, uint32_t to, uint32_t number) {
    return (from * 7 + to * 3 + number) % 4 * (size_t{1} << number % 11);
  }
  // Two all-to-all-vs with an all-to-all and a reduction between them, all of them in flight at once.
  void exchange(uint32_t number) {
    const uint32_t rank = communicator_.rank(), size = communicator_.size();
    const size_t even = 1 + number % 5 * 100;
    std::vector<size_t> sends, comes;
    std::vector<uint64_t> out, even_out(even * size), in, back, even_in(even * size), one{value(rank, number, 0)},
        sum(1);
    for (uint32_t peer = 0; peer < size; ++peer) {
      sends.push_back(elements_between(rank, peer, number));
      comes.push_back(elements_between(peer, rank, number));
      for (size_t i = 0; i < sends.back(); ++i) out.push_back(value(rank, number + peer, i));
      for (size_t i = 0; i < even; ++i) even_out[peer * even + i] = value(rank, number + 2 * peer, i);
      in.resize(in.size() + comes.back());
    }
    back.resize(in.size());
    const auto bytes = [](auto& values) { return reinterpret_cast<std::byte*>(values.data()); };
    const auto uneven = [&](std::vector<uint64_t>& into) {
      return run::Call{.kind = run::OperationKind::all_to_all_v,
                       .type = element::DataType::uint64,
                       .send = bytes(out),
                       .recv = bytes(into),
                       .send_counts = sends,
                       .recv_counts = comes};
    };
    run::Request requests[] = {communicator_.start(uneven(in)),
                               communicator_.start({.kind = run::OperationKind::all_to_all,
                                                    .type = element::DataType::uint64,
                                                    .send = bytes(even_out),
                                                    .recv = bytes(even_in),
                                                    .count = even}),
                               communicator_.start({.kind = run::OperationKind::all_reduce,
                                                    .type = element::DataType::uint64,
                                                    .send = bytes(one),
                                                    .recv = bytes(sum),
                                                    .count = 1}),
                               communicator_.start(uneven(back))};
    for (run::Request& request : requests) request.wait();
    size_t at = 0;
    uint64_t expected = 0;
    for (uint32_t from = 0; from < size; ++from) {
      expected += value(from, number, 0);
      for (size_t i = 0; i < comes[from]; ++i, ++at) {
        expect(in[at] == value(from, number + rank, i) && back[at] == in[at], "all_to_all_v", number, at);
      }
      for (size_t i = 0; i < even; ++i) {
        expect(even_in[from * even + i] == value(from, number + 2 * rank, i), "all_to_all", number, from * even + i);
      }
    }
    expect(sum.front() == expected, "all_reduce", number, 0);
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
  const bool passes_messages_, exchanges_;
};

// The agent stays, as that of a process with other communicators does.
void close(Communicator communicator, Story& story) {
  const std::shared_ptr<run::JoinedProcesses> job = communicator.shared_job();
  { const Communicator closed = std::move(communicator); }
  std::this_thread::sleep_for(3 * kTimeout);
  story.text = "closed";
}

uint32_t least(Communicator& communicator, uint32_t own) {
  std::vector<uint32_t> mine{own}, all{0};
  communicator.all_reduce<uint32_t>(mine, all, element::ReduceOp::min);
  return all.front();
}

uint64_t number_of(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

World::World(uint64_t seed, Options options) : machines_({.seed = seed}), options_(std::move(options)) {
  const uint32_t more = options_.most_ranks == 0 ? 3 : options_.most_ranks - options_.least_ranks;
  size_ = options_.least_ranks + static_cast<uint32_t>(machines_.draw(more + 1));
  hosts_ =
      options_.has_routes ? 2 + static_cast<uint32_t>(machines_.draw(2)) : 1 + static_cast<uint32_t>(machines_.draw(3));
  for (uint32_t host = 0; host < hosts_; ++host) {
    const std::string number = std::to_string(host + 1);
    machines_.add_host({"10.1.0." + number, "10.2.0." + number});
  }
  stories_.resize(size_);
  place_ranks();
  if (options_.has_routes) write_routes();
  if (options_.is_ring) join_in_a_ring();
}

World::~World() {
  if (!routes_.empty()) unlink(routes_.c_str());
}

void World::place_ranks() {
  for (uint32_t rank = 0; rank < size_; ++rank) {
    uint32_t host = rank == 0 ? 0 : static_cast<uint32_t>(machines_.draw(hosts_));
    if (options_.has_routes && rank < hosts_) host = rank;
    host_of_.push_back(host);
    machines_.add_process(host, [this, rank] { live(rank); });
  }
}

// A switch in each host, and one for each network.
void World::write_routes() {
  for (uint32_t rank = 0; rank < size_; ++rank) {
    fabric_ += "r" + std::to_string(rank) + " <-> swh" + std::to_string(host_of_[rank]) + " 10GB/s; ";
  }
  for (uint32_t host = 0; host < hosts_; ++host) {
    for (const char* network : {"1", "2"}) fabric_ += "swh" + std::to_string(host) + " <-> swn" + network + " 1GB/s; ";
  }
  std::string list;
  for (uint32_t a = 0; a < size_; ++a) {
    for (uint32_t b = a + 1; b < size_; ++b) {
      if (host_of_[a] == host_of_[b]) continue;
      for (const char* network : {"1", "2"}) {
        const auto address = [&](uint32_t rank) {
          return std::string("10.") + network + ".0." + std::to_string(host_of_[rank] + 1);
        };
        list += (list.empty() ? "" : ",\n") + std::string("{\"path\": [\"r") + std::to_string(a) + "\", \"swh" +
                std::to_string(host_of_[a]) + "\", \"swn" + network + "\", \"swh" + std::to_string(host_of_[b]) +
                "\", \"r" + std::to_string(b) + "\"], \"addresses\": [\"" + address(a) + "\", \"" + address(b) + "\"]}";
      }
    }
  }
  routes_ = ::testing::TempDir() + "/banyan-simulated-routes-" + std::to_string(getpid());
  write_file(routes_, "{\"banyan\": \"routes/1\", \"routes\": [" + list + "]}");
}

// A line with two ranks.
void World::join_in_a_ring() {
  for (uint32_t rank = 0; rank + (size_ == 2 ? 1 : 0) < size_; ++rank) {
    fabric_ += "r" + std::to_string(rank) + " <-> r" + std::to_string((rank + 1) % size_) + " 1GB/s; ";
  }
}

std::string World::run() {
  std::string wrong = machines_.run();
  if (std::getenv("BANYAN_TEST_SEED") != nullptr) print();
  return wrong;
}

std::string World::waits_beyond(nanoseconds most, uint32_t rank) const {
  const nanoseconds longest = stories_[rank].longest;
  if (longest <= most) return "";
  return " rank " + std::to_string(rank) + " was in one call for " +
         std::to_string(duration_cast<milliseconds>(longest).count()) + " ms;";
}

void World::some_time_within(milliseconds time, std::function<void()> event) {
  const nanoseconds delay(machines_.draw(static_cast<uint64_t>(nanoseconds(time).count())));
  events_.push_back([this, delay, event = std::move(event)] { machines_.after(delay, event); });
}

void World::kill(uint32_t rank) {
  uint32_t alive = 0;
  for (uint32_t other = 0; other < size_; ++other) alive += machines_.is_alive(other) ? 1 : 0;
  if (alive < 2 || !machines_.is_alive(rank)) return;
  killed_.insert(rank);
  machines_.kill(rank);
}

void World::set_port(uint32_t host, const std::string& network, bool sends, bool receives) {
  for (uint32_t other = 0; other < hosts_; ++other) {
    if (other == host) continue;
    machines_.set_way(host, other, network, sends);
    machines_.set_way(other, host, network, receives);
  }
}

void World::print() const {
  std::cout << size_ << " ranks, " << since() << "\n";
  for (uint32_t rank = 0; rank < size_; ++rank) {
    const Story& story = stories_[rank];
    std::cout << "rank " << rank << " on host " << host_of_[rank] << (killed_.contains(rank) ? ", killed" : "") << ": "
              << story.rounds << " rounds, " << story.text << "\n";
    for (const std::string& error : story.errors) std::cout << "  " << error << "\n";
  }
  std::cout << std::flush;
}

Communicator::Options World::communicator_options() const {
  Communicator::Options options;
  options.timeout = options.join_timeout = kTimeout;
  options.revises_plans = options_.revises_plans;
  options.checksums = options_.has_checksums;
  options.has_routes = options_.has_routes;
  options.survivors = run::SurvivorRule::parse(options_.survivors);
  options.plans = [planner = compose::PlannerOptions{.fabric = fabric_, .routes = routes_}](
                      const run::RankLayout& layout) { return compose::make_planner(planner, layout); };
  return options;
}

void World::live(uint32_t rank) {
  Story& story = stories_[rank];
  try {
    // Never given back: each process has its own.
    auto* const pool = new run::RegionPool();
    const Communicator::Options options = communicator_options();
    Communicator communicator =
        Communicator::join(*pool, {.url = "tcp://host0:29500", .rank = rank, .size = size_, .name = ""}, options);
    has_joined();
    bool is_new = false;  // made of survivors, which may have come to different rounds
    while (story.rounds < options_.rounds) {
      try {
        if (std::exchange(is_new, false)) story.rounds = least(communicator, story.rounds);
        Program program(machines_, communicator, rank, options_);
        if (rank == 1 && options_.closes_in_round < options_.rounds) {
          program.rounds_until(options_.closes_in_round, story);
          return close(std::move(communicator), story);
        }
        program.rounds_until(options_.rounds, story);
        program.pass_messages(options_.messages);
        if (options_.idles) program.send_and_idle();
        communicator.finalize();
      } catch (const Error& error) {
        note_error(story, error);
        const Longest watch(machines_, story.longest);
        communicator = communicator.shrink({}, options_.shrink_timeout, options);
        is_new = true;
      }
    }
    story.text = "ended";
  } catch (const Error& error) {
    const Unfailing scope;
    story.text = std::string("ended by ") + error.what() + since();
  } catch (const std::exception& error) {
    const Unfailing scope;
    story.text = error.what() + since();
  }
}

void World::note_error(Story& story, const Error& error) const {
  const Unfailing scope;
  story.errors.push_back(std::string(error.what()) + since());
}

void World::has_joined() {
  const Unfailing scope;
  if (++joined_ < size_) return;
  for (const std::function<void()>& event : events_) event();
}

std::string World::since() const {
  return " (" + std::to_string(duration_cast<milliseconds>(machines_.now()).count()) + " ms)";
}

void set_secret() { setenv("BANYAN_SECRET", "5ec2e70f7e5143a1a7ed0a1d5ec2e70f", 1); }

void for_each_seed(uint64_t seeds, const std::function<std::string(uint64_t seed)>& body) {
  set_secret();
  const uint64_t only = number_of("BANYAN_TEST_SEED", 0);
  const uint64_t first = only == 0 ? 1 : only, end = only == 0 ? number_of("BANYAN_TEST_SEEDS", seeds) : only;
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

std::string expect_all_well(World& world, const std::function<bool(const std::string& error)>& is_expected) {
  std::string wrong = world.run();
  for (uint32_t rank = 0; rank < world.size(); ++rank) {
    const Story& story = world.story(rank);
    const std::string who = " rank " + std::to_string(rank) + " of " + std::to_string(world.size());
    if (!world.was_killed(rank) && (story.text != "ended" || story.rounds != world.options().rounds)) {
      wrong += who + " came to round " + std::to_string(story.rounds) + ": " + story.text + ";";
    }
    wrong += world.waits_beyond(kTimeout, rank);
    for (const std::string& error : story.errors) {
      if (!is_expected(error)) wrong += who + " had: " + error + ";";
    }
  }
  return wrong;
}

}  // namespace banyan::testing::machines
