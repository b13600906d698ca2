// Engine: carries out plans of one rank, many at a time, and holds no algorithm of its own.
//
//   Engine engine(transport, {});
//   const Engine::Ticket ticket = engine.start({.plan = plan, .task = {type, op}, .sequence = 7, .signature = hash,
//                                               .input = input, .output = output});
//   while (!engine.is_done(ticket)) {
//     if (!engine.progress()) transport.wait(100ms);
//   }
//
// A chunk moves in slices. Up the in-tree, a rank adds the slices of its children to its own input, always in the order
// of the plan, and sends the sum to its parent; the root turns a finished slice round into the out-tree at once, so
// that spreading slice s overlaps reducing slice s + 1. All contributions to a slice are added in one pass, in float32
// for 16-bit floats, so that a partial sum is rounded once for each edge of the tree. Neither the order nor the places
// of rounding depend on timing, slices or windows: equal inputs and an equal plan give equal bits.
//
// Messages. A stream (tree edge) sends its slices in order, each as a 24-byte header, which says how many bytes follow,
// and its elements, or what a codec makes of them (slice_codec.h); a stream of no elements, one header. The streams of
// an execution that share a channel take turns, slice by slice; executions have their turn on a channel in the order of
// the starts, each way on its own, and one never overtakes another there. All ranks must start executions that share a
// channel in the same order, and with equal slice_bytes and window. The first message of an execution on a channel
// carries its sequence and signature, the first of a stream its length: so a rank that was called otherwise is found
// out, and named.
//
// Budgets, gates. A step moves no more than its budget, so that one thread can serve many engines. A gate
// (slice_gate.h) may hold slices back for a while.
//
// Memory besides input and output comes from a pool that later executions use again, and is taken when it is needed:
//   - for each in-tree child at most `window` slices, of those that come before their turn;
//   - as many for each chunk that this rank reduces on the way to another root, or forwards without an output;
//   - a copy of the input of a plan that shuffles, when it is done in place;
//   - with can_rewind, of an execution in place, what it has overwritten;
//   - with a codec, the slice that is on its way on each channel, each way, as it is on the wire; a window of encoded
//     results for each chunk that this rank roots; and of those it passes on, all that it has not sent to all.
//
// Why it cannot deadlock although transports hold few bytes and others may be late:
//   1. The first message on a channel belongs to the execution whose turn it is here, or to one that this rank has not
//      started; then it waits in the transport, and no execution of this rank needs anything behind it.
//   2. The next message of a started execution can always be taken in, whatever else this rank waits for. A slice that
//      has an output goes there. Every other has a place kept for it: its sender starts with credit for `window`
//      slices, and gets one more with each that has been added, or sent on to all. A credit is a number. So no message
//      stands in the way of another of its execution, and a full transport empties.
//   3. Hence a slice of the earliest execution that is not done gets sent, if it is ready and has credit. A rank adds a
//      slice when those of all children are there and there is room for the sum: the first follows from the leaves
//      upwards, the second from the root downwards, which has room when its slices go down; those go down because the
//      leaves of the out-tree take everything, and from them upwards every rank gets rid of what it holds. Trees have
//      no cycles. So every slice reaches its root, and then every leaf; after that, the next execution is the earliest.
//   4. A step with a budget moves at least a byte of what a step without one would move, and begins with another
//      channel each time, so that none is passed over for ever. A gate holds slices, never credits, and not for
//      ever: it makes a slice of 3 later, as a slow transport does.
// For this a receiver gives no credit that its sender will not use, so that an execution takes from every channel
// exactly the messages that belong to it, and no barrier is needed between two.
//
// One thread. Transport and buffers belong to the caller and outlive the executions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/engine/channel.h"
#include "banyan/run/engine/command.h"
#include "banyan/run/engine/execution.h"
#include "banyan/run/engine/rank_plan.h"
#include "banyan/run/engine/slice_gate.h"
#include "banyan/run/engine/slot_pool.h"
#include "banyan/run/transport/transport.h"

namespace banyan::run {

struct EngineOptions {
  // On the wire, equal on all ranks; at least one element, or block of a codec, is sent at a time.
  uint64_t slice_bytes = 128 * 1024;
  uint32_t window = 4;      // equal on all ranks; at least 1
  bool can_rewind = false;  // see suspend()
  // The transport's number for a lane of a plan; several lanes may be one. Empty: the peer's number. Asked when a plan
  // is begun, and not always when it is begun again.
  std::function<uint32_t(const LaneUse& use)> channel = {};
  SliceGate* gate = nullptr;  // belongs to the caller; none: slices leave when they are ready
};

class Engine {
 public:
  Engine(Transport& transport, EngineOptions options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // An execution. Tickets are never used again.
  struct Ticket {
    uint32_t place = 0;
    uint64_t serial = 0;
    friend bool operator==(const Ticket&, const Ticket&) = default;
  };

  // Begins, after all that were started before.
  Ticket start(const EngineCommand& command);

  // Moves what can be moved now, at most a message each way for each channel, and at most `budget` bytes; copies within
  // this rank, a slice in a step, do not count. False when nothing could be moved.
  // Throws what the transport throws, and Error{mismatch} naming the peer when it does not follow the same plan:
  // MismatchError where it does something else altogether. After that, and until suspend(), it throws the same.
  static constexpr size_t kNoBudget = SIZE_MAX;
  bool progress(size_t budget = kNoBudget);

  // True if the last progress() has left nothing to do before a peer does something.
  bool waits_for_peers() const { return waits_for_peers_; }

  // Every element of the output is in place, the input is no longer needed, and all that peers need has been handed to
  // the transport.
  bool is_done(Ticket ticket) const { return !is_in(ticket, State::running) && !is_in(ticket, State::suspended); }
  bool is_idle() const { return running_ == 0; }
  // For a plan that ends with a confirmation: as is_done(), but for the confirmation: other ranks need not have their
  // results yet, nor know it of each other. The plan is done when it has been confirmed, which takes further
  // progress(). For other plans: is_done().
  bool is_over(Ticket ticket) const {
    return is_done(ticket) || (is_in(ticket, State::running) && places_[ticket.place].execution->is_over());
  }
  // It is over, and will not touch its input and output any more: they are the caller's again before it is done.
  void release_buffers(Ticket ticket);
  // True if a confirmation is held back here (EngineCommand::confirms_late). let_go() sends those that are, with the
  // next steps.
  bool is_holding() const;
  void let_go() { lets_go_ = is_holding(); }

  // ---- Repeating on other channels. Needs can_rewind. ----
  //
  // If a channel is lost, but not the rank behind it, all ranks suspend, also those that have lost nothing. Then they
  // agree, by other means, about each execution that is not done everywhere. If plans end with a confirmation
  // (direct_plan.h), an execution that is done at any rank has its result at every rank: it is completed. One that is
  // done nowhere is restarted, on all, or dropped, on all, and started again as another. One whose buffers are released
  // somewhere is restarted on all as another, which brings the result to the ranks that lack it. All this is done in
  // the order of the starts, and before anything else is started; the transport must by then have new channels, with
  // nothing of the old on its way.
  struct Suspended {
    Ticket ticket;
    uint64_t sequence = 0;
    bool has_result = false;  // at this rank
  };
  // Stops all that is not done; in the order of the starts.
  std::vector<Suspended> suspend();
  // Puts its input back as it was, unless its buffers are released, and begins again.
  void restart(Ticket ticket, std::shared_ptr<const RankPlan> plan);
  // The same as another execution, by which all get what some have got already.
  void restart(Ticket ticket, const EngineCommand& command);
  // Is done; it has its result, as CHECK demands.
  void complete(Ticket ticket);
  // Puts its input back as it was, and forgets it: the ticket is not used again.
  void drop(Ticket ticket);

  // ---- What is told about it ----

  struct Waiting {
    uint64_t sequence = 0;
    std::vector<uint32_t> peers;  // whose next message it needs, or who do not take what it sends; ascending
  };
  // Executions that are not done, in the order of the starts. Allocates: for timeouts.
  std::vector<Waiting> waiting_for() const;

  uint64_t messages_sent() const;
  uint64_t steps() const { return steps_; }  // grows with each call of progress() that moved something
  const SlotPool& pool() const { return pool_; }

 private:
  enum class State : uint8_t { free, running, suspended };
  struct Place {
    std::unique_ptr<Execution> execution;
    uint64_t serial = 0;
    State state = State::free;
  };

  bool is_in(Ticket ticket, State state) const {
    CHECK(ticket.place < places_.size()) << "no ticket of this engine";
    const Place& place = places_[ticket.place];
    return place.serial == ticket.serial && place.state == state;
  }
  uint32_t free_place(const std::shared_ptr<const RankPlan>& plan);
  std::vector<uint32_t> places_in(State state) const;
  void join_channels(Place& place);
  void make_channel(uint32_t number);
  bool serve_channels(size_t allowance);
  bool receive(Channel& channel, size_t& allowance);
  bool copy_some();
  void finish(Execution& execution);
  void free(uint32_t place);
  void leave_channels();

  Transport& transport_;
  const EngineOptions options_;
  SlotPool pool_;
  std::vector<Place> places_;   // by ticket
  std::vector<uint32_t> free_;  // places, those that ended last at the end
  size_t running_ = 0, suspended_ = 0;
  uint64_t serials_ = 0, steps_ = 0;
  bool lets_go_ = false;  // until nothing is held
  bool waits_for_peers_ = false;

  std::vector<std::unique_ptr<Channel>> channels_;  // by number; null while not used
  std::vector<bool> is_active_;                     // by number
  std::vector<Channel*> active_;                    // those on which an execution waits for a turn
  size_t next_ = 0;                                 // of these, the first to be served
  std::vector<Execution*> copying_;                 // those with something to copy; in turns

  std::optional<Error> failure_;  // of progress(), not yet seen to
};

}  // namespace banyan::run
