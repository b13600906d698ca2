// Execution: how far one rank has come with one plan. It knows what may be sent, the place of all that arrives, and
// what follows from it; channels (channel.h) move the bytes. For the engine, whose header is the manual.
//
// Numbers that only grow stand for slices: those of a stream that have been received, used, sent, and so on. A slice
// that has to wait lies in a slot of its stream's or its role's window, found by its number modulo the window.
//
// A slice of an in-tree is reduced in one pass over the contributions of this rank and of all children, in their order,
// when the last of them comes: that one straight from the transport, if it is let. So partial results are rounded to
// the type once per edge, whatever the number of children.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "banyan/element/reduce.h"
#include "banyan/run/engine/command.h"
#include "banyan/run/engine/kept_input.h"
#include "banyan/run/engine/message.h"
#include "banyan/run/engine/rank_plan.h"
#include "banyan/run/engine/slice_gate.h"
#include "banyan/run/engine/slot_pool.h"

namespace banyan::run {

class Execution {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // A slice on the wire, in a block of the pool.
  struct CodedSlice {
    std::byte* block = nullptr;
    size_t taken = 0, size = 0;  // bytes of the block, and of the slice
  };

  // A channel as one execution uses it: what it still has to receive and to send there.
  struct Port {
    Execution* owner = nullptr;
    uint32_t channel = 0, peer = 0;
    uint64_t in_left = 0, out_left = 0;                  // slices and credits
    bool has_opened_in = false, has_opened_out = false;  // the opening is read; it is sent
    uint32_t first_ready = kNone, last_ready = kNone;    // departures with something to send, in turns
    uint32_t first_owing = kNone, last_owing = kNone;    // arrivals with credit to give
    CodedSlice coded_in = {}, coded_out = {};            // what is on its way
    Port* next_in = nullptr;                             // of the next execution on the channel
    Port* next_out = nullptr;
  };

  struct Settings {
    uint64_t slice_bytes = 0;
    uint32_t window = 0;
    bool can_rewind = false;
    const std::function<uint32_t(const LaneUse&)>* channel = nullptr;  // empty: the peer's number
    SliceGate* gate = nullptr;
  };

  Execution(SlotPool& pool, const Settings& settings) : pool_(pool), settings_(settings), input_(pool) {}
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  ~Execution();

  // Begins. Nothing of an earlier command is left.
  void begin(const EngineCommand& command);
  // Gives up where it stands. The overwritten part of the input is still known.
  void stop();
  // Puts that back. Stopped executions only.
  void restore_input() { input_.restore(); }
  // Forgets the command, done or stopped, but not what helps to begin with the same plan again.
  void end();
  void forget_plan();

  bool is_done() const { return left_ == 0; }
  // All that this rank is to have is in its place, though others may still need something of it.
  bool has_result() const { return results_left_ == 0; }
  // And others need nothing of it but its confirmation: neither input nor output are used any more.
  bool is_over() const { return results_left_ == 0 && left_ == confirmations_left_; }
  // It is over, and its buffers are the caller's again: nothing is put back into them.
  void release_buffers();
  const EngineCommand& command() const { return command_; }
  // True if it can begin this plan without looking through it again.
  bool is_prepared_for(const std::shared_ptr<const RankPlan>& plan) const { return prepared_.plan == plan; }
  std::span<Port> ports() { return ports_; }
  // Those whose next message something waits for, and those who have not taken what could be sent; ascending.
  std::vector<uint32_t> waits_for() const;

  // Elements that this rank gives itself: true while there are any; copies a slice of them.
  bool has_copies() const { return !copying_.empty(); }
  void copy_slice();

  // ---- Receiving. The port is the caller's business: in_left of those it calls about is at least 1. ----

  // The place for the body that a header announced.
  struct Incoming {
    uint32_t arrival = kNone;
    std::byte* target = nullptr;
    size_t size = 0;          // of the body
    bool is_direct = false;   // it is the last contribution to its slice, and goes straight into the result
    bool is_reduced = false;  // so it is not stored, but goes through reduce_piece
    bool is_confirmation = false;
  };
  // Throws Error{mismatch} when the plan expects no such slice now.
  Incoming slice_comes(Port& port, const MessageHeader& header);
  // Reduces `count` elements of a body, which stand `done` bytes from its beginning.
  void reduce_piece(const Incoming& incoming, size_t done, const std::byte* bytes, size_t count);
  void slice_came(Port& port, const Incoming& incoming);
  // Throws Error{mismatch}.
  void credit_came(Port& port, const MessageHeader& header);

  // ---- Sending ----

  struct Outgoing {
    MessageHeader header = {};
    std::span<const std::byte> body = {};
    bool lasts = false;          // the body is in a buffer of the caller
    uint32_t departure = kNone;  // of a credit: none
    uint64_t units = 0;          // what it takes off out_left
  };
  // True if all that is left to send there is the confirmation, and it may leave now.
  bool has_only_confirmation(const Port& port) const;
  // The next message of the port; false when there is none now, or the gate holds it. The message that it gave must be
  // sent before it is asked again.
  bool next_message(Port& port, Outgoing& outgoing);
  void message_sent(Port& port, const Outgoing& outgoing);

  size_t element_bytes() const { return prepared_.element_bytes; }

 private:
  // A ring of pointers into the pool, for a window of slices.
  struct Window {
    uint32_t first = 0, size = 0;  // in slots_
  };
  struct RoleState {
    const Role* role = nullptr;
    uint64_t slices = 1;
    uint64_t final_slices = 0;                          // reduced or copied here
    uint64_t released = 0;                              // of what is held: sent on to all
    bool is_open = true;                                // this rank's own contribution is there
    bool is_adding = false;                             // a contribution is being read from the transport right now
    uint32_t first_child = kNone, from_parent = kNone;  // arrivals
    uint32_t up = kNone, first_down = kNone;            // departures
    Window sums = {}, held = {};  // on the way up; and of what has no output here, on the way down
    Window coded = {};            // with a codec, of results that are sent on, as they are on the wire; in coded_
  };
  // A stream from a peer.
  struct Arrival {
    StreamEnd from;
    uint32_t role = 0, port = 0;
    bool is_contribution = false, is_owing = false;
    uint64_t received = 0, used = 0, allowed = 0, told = 0;
    uint32_t next_owing = kNone;
    Window slots = {};  // of contributions
  };
  // A stream to a peer.
  struct Departure {
    StreamEnd to;
    uint32_t role = 0, port = 0;
    bool is_contribution = false, is_queued = false;
    uint64_t ready = 0, allowed = 0, sent = 0;
    uint32_t next_ready = kNone;
  };
  // Finds the arrival or departure of a stream by its peer and its number.
  class StreamTable {
   public:
    // `counts`: of streams, by peer. All entries are kNone then.
    void lay_out(std::span<const uint32_t> counts);
    uint32_t& at(uint32_t peer, uint32_t stream) { return entries_[first_[peer] + stream]; }

   private:
    std::vector<uint32_t> first_;  // by peer
    std::vector<uint32_t> entries_;
  };

  // The inputs of prepare(): the plan, and how the command uses it.
  struct Preparation {
    std::shared_ptr<const RankPlan> plan = {};  // shared with those who may use it again
    size_t element_bytes = 0;
    uint64_t slice_elements = 0;
    uint32_t window = 0;
    bool is_coded = false;
    bool operator==(const Preparation&) const = default;
  };
  void prepare();
  void add_role(const Role& role);
  uint32_t port_to(const StreamEnd& end);
  Window add_window(uint64_t slices);
  Window add_coded_window(uint64_t slices);
  // Called for each command.
  void reset_streams();
  void begin_role(uint32_t number);
  void open_confirmation();

  uint64_t begin_of(uint64_t slice) const { return slice * prepared_.slice_elements; }
  size_t bytes_of(const RoleState& state, uint64_t slice) const {
    return std::min(prepared_.slice_elements, state.role->length - begin_of(slice)) * prepared_.element_bytes;
  }
  uint64_t credits(uint64_t slices) const { return slices > prepared_.window ? slices - prepared_.window : 0; }
  const std::byte* input_at(const RoleState& state, uint64_t slice) const;
  std::byte* output_at(const RoleState& state, uint64_t slice) const;
  std::byte*& slot(const Window& window, uint64_t slice) { return slots_[window.first + slice % window.size]; }
  const std::byte* payload(const Departure& departure);
  bool is_in_slot(const Departure& departure) const;
  size_t slice_bytes(const RoleState& state, uint64_t slice) const {
    return state.role->length == 0 ? 0 : bytes_of(state, slice);
  }
  size_t slot_bytes(const RoleState& state) const { return bytes_of(state, 0); }
  std::byte* take_slot(const RoleState& state, const Window& window, uint64_t slice);
  void give_slot_back(const RoleState& state, const Window& window, uint64_t slice);
  // The place for a slice that has its final value here, from the root's reduction or from the parent.
  std::byte* place_of_result(RoleState& state, uint64_t slice);

  bool is_place_free(const RoleState& state) const;
  // True if all contributions to the next slice are there, but for that of one arrival.
  bool has_all_contributions(const RoleState& state, uint32_t but) const;
  std::byte* place_of_sum(RoleState& state);
  void reduce_waiting(RoleState& state);
  void slice_is_reduced(RoleState& state, uint32_t direct_arrival);
  void release_sent(RoleState& state);
  void result_came();
  void spread(RoleState& state);
  void give_windows_back();
  // Slices on the wire, of executions with a codec (execution_coded.cc).
  size_t most_coded_bytes(size_t plain_bytes) const;
  void expect_length(const Port& port, const MessageHeader& header, size_t plain_bytes) const;
  CodedSlice encode(const RoleState& state, uint64_t slice, const std::byte* plain);
  void decode(std::span<const std::byte> coded, std::span<std::byte> plain, float factor);
  float result_factor(const RoleState& state) const;
  void coded_slice_came(Port& port, const Arrival& arrival, RoleState& state);
  void code_result(RoleState& state);
  CodedSlice& coded_result(const RoleState& state, uint64_t slice) {
    return coded_[state.coded.first + slice % state.coded.size];
  }
  void give_back(CodedSlice& coded);
  bool has_residual(const RoleState& state) const { return !command_.residual.empty() && state.role->input_at; }
  const std::byte* residual_at(const RoleState& state, uint64_t slice) const;
  std::byte* lost_at(const RoleState& state, uint64_t slice) const;
  void allow_one_more(uint32_t arrival);
  void one_more_ready(uint32_t departure);
  bool may_leave(const Port& port, const Departure& departure);
  void offer(uint32_t departure);
  element::ReduceTask task_of(const RoleState& state) const;

  SlotPool& pool_;
  const Settings settings_;

  EngineCommand command_;
  KeptInput input_;
  uint64_t left_ = 0;                // messages in and out, and slices to copy
  uint64_t confirmations_left_ = 0;  // of these
  uint64_t results_left_ = 0;        // slices to receive, reduce and copy before the confirmation
  std::vector<uint32_t> copying_;    // roles
  size_t next_copy_ = 0;

  Preparation prepared_;  // for the command; reset by forget_plan(), when nothing is under way
  // Fixed by prepared_, but for their counters.
  std::vector<RoleState> roles_;
  std::vector<Arrival> arrivals_;
  std::vector<Departure> departures_;
  std::vector<Port> ports_;
  std::vector<std::byte*> slots_;
  std::vector<CodedSlice> coded_;  // results
  StreamTable arrival_of_, departure_of_;
  std::vector<const std::byte*> sources_;  // of a reduction
  std::vector<uint32_t> port_of_channel_;  // kNone of those that are not used
  uint32_t confirmation_ = kNone;          // a role
};

}  // namespace banyan::run
