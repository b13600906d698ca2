// Worlds for tests: of real processes that the test may stop and kill, and of agents in one process.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "banyan/run/agent/agent.h"
#include "banyan/run/join/endpoint_record.h"
#include "banyan/run/system/child.h"
#include "banyan/run/system/futex.h"
#include "banyan/run/system/process_watch.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/testing/test.h"

namespace banyan::run {

class ForkedWorld {
 public:
  static constexpr uint32_t kMost = 64;
  static constexpr std::chrono::seconds kLong{20};

  // What all processes see. A word says how far its rank has come; the last one is the test's.
  struct Board {
    std::array<std::atomic<uint32_t>, kMost + 1> words;
    std::array<std::atomic<int32_t>, kMost> pids;
    std::array<std::atomic<uint64_t>, kMost> start_times;

    void say(uint32_t who, uint32_t value) {
      words[who] = value;
      futex_wake_all(words[who]);
    }
    // False when `who` does not come so far.
    bool wait_for(uint32_t who, uint32_t value) {
      const auto deadline = std::chrono::steady_clock::now() + kLong;
      for (uint32_t now = words[who]; now < value; now = words[who]) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        futex_wait(words[who], now, std::chrono::milliseconds(100));
      }
      return true;
    }
  };
  static constexpr uint32_t kTest = kMost;

  // Of one process: what it needs for an Agent.
  struct Member {
    World world;
    Listener listener;
    Board& board;

    uint32_t rank() const { return world.rank; }
    bool wait_for_test(uint32_t value) { return board.wait_for(kTest, value); }
    void say(uint32_t value) { board.say(world.rank, value); }
  };
  using Body = std::function<std::string(Member& member)>;

  // Rank r runs `body` in a process of its own on the host that hosts[r] names.
  ForkedWorld(const std::vector<std::string>& hosts, const Body& body) : size_(static_cast<uint32_t>(hosts.size())) {
    std::fflush(nullptr);  // or each child would print what waits
    std::vector<Listener> listeners;
    World world;
    for (uint32_t rank = 0; rank < size_; ++rank) {
      listeners.push_back(Listener::on("127.0.0.1"));
      world.members.push_back({.host_name = "node-" + hosts[rank],
                               .host_id = hosts[rank],
                               .pid = 0,
                               .start_time = 0,
                               .addresses = {"127.0.0.1"},
                               .port = listeners.back().port()});
    }
    for (uint32_t rank = 0; rank < size_; ++rank) {
      ranks_.emplace_back([&] {
        world.rank = rank;
        Listener own = std::move(listeners[rank]);
        listeners.clear();  // or they would answer for their ranks when those are dead
        return live(std::move(world), std::move(own), body);
      });
      board().pids[rank] = pid(rank);
      board().start_times[rank] = start_time_of(pid(rank)).value_or(0);
    }
    board().say(kTest, 1);
  }
  ~ForkedWorld() {
    for (ReportingChild& rank : ranks_) rank.process().send(SIGKILL);
  }
  ForkedWorld(const ForkedWorld&) = delete;
  ForkedWorld& operator=(const ForkedWorld&) = delete;

  Board& board() { return *reinterpret_cast<Board*>(memory_.data()); }
  // Whether all have said `value`.
  bool all_say(uint32_t value) {
    for (uint32_t rank = 0; rank < size_; ++rank) {
      if (!board().wait_for(rank, value)) return false;
    }
    return true;
  }
  void say(uint32_t value) { board().say(kTest, value); }
  void strike(uint32_t rank, int signal) {
    ranks_[rank].process().send(signal);
    // Its threads run on for a moment otherwise.
    if (signal == SIGSTOP) {
      EXPECT_EQ(waitpid(pid(rank), nullptr, WUNTRACED), pid(rank));
    }
  }
  pid_t pid(uint32_t rank) { return ranks_[rank].process().id(); }
  // What the body returned, or "error: ..." with what it threw; empty when it was killed. Waits for its end.
  std::string report(uint32_t rank) { return ranks_[rank].read_all(); }

 private:
  std::string live(World world, Listener listener, const Body& body) {
    try {
      if (!board().wait_for(kTest, 1)) return "";
      for (uint32_t rank = 0; rank < size_; ++rank) {
        world.members[rank].pid = board().pids[rank];
        world.members[rank].start_time = board().start_times[rank];
      }
      Member member{.world = std::move(world), .listener = std::move(listener), .board = board()};
      return body(member);
    } catch (const std::exception& error) {
      return std::string("error: ") + error.what();
    }
  }

  uint32_t size_;
  SharedMemory memory_{sizeof(Board)};
  std::vector<ReportingChild> ranks_;
};

inline Agent::Clock::time_point soon() { return Agent::Clock::now() + ForkedWorld::kLong; }

// Quick enough for a test, and slow enough for a busy machine.
inline Agent::Options quick() {
  return {.heartbeat = std::chrono::milliseconds(50),
          .silent_after = std::chrono::milliseconds(400),
          .lost_after = std::chrono::seconds(30)};
}

inline std::unique_ptr<Agent> start_agent(ForkedWorld::Member& member, Agent::Options options = quick()) {
  return std::make_unique<Agent>(std::move(member.listener), Secret(), member.world, options,
                                 Deadline::after(ForkedWorld::kLong));
}

// False when it does not come to that.
inline bool wait_for_state(Agent& agent, uint32_t rank, Health state) {
  std::atomic<uint32_t>& changes = agent.liveness().changes();
  const HookRegistration waker =
      agent.attach(~uint64_t{0}, {.state = {}, .broadcast = {}, .liveness_changed = [&] { futex_wake_all(changes); }});
  const Agent::Clock::time_point deadline = soon();
  for (;;) {
    const uint32_t seen = changes;
    const bool is_last_look = Agent::Clock::now() > deadline || agent.liveness().is_gone(rank);
    if (agent.liveness().state(rank) == state) return true;
    if (is_last_look) return false;
    futex_wait(changes, seen, std::chrono::milliseconds(1000));
  }
}

// A world of agents in this process, each on a host of its own unless told otherwise.
class LocalWorld {
 public:
  explicit LocalWorld(uint32_t size, Agent::Options options = quick()) {
    World world;
    std::vector<Listener> listeners;
    for (uint32_t rank = 0; rank < size; ++rank) {
      listeners.push_back(Listener::on("127.0.0.1"));
      world.members.push_back(describe_self(listeners.back().port(), {"127.0.0.1"}));
      world.members.back().host_name = "node" + std::to_string(rank);
      world.members.back().host_id = "host " + std::to_string(rank);
    }
    for (uint32_t rank = 0; rank < size; ++rank) {
      world.rank = rank;
      agents_.push_back(std::make_unique<Agent>(std::move(listeners[rank]), Secret(), world, options,
                                                Deadline::after(ForkedWorld::kLong)));
    }
  }
  Agent& operator[](uint32_t rank) { return *agents_[rank]; }
  uint32_t size() const { return static_cast<uint32_t>(agents_.size()); }
  void end(uint32_t rank) { agents_[rank].reset(); }

 private:
  std::vector<std::unique_ptr<Agent>> agents_;
};

}  // namespace banyan::run
