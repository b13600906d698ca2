// Agent: the thread by which the processes of a world know each other.
//
// A *world* is a set of processes that have met; communicators split or shrunk from it share its agent (which is why
// they hold it by shared_ptr). The agent answers calls of peers and hands their connections to transports, watches who
// lives, passes queries round, and lets survivors agree on who they are. It sleeps in epoll; while nobody waits for
// anything, it costs nothing.
//
// Failure detection. The kernel reports the end of a process on the same host (Member::host_id) through a pidfd, within
// milliseconds. Besides, every rank holds connections to the *hub*, the lowest rank that lives. A connection that
// breaks is a suspicion, which other ranks are asked about, and no death: suspicion.h has the rule. The hub reports
// each death to all ranks; so does the rank that saw it first. The next lowest rank takes over as soon as the hub
// itself dies. A host that vanishes without a word is concluded dead after Options::lost_after, and fenced out (hub.h),
// should it come back. While a rank waits (expect), the hub asks for a sign of life every Options::heartbeat: a rank
// that gives none for Options::silent_after is silent.
//
// An error after which the agent's thread cannot go on, such as a want of memory, ends this process's part in the
// world: its communicators get the error by their `failed` hook, calls of the agent throw it, and the connections to
// its peers are closed.
//
// Threads: every function may be called from any thread, unless it says otherwise; hooks are called by the agent's
// thread and must not block, nor call the agent (but liveness() is free). After fork(), the child's calls throw
// Error{unsupported}; destroying the object there does nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/run/agent/hooks.h"
#include "banyan/run/agent/liveness.h"
#include "banyan/run/agent/survivors.h"
#include "banyan/run/join/deadline.h"
#include "banyan/run/join/listener.h"
#include "banyan/run/join/secret.h"
#include "banyan/run/join/world.h"
#include "banyan/run/system/awake_time.h"
#include "banyan/run/transport/connector.h"

namespace banyan::run {

class Agent {
 public:
  using Clock = AwakeClock;

  struct Options {
    std::chrono::milliseconds heartbeat{1000};
    std::chrono::milliseconds silent_after{5000};
    std::chrono::milliseconds lost_after{30'000};     // without a sign of life of a rank, to anybody
    std::chrono::milliseconds stranger_time{10'000};  // for a caller to say who it is
    uint32_t stranger_limit = 256;                    // at once; then the oldest is hung up on
  };

  // Starts the thread and, unless this rank is the lowest, connects to the hub. Throws Error{timed_out} naming the hub
  // that did not answer until `deadline`, Error{io}.
  Agent(Listener listener, Secret secret, World world, Options options, const Deadline& deadline);
  // Hangs up and joins the thread. To peers that were not told by leave(), this rank is dead.
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  uint32_t rank() const;
  const std::vector<Member>& members() const;
  // Valid as long as the agent. Safe to read by loops that spin.
  const Liveness& liveness() const;
  // While at least one object that expect() returned lives, silence is watched for in the whole world. The object may
  // outlive the agent, and is not null.
  using Expectation = std::shared_ptr<void>;
  [[nodiscard]] Expectation expect();
  // Tells all ranks that this process leaves in peace; its end is no death then. Returns when all living ranks have
  // received this, or at the deadline. Afterwards liveness() means nothing here.
  // In a forked process it does nothing.
  void leave(Clock::time_point deadline);

  // Makes the connections of one communicator. `members` are world ranks, and `own` is this one's index in them; peers
  // are numbered so in requests, answers and messages. The end with the lower number calls. A request fails after
  // `at_most`, or at once when the peer is gone. Destroying it hangs up on calls to this communicator. One for each
  // communicator.
  std::unique_ptr<Connector> connector(uint64_t communicator, std::vector<uint32_t> members, uint32_t own,
                                       std::chrono::milliseconds at_most);

  // One for each communicator. The registration takes the hooks back at its end.
  [[nodiscard]] HookRegistration attach(uint64_t communicator, CommunicatorHooks hooks);

  // Asks all ranks of the world what `communicator` does there, by way of the hub, or directly when the hub does not
  // answer. Returns the answers indexed by world rank, at the deadline or when there is nothing more to wait for.
  // Throws only after fork().
  std::vector<PeerReport> ask_states(uint64_t communicator, Clock::time_point deadline);
  // Runs the `broadcast` hook of `communicator` on every rank that can be reached, this one too. Does not wait for
  // them.
  void broadcast(uint64_t communicator, const std::string& reason);
  // The same, and returns when it is on its way, or after a fifth of a second: so a rank that ends its process upon a
  // failure has told the others why. On the agent's thread it does not wait.
  void broadcast_now(uint64_t communicator, const std::string& reason);

  // See survivors.h. Throws Error{peer_lost}: "this rank was left out of the new group (ranks 0, 2-7)";
  // Error{timed_out} when no agreement was possible until the deadline, naming those who hindered it.
  Survivors agree(const SurvivorQuestion& question);

  struct Refusals {
    uint64_t count = 0;
    std::vector<std::string> last;  // one line each, at most 16
  };
  // Callers that were not let in.
  Refusals refusals() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace banyan::run
