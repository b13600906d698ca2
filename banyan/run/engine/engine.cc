#include "banyan/run/engine/engine.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

struct Header {
  uint32_t stream = 0;
  uint32_t is_credit = 0;
  uint64_t slice = 0;  // of the chunk; or, of a credit, how many slices its stream may now have sent
};
static_assert(sizeof(Header) == 16);

// What is known of one chunk at this rank.
struct RoleState {
  const Role* role = nullptr;
  uint64_t slices = 0;
  uint64_t final_slices = 0;     // all contributions are in
  uint32_t next_child = 0;       // whose contribution to the next slice is to be added
  bool is_adding = false;        // it is being read from the transport right now
  uint32_t first_child = kNone;  // of the arrivals of in_children, in their order
  uint32_t up = kNone;           // the departure to in_parent
  uint32_t first_down = kNone;   // of the departures to out_children
  std::byte* sums = nullptr;     // slots where sums wait to be sent up
};

// A stream from a peer: from a child in the in-tree or from the parent in the out-tree.
struct Arrival {
  StreamEnd from;
  uint32_t role = 0;
  bool is_contribution = false;
  uint64_t received = 0, added = 0;  // slices; those between lie in slots
  std::byte* slots = nullptr;
};

// A stream to a peer: to the parent in the in-tree or to a child in the out-tree.
struct Departure {
  StreamEnd to;
  uint32_t role = 0;
  bool is_contribution = false;
  bool is_queued = false;
  uint64_t ready = 0, allowed = 0, sent = 0;  // slices: there is data, there is credit, done
};

// The message that is being read from a peer.
struct Inbox {
  uint64_t messages_left = 0;
  Header header;
  size_t header_bytes = 0;  // arrived
  uint32_t arrival = kNone;
  std::byte* target = nullptr;
  const std::byte* addend = nullptr;  // when set, target[i] = addend[i] op what is read; else it is what is read
  size_t size = 0, done = 0;
  std::byte split[8] = {};  // the first bytes of an element whose other bytes have not arrived
  size_t split_bytes = 0;
};

struct Credit {
  uint32_t stream = 0;
  uint64_t allowed = 0;
};

// The message that is being written to a peer, and what comes next.
struct Outbox {
  std::deque<Credit> credits;
  std::deque<uint32_t> ready;  // departures that have something to send, in turns
  bool is_sending = false;
  Header header;
  uint32_t departure = kNone;  // of a credit: none
  std::span<const std::byte> body;
  size_t done = 0;  // bytes of header and body
};

}  // namespace

class Engine::Impl {
 public:
  Impl(const RankPlan& plan, Transport& transport, const EngineOptions& options);

  void start(std::span<const std::byte> input, std::span<std::byte> output);
  bool progress();
  bool is_done() const { return messages_left_ == 0; }
  uint64_t bytes_sent() const;

 private:
  void add_role(const Role& role);
  uint64_t allocate_slots(std::byte* memory);

  uint64_t begin_of(const RoleState& state, uint64_t slice) const {
    return state.role->begin + slice * options_.slice_elements;
  }
  size_t bytes_of(const RoleState& state, uint64_t slice) const {
    return std::min(options_.slice_elements, state.role->end - begin_of(state, slice)) * element_bytes_;
  }
  size_t slot_bytes(const RoleState& state) const { return bytes_of(state, 0); }
  std::byte* slot(const RoleState& state, std::byte* slots, uint64_t slice) const {
    return slots + slice % options_.window * slot_bytes(state);
  }
  const std::byte* input_at(const RoleState& state, uint64_t slice) const {
    return input_.data() + (begin_of(state, slice) - plan_.input_begin) * element_bytes_;
  }
  std::byte* output_at(const RoleState& state, uint64_t slice) const {
    return output_.data() + (begin_of(state, slice) - plan_.output_begin) * element_bytes_;
  }
  std::byte* sum_at(const RoleState& state, uint64_t slice) const {
    return state.role->is_root ? output_at(state, slice) : slot(state, state.sums, slice);
  }
  std::span<const std::byte> payload(const Departure& departure) const;
  // How many slices of a contribution its sender may send beyond the first `window`, each after a credit.
  uint64_t credits(const RoleState& state) const {
    return state.slices > options_.window ? state.slices - options_.window : 0;
  }

  bool copy_input();

  bool receive(uint32_t peer);
  void open(Inbox& inbox, uint32_t peer);
  void take_credit(Inbox& inbox, uint32_t peer);
  bool receive_body(Inbox& inbox, uint32_t peer);
  bool receive_and_add(Inbox& inbox, uint32_t peer);
  void close(Inbox& inbox);

  bool is_sum_free(const RoleState& state) const;
  const std::byte* addend(const RoleState& state) const;
  void add_waiting(RoleState& state);
  void contribution_added(RoleState& state, Arrival& arrival);
  void slice_is_final(RoleState& state);
  void one_more_ready(uint32_t departure);
  void offer(uint32_t departure);

  bool send(uint32_t peer);
  bool choose_message(Outbox& outbox);
  void message_sent(Outbox& outbox);

  const RankPlan& plan_;
  Transport& transport_;
  const EngineOptions options_;
  const size_t element_bytes_;

  // Fixed by the plan, but for their counters.
  std::vector<uint32_t> peers_;
  std::vector<RoleState> roles_;
  std::vector<Arrival> arrivals_;
  std::vector<Departure> departures_;
  std::vector<std::vector<uint32_t>> arrival_of_, departure_of_;  // by peer, then by number of the stream
  std::unique_ptr<std::byte[]> memory_;                           // all slots

  // Of the execution.
  std::span<const std::byte> input_;
  std::span<std::byte> output_;
  std::vector<Inbox> inboxes_;    // by peer
  std::vector<Outbox> outboxes_;  // by peer
  std::deque<uint32_t> copying_;  // roles whose output is their input, and is not all copied; in turns
  uint64_t messages_left_ = 0;    // in and out, over all peers
};

// ---- From the plan to the streams ----

Engine::Impl::Impl(const RankPlan& plan, Transport& transport, const EngineOptions& options)
    : plan_(plan),
      transport_(transport),
      options_(options),
      element_bytes_(size_of(options.reduction.type)),
      peers_(peers_of(plan)),
      arrival_of_(plan.ranks),
      departure_of_(plan.ranks),
      inboxes_(plan.ranks),
      outboxes_(plan.ranks) {
  CHECK(options.slice_elements >= 1 && options.slice_elements <= kMaxSliceElements) << options.slice_elements;
  CHECK(options.window >= 1);
  for (const uint32_t peer : peers_) {
    arrival_of_[peer].assign(plan.streams_from[peer], kNone);
    departure_of_[peer].assign(plan.streams_to[peer], kNone);
  }
  for (const Role& role : plan.roles) add_role(role);
  memory_ = std::make_unique_for_overwrite<std::byte[]>(allocate_slots(nullptr));
  allocate_slots(memory_.get());
}

void Engine::Impl::add_role(const Role& role) {
  const auto number = static_cast<uint32_t>(roles_.size());
  RoleState state{.role = &role, .slices = (role.end - role.begin - 1) / options_.slice_elements + 1};
  const auto add_arrival = [&](const StreamEnd& from, bool is_contribution) {
    arrival_of_[from.peer][from.number] = static_cast<uint32_t>(arrivals_.size());
    arrivals_.push_back({.from = from, .role = number, .is_contribution = is_contribution});
  };
  const auto add_departure = [&](const StreamEnd& to, bool is_contribution) {
    departure_of_[to.peer][to.number] = static_cast<uint32_t>(departures_.size());
    departures_.push_back({.to = to, .role = number, .is_contribution = is_contribution});
  };
  state.first_child = static_cast<uint32_t>(arrivals_.size());
  for (const StreamEnd& child : role.in_children) add_arrival(child, true);
  if (role.out_parent) add_arrival(*role.out_parent, false);
  if (role.in_parent) {
    state.up = static_cast<uint32_t>(departures_.size());
    add_departure(*role.in_parent, true);
  }
  state.first_down = static_cast<uint32_t>(departures_.size());
  for (const StreamEnd& child : role.out_children) add_departure(child, false);
  roles_.push_back(state);
}

// Lays the slots out from `memory` on; returns their size.
uint64_t Engine::Impl::allocate_slots(std::byte* memory) {
  uint64_t size = 0;
  const auto allocate = [&](const RoleState& state) {
    std::byte* slots = memory == nullptr ? nullptr : memory + size;
    // A cache line each way, so that slots of two streams never share one.
    size += (std::min<uint64_t>(options_.window, state.slices) * slot_bytes(state) + 63) / 64 * 64;
    return slots;
  };
  for (RoleState& state : roles_) {
    if (!state.role->is_root && !state.role->in_children.empty()) state.sums = allocate(state);
  }
  for (Arrival& arrival : arrivals_) {
    if (arrival.is_contribution) arrival.slots = allocate(roles_[arrival.role]);
  }
  return size;
}

uint64_t Engine::Impl::bytes_sent() const {
  uint64_t elements = 0;
  for (const Departure& departure : departures_) {
    elements += roles_[departure.role].role->end - roles_[departure.role].role->begin;
  }
  return elements * element_bytes_;
}

void Engine::Impl::start(std::span<const std::byte> input, std::span<std::byte> output) {
  CHECK(is_done()) << messages_left_ << " messages of the last execution are left";
  CHECK_EQ(input.size(), (plan_.input_end - plan_.input_begin) * element_bytes_);
  CHECK_EQ(output.size(), (plan_.output_end - plan_.output_begin) * element_bytes_);
  input_ = input;
  output_ = output;
  for (Arrival& arrival : arrivals_) {
    const RoleState& state = roles_[arrival.role];
    arrival.received = arrival.added = 0;
    inboxes_[arrival.from.peer].messages_left += state.slices;
    messages_left_ += state.slices + (arrival.is_contribution ? credits(state) : 0);
  }
  for (Departure& departure : departures_) {
    const RoleState& state = roles_[departure.role];
    departure.ready = departure.sent = 0;
    departure.allowed = departure.is_contribution ? std::min<uint64_t>(options_.window, state.slices) : state.slices;
    if (departure.is_contribution) inboxes_[departure.to.peer].messages_left += credits(state);
    messages_left_ += state.slices + (departure.is_contribution ? credits(state) : 0);
  }
  for (uint32_t i = 0; i < roles_.size(); ++i) {
    RoleState& state = roles_[i];
    state.final_slices = 0;
    CHECK(state.next_child == 0 && !state.is_adding);
    if (!state.role->in_children.empty()) continue;
    if (state.role->is_root) {
      copying_.push_back(i);
    } else if (state.up != kNone) {
      departures_[state.up].ready = state.final_slices = state.slices;  // a leaf sends its input as it is
      offer(state.up);
    }
  }
}

bool Engine::Impl::progress() {
  bool moved = copy_input();
  for (const uint32_t peer : peers_) {
    moved |= receive(peer);
    moved |= send(peer);
  }
  return moved;
}

// ---- What this rank does to slices ----

bool Engine::Impl::copy_input() {
  if (copying_.empty()) return false;
  const uint32_t number = copying_.front();
  copying_.pop_front();
  RoleState& state = roles_[number];
  const std::byte* from = input_at(state, state.final_slices);
  std::byte* to = output_at(state, state.final_slices);
  if (from != to) std::memcpy(to, from, bytes_of(state, state.final_slices));
  slice_is_final(state);
  if (state.final_slices < state.slices) copying_.push_back(number);
  return true;
}

// Whether the place of the next sum is not still being sent up with the sum of an earlier slice.
bool Engine::Impl::is_sum_free(const RoleState& state) const {
  return state.role->is_root || state.final_slices < departures_[state.up].sent + options_.window;
}

// What the next contribution is added to.
const std::byte* Engine::Impl::addend(const RoleState& state) const {
  return state.next_child == 0 ? input_at(state, state.final_slices) : sum_at(state, state.final_slices);
}

// Adds contributions that came before their turn and whose turn it is now.
void Engine::Impl::add_waiting(RoleState& state) {
  while (!state.is_adding && state.final_slices < state.slices && is_sum_free(state)) {
    Arrival& arrival = arrivals_[state.first_child + state.next_child];
    if (arrival.added == arrival.received) return;
    const uint64_t slice = state.final_slices;
    options_.reduction(sum_at(state, slice), addend(state), slot(state, arrival.slots, slice),
                       bytes_of(state, slice) / element_bytes_);
    contribution_added(state, arrival);
  }
}

void Engine::Impl::contribution_added(RoleState& state, Arrival& arrival) {
  CHECK_EQ(arrival.added, state.final_slices) << "a contribution to another slice";
  ++arrival.added;
  if (const uint64_t allowed = arrival.added + options_.window; allowed <= state.slices) {
    outboxes_[arrival.from.peer].credits.push_back({.stream = arrival.from.number, .allowed = allowed});
  }
  if (++state.next_child < state.role->in_children.size()) return;
  state.next_child = 0;
  slice_is_final(state);
}

void Engine::Impl::slice_is_final(RoleState& state) {
  ++state.final_slices;
  if (!state.role->is_root) return one_more_ready(state.up);
  for (uint32_t i = 0; i < state.role->out_children.size(); ++i) one_more_ready(state.first_down + i);
}

void Engine::Impl::one_more_ready(uint32_t departure) {
  ++departures_[departure].ready;
  offer(departure);
}

// Queues a departure that may send its next slice.
void Engine::Impl::offer(uint32_t number) {
  Departure& departure = departures_[number];
  if (departure.is_queued || departure.sent >= std::min(departure.ready, departure.allowed)) return;
  departure.is_queued = true;
  outboxes_[departure.to.peer].ready.push_back(number);
}

// ---- Receiving ----

bool Engine::Impl::receive(uint32_t peer) {
  Inbox& inbox = inboxes_[peer];
  if (inbox.messages_left == 0) return false;  // what may follow belongs to the next execution
  bool moved = false;
  if (inbox.header_bytes < sizeof inbox.header) {
    const auto header = std::as_writable_bytes(std::span(&inbox.header, 1));
    const size_t count = transport_.read(peer, header.subspan(inbox.header_bytes));
    inbox.header_bytes += count;
    if (inbox.header_bytes < sizeof inbox.header) return count > 0;
    open(inbox, peer);
    moved = true;
  }
  if (inbox.done < inbox.size) {
    moved |= receive_body(inbox, peer);
    if (inbox.done < inbox.size) return moved;
  }
  close(inbox);
  return true;
}

Error of_another_plan(uint32_t peer, const Header& header) {
  return Error(ErrorCode::mismatch, "rank " + std::to_string(peer) + " follows another plan: it sent " +
                                        (header.is_credit != 0 ? "credit for slice " : "slice ") +
                                        std::to_string(header.slice) + " of stream " + std::to_string(header.stream) +
                                        ", which is not expected now");
}

// Decides where the message goes whose header has arrived.
void Engine::Impl::open(Inbox& inbox, uint32_t peer) {
  const Header& header = inbox.header;
  inbox.size = inbox.done = 0;
  inbox.arrival = kNone;
  if (header.is_credit != 0) return take_credit(inbox, peer);
  if (header.stream >= arrival_of_[peer].size()) throw of_another_plan(peer, header);
  inbox.arrival = arrival_of_[peer][header.stream];
  const Arrival& arrival = arrivals_[inbox.arrival];
  RoleState& state = roles_[arrival.role];
  const uint64_t slice = arrival.received;
  if (header.slice != slice || slice >= state.slices) throw of_another_plan(peer, header);
  inbox.size = bytes_of(state, slice);
  inbox.addend = nullptr;
  if (!arrival.is_contribution) {
    inbox.target = output_at(state, slice);
    return;
  }
  if (slice - arrival.added >= options_.window) throw of_another_plan(peer, header);
  const bool is_its_turn =
      slice == state.final_slices && is_sum_free(state) && inbox.arrival == state.first_child + state.next_child;
  if (is_its_turn) {
    inbox.target = sum_at(state, slice);
    inbox.addend = addend(state);
    state.is_adding = true;
  } else {
    inbox.target = slot(state, arrival.slots, slice);
  }
}

void Engine::Impl::take_credit(Inbox& inbox, uint32_t peer) {
  const Header& header = inbox.header;
  if (header.stream >= departure_of_[peer].size()) throw of_another_plan(peer, header);
  const uint32_t number = departure_of_[peer][header.stream];
  Departure& departure = departures_[number];
  if (!departure.is_contribution || header.slice != departure.allowed + 1 ||
      header.slice > roles_[departure.role].slices) {
    throw of_another_plan(peer, header);
  }
  ++departure.allowed;
  offer(number);
}

bool Engine::Impl::receive_body(Inbox& inbox, uint32_t peer) {
  if (inbox.addend != nullptr) return receive_and_add(inbox, peer);
  const size_t count = transport_.read(peer, {inbox.target + inbox.done, inbox.size - inbox.done});
  inbox.done += count;
  return count > 0;
}

bool Engine::Impl::receive_and_add(Inbox& inbox, uint32_t peer) {
  bool moved = false;
  while (inbox.done < inbox.size) {
    const std::span<const std::byte> arrived = transport_.peek(peer);
    if (arrived.empty()) break;
    moved = true;
    const auto add = [&](const std::byte* bytes, size_t count) {
      options_.reduction(inbox.target + inbox.done, inbox.addend + inbox.done, bytes, count);
      inbox.done += count * element_bytes_;
    };
    if (inbox.split_bytes > 0 || arrived.size() < element_bytes_) {
      const std::span<std::byte> rest(inbox.split + inbox.split_bytes, element_bytes_ - inbox.split_bytes);
      inbox.split_bytes += transport_.read(peer, rest);
      if (inbox.split_bytes < element_bytes_) continue;
      add(inbox.split, 1);
      inbox.split_bytes = 0;
    } else {
      const size_t count = std::min(arrived.size(), inbox.size - inbox.done) / element_bytes_;
      add(arrived.data(), count);
      transport_.consume(peer, count * element_bytes_);
    }
  }
  return moved;
}

// The message is complete.
void Engine::Impl::close(Inbox& inbox) {
  inbox.header_bytes = 0;
  --inbox.messages_left;
  --messages_left_;
  if (inbox.arrival == kNone) return;
  Arrival& arrival = arrivals_[inbox.arrival];
  RoleState& state = roles_[arrival.role];
  ++arrival.received;
  if (!arrival.is_contribution) {
    for (uint32_t i = 0; i < state.role->out_children.size(); ++i) one_more_ready(state.first_down + i);
    return;
  }
  if (inbox.addend != nullptr) {
    state.is_adding = false;
    contribution_added(state, arrival);
  }
  add_waiting(state);
}

// ---- Sending ----

bool Engine::Impl::send(uint32_t peer) {
  Outbox& outbox = outboxes_[peer];
  if (!outbox.is_sending && !choose_message(outbox)) return false;
  const auto header = std::as_bytes(std::span(&outbox.header, 1));
  const size_t of_header = std::min(outbox.done, header.size());
  const size_t count = transport_.write(peer, header.subspan(of_header), outbox.body.subspan(outbox.done - of_header));
  outbox.done += count;
  if (outbox.done == header.size() + outbox.body.size()) message_sent(outbox);
  return count > 0;
}

// Credits first: they are short, and a peer may wait for them.
bool Engine::Impl::choose_message(Outbox& outbox) {
  if (!outbox.credits.empty()) {
    const Credit credit = outbox.credits.front();
    outbox.credits.pop_front();
    outbox.departure = kNone;
    outbox.header = {.stream = credit.stream, .is_credit = 1, .slice = credit.allowed};
    outbox.body = {};
  } else if (!outbox.ready.empty()) {
    outbox.departure = outbox.ready.front();
    outbox.ready.pop_front();
    const Departure& departure = departures_[outbox.departure];
    outbox.header = {.stream = departure.to.number, .is_credit = 0, .slice = departure.sent};
    outbox.body = payload(departure);
  } else {
    return false;
  }
  outbox.done = 0;
  outbox.is_sending = true;
  return true;
}

// The next slice of a departure.
std::span<const std::byte> Engine::Impl::payload(const Departure& departure) const {
  const RoleState& state = roles_[departure.role];
  const uint64_t slice = departure.sent;
  const size_t size = bytes_of(state, slice);
  if (!departure.is_contribution) return {output_at(state, slice), size};
  if (state.role->in_children.empty()) return {input_at(state, slice), size};
  return {sum_at(state, slice), size};
}

void Engine::Impl::message_sent(Outbox& outbox) {
  outbox.is_sending = false;
  --messages_left_;
  if (outbox.departure == kNone) return;
  Departure& departure = departures_[outbox.departure];
  ++departure.sent;
  departure.is_queued = false;
  offer(outbox.departure);
  RoleState& state = roles_[departure.role];
  if (departure.is_contribution && !state.role->in_children.empty()) add_waiting(state);
}

// ---- The interface ----

Engine::Engine(const RankPlan& plan, Transport& transport, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(plan, transport, options)) {}

Engine::~Engine() = default;

void Engine::start(std::span<const std::byte> input, std::span<std::byte> output) { impl_->start(input, output); }

bool Engine::progress() { return impl_->progress(); }

bool Engine::is_done() const { return impl_->is_done(); }

uint64_t Engine::bytes_sent_per_execution() const { return impl_->bytes_sent(); }

}  // namespace banyan
