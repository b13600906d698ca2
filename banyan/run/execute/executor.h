// Executor: carries out the calls of a communicator: starts and advances them and the messages beside them, shows what
// moves, lets a thread sleep, and spreads errors. Revising plans is a power that only some executors have
// (Executor::reviser).
//
// Implementations: host_executor.h (shared memory), net_executor.h (plans over connections). A communicator gets its
// executor from a factory (executor_factory.h).
//
// One thread at a time, except where a function says "any thread".
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/call/call.h"
#include "banyan/run/execute/fabric_update.h"
#include "banyan/run/message/tag_matcher.h"
#include "banyan/run/system/back_off.h"
#include "banyan/run/system/event_source.h"
#include "banyan/run/system/watch.h"
#include "banyan/run/transport/channel_transport.h"

namespace banyan::run {

// Executors that change their plans while calls are in flight. The ranks agree by short texts, which the communicator
// carries between them.
class PlanReviser {
 public:
  // A text that the executor of another rank, or this one, has sent to all ranks. Any thread.
  virtual void receive(const std::string& text) = 0;
  // Answers the texts that were received, for when no call is in flight whose advance() would.
  virtual void poll() = 0;
  // True while connections are made again, or calls confirmed, for what peers have still to get, though this rank may
  // wait for nothing: poll() goes on with it.
  virtual bool is_unsettled() const { return false; }
  // Not empty while peers may still want something of this rank, of calls that are over here: poll() is to be called
  // at this moment, unless a call is made before.
  virtual std::optional<std::chrono::steady_clock::time_point> poll_at() const { return std::nullopt; }
  // Asks all ranks to plan for this, too. Returns at once, with the number of the wish among those of this rank, from 1
  // on; the ranks agree while calls are made, and adopt it all or not at all, from one call on. The wishes of a rank
  // take effect in the order in which they were made. Any thread.
  virtual uint64_t propose(const PlanWish& wish) = 0;
  // On rank 0: the outcome of one of its own wishes; empty while it has still to be decided. Only the last thousand are
  // known. Called by the thread that drives.
  virtual std::optional<WishOutcome> outcome(uint64_t wish) const = 0;
  // The last generation that is settled here. Grows with every agreement, also if a wish was refused. Any thread.
  virtual uint32_t generation() const = 0;
  // The number of times that plans were revised because connections were lost. Any thread.
  virtual uint32_t reroutes() const = 0;

 protected:
  ~PlanReviser() = default;
};

class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  // ---- Calls, for all ranks, in the order in which they are started ----

  // The most calls that may be in flight.
  virtual size_t depth() const = 0;
  // Begins a call after those in flight. The buffers and counts that the call points to must stay until it is over.
  virtual void start(const Call& call, const CallNumbers& numbers) = 0;
  // Goes on as far as possible without waiting; true when the oldest call is over, which is then no longer in flight.
  // Throws Error when the call fails: the executor is of no use after that.
  virtual bool advance() = 0;
  // True if the last advance() has left nothing to do before a peer does something: another one would be in vain.
  virtual bool waits_for_peers() const { return false; }
  // Goes on until the only call is over, asking `watch` now and then whether to wait on. Throws what both throw.
  virtual void finish(Watch& watch) = 0;

  // ---- Messages between two ranks. They go on beside the calls, any number at a time; those of a pair with the same
  // tag in order ----

  // `call` is send or recv. Returns a ticket.
  virtual uint64_t start_message(const Call& call) = 0;
  using MessageDone = MessageEnd;
  // True when something moved; appends the messages that are over. Throws as advance() does.
  virtual bool advance_messages(std::vector<MessageDone>& done) = 0;

  // ---- The work in flight, as a watcher sees it ----

  // Grows whenever something moves.
  virtual uint64_t steps() const = 0;
  // Grows whenever something comes nearer to its end; waiting is timed by it. Work that is repeated after plans were
  // revised does not count before it has come farther than before.
  virtual uint64_t progress() const { return steps(); }
  // A rank that this rank waits for, after nothing moved; this rank itself if none is known, as before a daemon has
  // said.
  virtual uint32_t waiting_for() const = 0;
  // True if the work in flight can end without `rank`, which has left: only receives from any source wait for it.
  virtual bool can_do_without(uint32_t rank) const = 0;
  // The message from a rank that has begun to arrive and has not ended: where it is put, and how much of it is there.
  // Empty if there is none, or it is not known.
  struct Arriving {
    const std::byte* into = nullptr;
    uint64_t size = 0, taken = 0;  // bytes
  };
  virtual std::optional<Arriving> arriving_from(uint32_t) const { return std::nullopt; }
  // True if advance() fails once nothing more can come from a rank that has left, because the connections with it end.
  // If false, only the rank's good-bye tells.
  virtual bool notices_last_bytes() const { return false; }

  // ---- For a thread that waits for the work in flight ----

  // Sleeps until a peer does something, or for a while. Calls `try_again` once no wake-up can be missed any more, and
  // returns at once when that returns true.
  virtual void sleep(const std::function<bool()>& try_again) = 0;
  // Ends a sleep, or keeps the next one from beginning. Any thread.
  virtual void wake() = 0;
  // Paces the looks, by advance(), before sleeping.
  virtual BackOff back_off() const = 0;
  // For a thread that serves several executors with one sleep: advance() all of them, then wait for these events. Null
  // if news of peers comes through shared memory alone, which only sleep() waits for. Lives as long as the executor.
  virtual EventSource* events() = 0;

  // ---- An error of one rank, which ends the work of all ----

  // Ends the work of peers with this error, as far as they can be told. Any thread.
  virtual void break_with(const Error& error) = 0;
  // The error with which a peer has ended everything, if one has. Any thread.
  virtual std::optional<Error> broken() const = 0;

  // ---- More ----

  // Null where plans are never revised. Lives as long as the executor. Any thread.
  virtual PlanReviser* reviser() = 0;
  // Bytes that its transport took. Any thread.
  virtual SentBytes sent_bytes() const { return {}; }
  // The same by lane, if the transport has lanes. Any thread.
  virtual std::vector<LaneBytes> lane_bytes() const { return {}; }

 protected:
  // As Mailboxes and Messenger have it.
  template <typename Messages>
  static std::optional<Arriving> arriving_in(const Messages& messages, uint32_t rank) {
    const auto* const message = messages.arriving(rank);
    if (message == nullptr) return std::nullopt;
    return Arriving{.into = message->bytes, .size = message->size, .taken = message->taken};
  }
};

}  // namespace banyan::run
