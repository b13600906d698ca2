// A whole world of agents in one thread, in a simulated network, for tests.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "banyan/run/agent/core.h"
#include "banyan/testing/simulated_network.h"

namespace banyan::run {

class SimulatedWorld {
 public:
  using SimulatedNetwork = testing::SimulatedNetwork;
  using SimulatedTime = testing::SimulatedTime;
  using SimulatedClock = testing::SimulatedClock;
  static constexpr std::chrono::milliseconds kLostAfter{30'000};
  static constexpr uint64_t kGroup = 7;  // a communicator

  explicit SimulatedWorld(uint64_t seed, uint32_t least_ranks = 2, uint32_t most_ranks = 8, uint32_t paths = 1,
                          uint32_t hosts = 0)
      : size_(least_ranks + static_cast<uint32_t>(seed % (most_ranks - least_ranks + 1))),
        network_(time_, {.processes = size_, .paths = paths, .seed = seed, .lost_after = kLostAfter / 3}) {
    for (uint32_t rank = 0; rank < size_; ++rank) hosts_.push_back(network_.draw(hosts > 0 ? hosts : 1 + size_ / 2));
    for (uint32_t rank = 0; rank < size_; ++rank) ranks_.push_back(std::make_unique<Rank>(*this, rank));
    for (uint32_t rank = 0; rank < size_; ++rank) {
      time_.after(network_.delay(), [this, rank] {
        if (is_alive(rank)) ranks_[rank]->core.start();
      });
    }
  }

  uint32_t size() const { return size_; }
  SimulatedNetwork& network() { return network_; }
  SimulatedTime& time() { return time_; }
  uint32_t draw_rank() { return static_cast<uint32_t>(network_.draw(size_)); }
  bool is_alive(uint32_t rank) const { return ranks_[rank] != nullptr; }
  bool is_stopped(uint32_t rank) const { return stopped_.contains(rank); }
  bool are_on_one_host(uint32_t a, uint32_t b) const { return hosts_[a] == hosts_[b]; }
  AgentCore& core(uint32_t rank) { return ranks_[rank]->core; }
  SimulatedClock& clock(uint32_t rank) { return ranks_[rank]->clock; }
  // What is called after the health of a rank, or this rank's own fence, has changed at a rank that lives.
  using Changed = std::function<void(uint32_t rank, uint32_t other)>;
  void on_changed(Changed changed) { changed_ = std::move(changed); }
  std::vector<std::string>& texts(uint32_t rank) { return ranks_[rank]->texts; }
  std::vector<uint32_t> alive() const {
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; rank < size_; ++rank) {
      if (is_alive(rank)) ranks.push_back(rank);
    }
    return ranks;
  }
  // Calls `event` at a moment within `time`.
  void some_time_within(std::chrono::milliseconds time, std::function<void()> event) {
    time_.after(
        std::chrono::microseconds(network_.draw(static_cast<uint64_t>(std::chrono::microseconds(time).count()))),
        std::move(event));
  }
  // As by kill -9. The kernel tells the processes of its host.
  void kill(uint32_t rank) {
    if (!is_alive(rank) || alive().size() == 1) return;
    network_.end(rank);
    stopped_.erase(rank);
    ranks_[rank].reset();
    for (uint32_t other = 0; other < size_; ++other) {
      if (hosts_[other] != hosts_[rank]) continue;
      time_.after(network_.delay(), [this, rank, other] {
        network_.deliver_to(other, [this, rank, other] {
          if (is_alive(other) && ranks_[other]->processes.is_watched(rank)) ranks_[other]->core.process_ended(rank);
        });
      });
    }
  }
  // As by SIGSTOP and SIGCONT.
  void stop(uint32_t rank) {
    if (!is_alive(rank)) return;
    stopped_.insert(rank);
    network_.stop(rank);
    clock(rank).stop();
  }
  void go_on(uint32_t rank) {
    if (stopped_.erase(rank) == 0) return;
    network_.go_on(rank);
    clock(rank).go_on();
  }
  // What those who live think of all others, where that is wrong.
  std::string wrong_opinions() {
    std::string text;
    for (const uint32_t rank : alive()) {
      for (uint32_t other = 0; other < size_; ++other) {
        const Health truth = is_alive(other) ? Health::alive : Health::dead;
        const Health opinion = core(rank).liveness().state(other);
        if (opinion == truth) continue;
        text += "rank " + std::to_string(rank) + " takes rank " + std::to_string(other) + " for " +
                std::string(to_string(opinion)) + " (" + core(rank).liveness().why(other) + ")\n";
      }
    }
    return text;
  }

 private:
  struct Processes : ProcessObserver {
    Processes(const SimulatedWorld& world, uint32_t own) {
      for (uint32_t rank = 0; rank < world.size_; ++rank) {
        if (rank != own && world.hosts_[rank] == world.hosts_[own]) watched.insert(rank);
      }
    }
    bool is_watched(uint32_t rank) const override { return watched.contains(rank); }
    void forget(uint32_t rank) override { watched.erase(rank); }
    std::set<uint32_t> watched;
  };
  struct Rank {
    Rank(SimulatedWorld& world, uint32_t own)
        : clock(world.time_),
          processes(world, own),
          core(clock, world.network_.dialer(own), processes,
               {.own = own, .names = world.names(), .hosts = world.host_numbers(), .lost_after = kLostAfter},
               {.joined = [] {},
                .changed =
                    [&world, own](uint32_t other) {
                      if (world.changed_) world.changed_(own, other);
                    }}) {
      world.network_.listen(
          own, [this](uint32_t from, std::unique_ptr<ByteStream> stream) { core.adopt(from, std::move(stream)); });
      hooks = core.hooks()->attach(kGroup, {.state = [own] { return "state of " + std::to_string(own); },
                                            .broadcast = [this](const std::string& text) { texts.push_back(text); },
                                            .liveness_changed = {}});
    }
    SimulatedClock clock;
    Processes processes;
    std::vector<std::string> texts;
    AgentCore core;
    HookRegistration hooks;
  };
  std::vector<uint32_t> host_numbers() const { return {hosts_.begin(), hosts_.end()}; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (uint32_t rank = 0; rank < size_; ++rank) names.push_back("process " + std::to_string(rank));
    return names;
  }

  const uint32_t size_;
  SimulatedTime time_;
  SimulatedNetwork network_;
  std::vector<uint64_t> hosts_;
  Changed changed_;
  std::set<uint32_t> stopped_;
  std::vector<std::unique_ptr<Rank>> ranks_;  // none: dead
};

}  // namespace banyan::run
