// How an execution begins and ends: the states that a plan needs.
#include <algorithm>

#include "banyan/base/check.h"
#include "banyan/run/engine/execution.h"

namespace banyan::run {

Execution::~Execution() { give_windows_back(); }

// ---- From the plan to the streams ----

void Execution::StreamTable::lay_out(std::span<const uint32_t> counts) {
  first_.clear();
  uint32_t sum = 0;
  for (const uint32_t count : counts) {
    first_.push_back(sum);
    sum += count;
  }
  entries_.assign(sum, kNone);
}

void Execution::prepare() {
  // All that follows from the plan alone is laid out once, and serves later commands with the same plan.
  const RankPlan& plan = *command_.plan;
  roles_.clear();
  arrivals_.clear();
  departures_.clear();
  slots_.clear();
  coded_.clear();
  for (const Port& port : ports_) port_of_channel_[port.channel] = kNone;
  ports_.clear();
  confirmation_ = kNone;
  arrival_of_.lay_out(plan.streams_from);
  departure_of_.lay_out(plan.streams_to);
  size_t most_children = 0;
  for (const Role& role : plan.roles) {
    add_role(role);
    most_children = std::max(most_children, role.in_children.size());
  }
  sources_.reserve(most_children + 2);  // with the input and the residual
}

void Execution::add_role(const Role& role) {
  const auto number = static_cast<uint32_t>(roles_.size());
  RoleState state{.role = &role};
  if (role.length > 0) state.slices = (role.length - 1) / prepared_.slice_elements + 1;
  const auto add_arrival = [&](const StreamEnd& from, bool is_contribution) {
    const auto arrival = static_cast<uint32_t>(arrivals_.size());
    arrival_of_.at(from.peer, from.number) = arrival;
    const Window slots = is_contribution ? add_window(state.slices) : Window();
    arrivals_.push_back({.from = from, .role = number, .port = port_to(from), .is_contribution = is_contribution});
    arrivals_.back().slots = slots;
    return arrival;
  };
  const auto add_departure = [&](const StreamEnd& to, bool is_contribution) {
    const auto departure = static_cast<uint32_t>(departures_.size());
    departure_of_.at(to.peer, to.number) = departure;
    departures_.push_back({.to = to, .role = number, .port = port_to(to), .is_contribution = is_contribution});
    return departure;
  };
  const bool reduces = !role.in_children.empty();
  CHECK(role.length == 0 || role.input_at || reduces || role.out_parent) << "a role that has nothing to send on";
  if (role.is_confirmation && role.says_anything()) {
    CHECK(role.length == 0 && confirmation_ == kNone);
    confirmation_ = number;
  }
  // Arrivals of a role stand together, children first; so do its departures.
  state.first_child = static_cast<uint32_t>(arrivals_.size());
  for (const StreamEnd& child : role.in_children) add_arrival(child, true);
  if (role.out_parent) state.from_parent = add_arrival(*role.out_parent, false);
  if (role.in_parent) state.up = add_departure(*role.in_parent, true);
  state.first_down = static_cast<uint32_t>(departures_.size());
  for (const StreamEnd& child : role.out_children) add_departure(child, false);
  // Places are kept where a slice may have to wait: for the way up, and for the way down where it has no output.
  if (reduces && role.in_parent) state.sums = add_window(state.slices);
  if (prepared_.is_coded && role.length > 0 && !role.out_children.empty()) {
    // A receiver with an output has promised to take all that its parent sends.
    const bool takes_all = role.out_parent && role.output_at;
    state.coded = add_coded_window(takes_all ? state.slices : std::min<uint64_t>(prepared_.window, state.slices));
  } else if (!role.output_at && (role.out_parent || (reduces && role.is_root()))) {
    state.held = add_window(state.slices);
  }
  roles_.push_back(state);
}

Execution::Window Execution::add_window(uint64_t slices) {
  const Window window{.first = static_cast<uint32_t>(slots_.size()),
                      .size = static_cast<uint32_t>(std::min<uint64_t>(prepared_.window, slices))};
  slots_.resize(slots_.size() + window.size, nullptr);
  return window;
}

Execution::Window Execution::add_coded_window(uint64_t slices) {
  const Window window{.first = static_cast<uint32_t>(coded_.size()), .size = static_cast<uint32_t>(slices)};
  coded_.resize(coded_.size() + window.size);
  return window;
}

uint32_t Execution::port_to(const StreamEnd& end) {
  // Lanes that are one channel share a port.
  const bool is_mapped = settings_.channel != nullptr && *settings_.channel;
  const uint32_t channel = is_mapped ? (*settings_.channel)({.peer = end.peer, .lane = end.lane}) : end.peer;
  if (channel >= port_of_channel_.size()) port_of_channel_.resize(channel + 1, kNone);
  uint32_t& port = port_of_channel_[channel];
  if (port == kNone) {
    port = static_cast<uint32_t>(ports_.size());
    ports_.push_back({.channel = channel, .peer = end.peer});
  }
  CHECK_EQ(ports_[port].peer, end.peer) << "two ranks behind channel " << channel;
  return port;
}

// ---- From the command to the first slices ----

void Execution::begin(const EngineCommand& command) {
  command_ = command;
  const size_t element_bytes = element::size_of(command.task.type);
  const RankPlan& plan = *command.plan;
  // The size of a slice, in elements: as many as fit, but whole blocks of a codec.
  const uint64_t block = command.codec != nullptr ? command.codec->block_elements() : 1;
  const uint64_t slice_bytes = plan.slice_bytes > 0 ? plan.slice_bytes : settings_.slice_bytes;
  const uint64_t block_bytes =
      command.codec != nullptr ? command.codec->most_bytes(command.task.type, block) : element_bytes;
  CHECK_EQ(command.input.size(), plan.input_elements * element_bytes);
  CHECK_EQ(command.output.size(), plan.output_elements * element_bytes);
  CHECK(command.residual.size() == command.lost.size());
  CHECK(command.residual.empty() ||
        (command.codec != nullptr && command.codec->is_lossy() && command.residual.size() == command.input.size()));
  const Preparation wanted = {.plan = command.plan,
                              .element_bytes = element_bytes,
                              .slice_elements = std::max<uint64_t>(1, slice_bytes / block_bytes) * block,
                              .window = plan.window > 0 ? plan.window : settings_.window,
                              .is_coded = command.codec != nullptr};
  // The same plan, used alike, is not looked through again.
  if (prepared_ != wanted) {
    prepared_ = wanted;
    prepare();
  }
  input_.begin(command.input, command.output, {.shuffles = plan.shuffles, .can_rewind = settings_.can_rewind});
  // Counters begin anew, then each role begins with what is ready without any message.
  left_ = results_left_ = confirmations_left_ = 0;
  reset_streams();
  copying_.clear();
  next_copy_ = 0;
  for (uint32_t i = 0; i < roles_.size(); ++i) begin_role(i);
  // No result is to come here: the confirmation may go at once.
  if (results_left_ == 0) return open_confirmation();
  for (RoleState& state : roles_) {
    if (state.coded.size > 0 && state.role->is_root() && state.role->in_children.empty()) reduce_waiting(state);
  }
}

void Execution::reset_streams() {
  for (Port& port : ports_) {
    port = {.owner = this, .channel = port.channel, .peer = port.peer};
  }
  for (Arrival& arrival : arrivals_) {
    // A window of slices may come without credit; each one beyond it costs a credit the other way.
    const uint64_t slices = roles_[arrival.role].slices;
    if (roles_[arrival.role].role->is_confirmation) confirmations_left_ += slices;
    arrival.received = arrival.used = 0;
    arrival.allowed = arrival.told = std::min<uint64_t>(prepared_.window, slices);
    arrival.is_owing = false;
    ports_[arrival.port].in_left += slices;
    if (arrival.from.is_windowed) ports_[arrival.port].out_left += credits(slices);
  }
  for (Departure& departure : departures_) {
    const uint64_t slices = roles_[departure.role].slices;
    if (roles_[departure.role].role->is_confirmation) confirmations_left_ += slices;
    departure.ready = departure.sent = 0;
    // Without a window a slice may leave as soon as it is ready.
    departure.allowed = departure.to.is_windowed ? std::min<uint64_t>(prepared_.window, slices) : slices;
    departure.is_queued = false;
    ports_[departure.port].out_left += slices;
    if (departure.to.is_windowed) ports_[departure.port].in_left += credits(slices);
  }
  for (const Port& port : ports_) left_ += port.in_left + port.out_left;
}

void Execution::begin_role(uint32_t number) {
  RoleState& state = roles_[number];
  const Role& role = *state.role;
  state.final_slices = state.released = 0;
  state.is_adding = false;
  state.is_open = !role.is_confirmation;
  // Results are counted before anything moves: has_result() says when they are all there.
  const bool codes_result = state.coded.size > 0 && role.is_root();
  const bool reduces = !role.in_children.empty() || codes_result;
  if (!role.is_confirmation) {
    if (role.out_parent) results_left_ += state.slices;
    if (reduces && role.is_root()) results_left_ += state.slices;
  }
  // Roles that reduce wait for their children, and the confirmation waits for all other roles.
  if (reduces || !state.is_open) return;
  state.final_slices = state.slices;  // what this rank contributes is all there is
  if (role.in_parent) {
    departures_[state.up].ready = state.slices;
    offer(state.up);
  }
  if (!role.is_root()) return;
  for (uint32_t i = 0; i < role.out_children.size(); ++i) {
    departures_[state.first_down + i].ready = state.slices;
    offer(state.first_down + i);
  }
  // The root's own output is a copy of its input, unless they are the same place.
  if (role.output_at && role.length > 0 && input_at(state, 0) != output_at(state, 0)) {
    state.final_slices = 0;  // counts what is copied
    copying_.push_back(number);
    left_ += state.slices;
    results_left_ += state.slices;
  }
}

// ---- To the end ----

// All that stands half way goes back to the pool. The input can still be restored.
void Execution::stop() {
  give_windows_back();
  left_ = confirmations_left_ = 0;
}

void Execution::release_buffers() {
  CHECK(is_over()) << "execution " << command_.sequence << " still needs its buffers";
  input_.forget();
  command_.input = {};
  command_.output = {};
}

void Execution::end() {
  DCHECK(std::all_of(slots_.begin(), slots_.end(), [](const std::byte* slot) { return slot == nullptr; }));
  input_.forget();
  command_ = {};
}

void Execution::forget_plan() { prepared_ = {}; }

void Execution::give_windows_back() {
  const auto empty = [&](const RoleState& state, const Window& window) {
    for (uint32_t i = 0; i < window.size; ++i) give_slot_back(state, window, i);
  };
  for (const RoleState& state : roles_) {
    empty(state, state.sums);
    empty(state, state.held);
  }
  for (const Arrival& arrival : arrivals_) empty(roles_[arrival.role], arrival.slots);
  for (CodedSlice& coded : coded_) give_back(coded);
  for (Port& port : ports_) {
    give_back(port.coded_in);
    give_back(port.coded_out);
  }
}

}  // namespace banyan::run
