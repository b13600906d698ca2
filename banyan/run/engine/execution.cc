#include "banyan/run/engine/execution.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::run {
namespace {

// Appends to a list that is threaded through `items` by their member `next`.
template <typename Item>
void append(std::vector<Item>& items, uint32_t Item::*next, uint32_t& first, uint32_t& last, uint32_t item) {
  items[item].*next = Execution::kNone;
  if (first == Execution::kNone) {
    first = item;
  } else {
    items[last].*next = item;
  }
  last = item;
}

Error of_another_plan(uint32_t peer, const MessageHeader& header) {
  const bool is_credit = header.kind == MessageKind::credit;
  const uint64_t slice = header.kind == MessageKind::first_slice ? 0 : header.number;
  return Error(ErrorCode::mismatch, "rank " + std::to_string(peer) + " follows another plan: it sent " +
                                        (is_credit ? "credit for slice " : "slice ") + std::to_string(slice) +
                                        " of stream " + std::to_string(header.stream) + ", which is not expected now");
}

}  // namespace

// ---- Places ----

const std::byte* Execution::input_at(const RoleState& state, uint64_t slice) const {
  return input_.data() + (state.role->input_at.value_or(0) + begin_of(slice)) * prepared_.element_bytes;
}

std::byte* Execution::output_at(const RoleState& state, uint64_t slice) const {
  return command_.output.data() + (state.role->output_at.value_or(0) + begin_of(slice)) * prepared_.element_bytes;
}

std::byte* Execution::take_slot(const RoleState& state, const Window& window, uint64_t slice) {
  if (state.role->length == 0) return nullptr;
  std::byte*& place = slot(window, slice);
  DCHECK(place == nullptr);
  return place = pool_.take(slot_bytes(state));
}

void Execution::give_slot_back(const RoleState& state, const Window& window, uint64_t slice) {
  std::byte*& place = slot(window, slice);
  if (place == nullptr) return;
  pool_.give_back(place, slot_bytes(state));
  place = nullptr;
}

// A result goes to a slot until it is sent on, or to the output, whose bytes are saved first if they are still wanted.
std::byte* Execution::place_of_result(RoleState& state, uint64_t slice) {
  if (state.held.size > 0) return take_slot(state, state.held, slice);
  if (state.role->length == 0) return nullptr;
  std::byte* const place = output_at(state, slice);
  input_.save(place, bytes_of(state, slice));
  return place;
}

// The root's sum is the result. Others keep theirs until it is sent to the parent.
std::byte* Execution::place_of_sum(RoleState& state) {
  if (state.role->is_root()) return place_of_result(state, state.final_slices);
  return take_slot(state, state.sums, state.final_slices);
}

// Whether the slices of a departure lie where others will lie afterwards.
bool Execution::is_in_slot(const Departure& departure) const {
  const RoleState& state = roles_[departure.role];
  const bool reduces = !state.role->in_children.empty();
  if (departure.is_contribution) return reduces;
  return (!state.role->is_root() || reduces) && state.held.size > 0;
}

// The next slice of a departure.
const std::byte* Execution::payload(const Departure& departure) {
  const RoleState& state = roles_[departure.role];
  const uint64_t slice = departure.sent;
  if (state.role->length == 0) return nullptr;
  if (is_in_slot(departure)) return slot(departure.is_contribution ? state.sums : state.held, slice);
  // Without a slot it is the input, if this rank has it from nobody; else it stands in the output already.
  const bool is_own = departure.is_contribution || (state.role->is_root() && state.role->in_children.empty());
  return is_own ? input_at(state, slice) : output_at(state, slice);
}

// ---- What this rank does to slices ----

void Execution::copy_slice() {
  next_copy_ = next_copy_ % copying_.size();
  RoleState& state = roles_[copying_[next_copy_]];
  const uint64_t slice = state.final_slices++;
  std::byte* const to = output_at(state, slice);
  const size_t bytes = bytes_of(state, slice);
  input_.save(to, bytes);
  // With a residual the output is the sum of both, and nothing of it is lost.
  if (has_residual(state)) {
    sources_ = {input_at(state, slice), residual_at(state, slice)};
    reduce(element::ReduceTask{.type = command_.task.type}, to, nullptr, sources_, bytes / prepared_.element_bytes);
    std::memset(lost_at(state, slice), 0, bytes);
  } else {
    std::memcpy(to, input_at(state, slice), bytes);
  }
  // Roles with copies take turns, a slice each.
  if (state.final_slices == state.slices) {
    copying_[next_copy_] = copying_.back();
    copying_.pop_back();
  } else {
    ++next_copy_;
  }
  --left_;
  result_came();
}

// Whether the place of the next sum is not still being sent on with an earlier slice.
bool Execution::is_place_free(const RoleState& state) const {
  if (!state.role->is_root()) return state.final_slices < departures_[state.up].sent + prepared_.window;
  return (state.held.size == 0 && state.coded.size == 0) || state.final_slices < state.released + prepared_.window;
}

bool Execution::has_all_contributions(const RoleState& state, uint32_t but) const {
  for (uint32_t i = 0; i < state.role->in_children.size(); ++i) {
    const uint32_t child = state.first_child + i;
    if (child != but && arrivals_[child].received <= state.final_slices) return false;
  }
  return true;
}

element::ReduceTask Execution::task_of(const RoleState& state) const {
  element::ReduceTask task = command_.task;
  // An average is divided once, by those who have the whole sum: the root, or with a lossy codec all who decode it.
  const bool is_final = state.role->is_root() && (state.coded.size == 0 || !command_.codec->is_lossy());
  if (task.op == element::ReduceOp::avg && !is_final) task.op = element::ReduceOp::sum;
  return task;
}

void Execution::reduce_piece(const Incoming& incoming, size_t done, const std::byte* bytes, size_t count) {
  const RoleState& state = roles_[arrivals_[incoming.arrival].role];
  // The order is that of the plan, whoever came last: this rank's input, its residual, then the children.
  sources_.clear();
  if (state.role->input_at) sources_.push_back(input_at(state, state.final_slices) + done);
  if (has_residual(state) && state.role->is_root() && state.coded.size == 0) {
    sources_.push_back(residual_at(state, state.final_slices) + done);
    std::memset(lost_at(state, state.final_slices) + done, 0, count * prepared_.element_bytes);
  }
  for (uint32_t i = 0; i < state.role->in_children.size(); ++i) {
    const uint32_t child = state.first_child + i;
    sources_.push_back(child == incoming.arrival ? bytes : slot(arrivals_[child].slots, state.final_slices) + done);
  }
  reduce(task_of(state), incoming.target + done, nullptr, sources_, count);
}

void Execution::reduce_waiting(RoleState& state) {
  // Slices are reduced in their order, each when all contributions are there and its place is free.
  while (state.is_open && !state.is_adding && state.final_slices < state.slices && is_place_free(state) &&
         has_all_contributions(state, kNone)) {
    // A root with a codec sums, encodes and decodes in one go.
    if (state.role->is_root() && state.coded.size > 0) {
      code_result(state);
      slice_is_reduced(state, kNone);
      continue;
    }
    std::byte* const place = place_of_sum(state);
    if (state.role->length > 0) {
      const uint32_t last = state.first_child + static_cast<uint32_t>(state.role->in_children.size()) - 1;
      reduce_piece({.arrival = last, .target = place}, 0, slot(arrivals_[last].slots, state.final_slices),
                   bytes_of(state, state.final_slices) / prepared_.element_bytes);
    }
    slice_is_reduced(state, kNone);
  }
}

void Execution::slice_is_reduced(RoleState& state, uint32_t direct_arrival) {
  for (uint32_t i = 0; i < state.role->in_children.size(); ++i) {
    const uint32_t child = state.first_child + i;
    // Places of contributions are free, and their senders get credit for one more.
    if (child != direct_arrival) give_slot_back(state, arrivals_[child].slots, state.final_slices);
    allow_one_more(child);
  }
  ++state.final_slices;
  if (!state.role->is_root()) return one_more_ready(state.up);
  spread(state);
  if (!state.role->is_confirmation) result_came();
}

// One more slice has its final value here. Before this rank confirms it: what others wait for goes first.
void Execution::spread(RoleState& state) {
  for (uint32_t i = 0; i < state.role->out_children.size(); ++i) one_more_ready(state.first_down + i);
  if (state.held.size > 0 && state.role->out_children.empty()) release_sent(state);
}

// Frees what has been sent to all; there is something held.
void Execution::release_sent(RoleState& state) {
  // A slice is free when the slowest child has been sent it.
  uint64_t sent = state.role->is_root() ? state.final_slices : arrivals_[state.from_parent].received;
  for (uint32_t i = 0; i < state.role->out_children.size(); ++i) {
    sent = std::min(sent, departures_[state.first_down + i].sent);
  }
  while (state.released < sent) {
    const uint64_t slice = state.released++;
    if (state.coded.size > 0) {
      give_back(coded_result(state, slice));
    } else {
      give_slot_back(state, state.held, slice);
    }
    if (!state.role->is_root()) allow_one_more(state.from_parent);
  }
}

void Execution::allow_one_more(uint32_t number) {
  Arrival& arrival = arrivals_[number];
  ++arrival.used;
  // No credit is given that the sender will not use: so each execution takes exactly its own messages from a channel.
  if (!arrival.from.is_windowed || arrival.used + prepared_.window > roles_[arrival.role].slices) return;
  ++arrival.allowed;
  if (arrival.is_owing) return;
  arrival.is_owing = true;
  Port& port = ports_[arrival.port];
  append(arrivals_, &Arrival::next_owing, port.first_owing, port.last_owing, number);
}

void Execution::one_more_ready(uint32_t departure) {
  ++departures_[departure].ready;
  offer(departure);
}

// Queues a departure that may send its next slice.
void Execution::offer(uint32_t number) {
  Departure& departure = departures_[number];
  if (departure.is_queued || departure.sent >= std::min(departure.ready, departure.allowed)) return;
  departure.is_queued = true;
  Port& port = ports_[departure.port];
  append(departures_, &Departure::next_ready, port.first_ready, port.last_ready, number);
}

void Execution::result_came() {
  if (--results_left_ == 0) open_confirmation();
}

void Execution::open_confirmation() {
  // Plans without a confirmation are done with their last message.
  if (confirmation_ == kNone) return;
  RoleState& state = roles_[confirmation_];
  state.is_open = true;
  // It goes up when those below have confirmed, or down from here if this rank is the root.
  if (!state.role->in_children.empty()) return reduce_waiting(state);
  state.final_slices = state.slices;
  if (state.role->in_parent) return one_more_ready(state.up);
  spread(state);
}

// ---- Receiving ----

Execution::Incoming Execution::slice_comes(Port& port, const MessageHeader& header) {
  // The header must say what the plan expects next of this stream: anything else comes from another plan.
  const uint32_t count = command_.plan->streams_from[port.peer];
  if (header.stream >= count) throw of_another_plan(port.peer, header);
  const uint32_t number = arrival_of_.at(port.peer, header.stream);
  CHECK(number != kNone) << "a stream without a role";
  Arrival& arrival = arrivals_[number];
  RoleState& state = roles_[arrival.role];
  const uint64_t slice = arrival.received;
  const bool is_first = header.kind == MessageKind::first_slice;
  if (is_first != (slice == 0) || slice >= state.slices || (!is_first && header.number != slice))
    throw of_another_plan(port.peer, header);
  if (is_first && header.number != state.role->length) {
    throw Error(ErrorCode::mismatch, "rank " + std::to_string(port.peer) + " sends " + std::to_string(header.number) +
                                         " elements where rank " + std::to_string(command_.plan->rank) + " expects " +
                                         std::to_string(state.role->length));
  }
  // A slice without credit would have no place here.
  if (arrival.from.is_windowed && slice >= arrival.used + prepared_.window) throw of_another_plan(port.peer, header);

  Incoming incoming{
      .arrival = number, .size = slice_bytes(state, slice), .is_confirmation = state.role->is_confirmation};
  if (command_.codec != nullptr || header.length != incoming.size) expect_length(port, header, incoming.size);
  if (command_.codec != nullptr && incoming.size > 0) {
    // Decoded when it is here; the place is taken then, too.
    const size_t size = header.length;
    port.coded_in = {.block = pool_.take(size), .taken = size, .size = size};
    incoming.target = port.coded_in.block;
    incoming.size = header.length;
    return incoming;
  }
  if (!arrival.is_contribution) {
    incoming.target = place_of_result(state, slice);
    return incoming;
  }
  // The last contribution to the next slice is reduced as it comes from the transport. Any other waits in a slot.
  incoming.is_direct = state.is_open && !state.is_adding && slice == state.final_slices && is_place_free(state) &&
                       has_all_contributions(state, number);
  if (incoming.is_direct) {
    state.is_adding = true;
    incoming.target = place_of_sum(state);
    incoming.is_reduced = incoming.size > 0;
  } else {
    incoming.target = take_slot(state, arrival.slots, slice);
  }
  return incoming;
}

void Execution::slice_came(Port& port, const Incoming& incoming) {
  Arrival& arrival = arrivals_[incoming.arrival];
  RoleState& state = roles_[arrival.role];
  if (port.coded_in.block != nullptr) coded_slice_came(port, arrival, state);
  ++arrival.received;
  --port.in_left;
  --left_;
  if (state.role->is_confirmation) --confirmations_left_;
  // A result goes on to the children before it counts here.
  if (!arrival.is_contribution) {
    spread(state);
    if (!state.role->is_confirmation) result_came();
    return;
  }
  if (incoming.is_direct) {
    // It has completed its slice. Behind it others may be complete as well.
    state.is_adding = false;
    slice_is_reduced(state, incoming.arrival);
  }
  reduce_waiting(state);
}

void Execution::credit_came(Port& port, const MessageHeader& header) {
  if (header.stream >= command_.plan->streams_to[port.peer]) throw of_another_plan(port.peer, header);
  const uint32_t number = departure_of_.at(port.peer, header.stream);
  CHECK(number != kNone) << "a stream without a role";
  Departure& departure = departures_[number];
  // Credit grows, and never beyond the window.
  const uint64_t most = std::min(roles_[departure.role].slices, departure.sent + prepared_.window);
  if (!departure.to.is_windowed || header.number <= departure.allowed || header.number > most)
    throw of_another_plan(port.peer, header);
  // Several credits may come as one message. Each counts.
  const uint64_t units = header.number - departure.allowed;
  departure.allowed = header.number;
  port.in_left -= units;
  left_ -= units;
  offer(number);
}

// ---- Sending ----

bool Execution::has_only_confirmation(const Port& port) const {
  return port.out_left == 1 && port.first_owing == kNone && port.first_ready != kNone &&
         roles_[departures_[port.first_ready].role].role->is_confirmation;
}

// Credits first: they are short, and a peer may wait for them. The gate is for what a call is about.
bool Execution::next_message(Port& port, Outgoing& outgoing) {
  if (port.first_owing != kNone) {
    Arrival& arrival = arrivals_[port.first_owing];
    port.first_owing = arrival.next_owing;
    arrival.is_owing = false;
    outgoing = {.header = {.stream = arrival.from.number, .kind = MessageKind::credit, .number = arrival.allowed},
                .units = arrival.allowed - arrival.told};
    arrival.told = arrival.allowed;
    return true;
  }
  if (port.first_ready == kNone) return false;
  const Departure& departure = departures_[port.first_ready];
  const RoleState& state = roles_[departure.role];
  // The gate may hold a slice back, and then the port's other streams, too: they keep their turns.
  if (settings_.gate != nullptr && !state.role->is_confirmation && !may_leave(port, departure)) return false;
  outgoing = {.departure = port.first_ready, .units = 1};
  port.first_ready = departure.next_ready;
  // The first slice of a stream says how long the stream is.
  const bool is_first = departure.sent == 0;
  outgoing.header = {.stream = departure.to.number,
                     .kind = is_first ? MessageKind::first_slice : MessageKind::slice,
                     .number = is_first ? state.role->length : departure.sent};
  if (state.role->length > 0 && command_.codec != nullptr) {
    if (departure.is_contribution) port.coded_out = encode(state, departure.sent, payload(departure));
    const CodedSlice& coded = departure.is_contribution ? port.coded_out : coded_result(state, departure.sent);
    outgoing.body = {coded.block, coded.size};
  } else if (state.role->length > 0) {
    outgoing.body = {payload(departure), bytes_of(state, departure.sent)};
    // A copy of the input goes back to the pool when the execution is over, which a transport may outlast.
    outgoing.lasts = !is_in_slot(departure) && !input_.is_copy();
  }
  outgoing.header.length = outgoing.body.size();
  return true;
}

bool Execution::may_leave(const Port& port, const Departure& departure) {
  const RoleState& state = roles_[departure.role];
  return settings_.gate->admit({.sequence = command_.sequence,
                                .plan = command_.plan.get(),
                                .channel = port.channel,
                                .peer = port.peer,
                                .lane = departure.to.lane,
                                .elements = slice_bytes(state, departure.sent) / size_of(command_.task.type)});
}

void Execution::message_sent(Port& port, const Outgoing& outgoing) {
  port.out_left -= outgoing.units;
  left_ -= outgoing.units;
  if (outgoing.departure == kNone) return;
  give_back(port.coded_out);
  Departure& departure = departures_[outgoing.departure];
  RoleState& state = roles_[departure.role];
  if (state.role->is_confirmation) --confirmations_left_;
  const uint64_t slice = departure.sent++;
  // It goes to the end of the queue: streams of a port take turns, slice by slice.
  departure.is_queued = false;
  offer(outgoing.departure);
  if (departure.is_contribution) {
    // The place of the sum is free again, which may be all that the next one waits for.
    if (state.sums.size > 0) {
      give_slot_back(state, state.sums, slice);
      reduce_waiting(state);
    }
  } else if (state.held.size > 0 || state.coded.size > 0) {
    release_sent(state);
    if (state.role->is_root()) reduce_waiting(state);
  }
}

// ---- What is told about it ----

std::vector<uint32_t> Execution::waits_for() const {
  std::vector<uint32_t> peers;
  for (const RoleState& state : roles_) {
    // Children whose contribution to the next slice is not here.
    for (uint32_t i = 0; i < state.role->in_children.size() && state.final_slices < state.slices; ++i) {
      const Arrival& child = arrivals_[state.first_child + i];
      if (child.received <= state.final_slices) peers.push_back(child.from.peer);
    }
    if (state.from_parent == kNone) continue;
    const Arrival& parent = arrivals_[state.from_parent];
    // The parent owes a result once this rank's contribution to it has gone.
    const bool is_due = state.up == kNone || departures_[state.up].sent > parent.received;
    if (is_due && parent.received < state.slices) peers.push_back(parent.from.peer);
  }
  for (const Departure& departure : departures_) {
    if (departure.sent < departure.ready) peers.push_back(departure.to.peer);
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

}  // namespace banyan::run
