#include "banyan/run/engine/engine.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::run {
namespace {

// How many of the executions that ended last are looked at for one that knows the plan.
constexpr size_t kRemembered = 8;

}  // namespace

Engine::Engine(Transport& transport, EngineOptions options) : transport_(transport), options_(std::move(options)) {
  CHECK(options_.slice_bytes >= 1 && options_.window >= 1) << options_.slice_bytes << " x " << options_.window;
}

// ---- Starting ----

// One that knows the plan, if one of the last does.
uint32_t Engine::free_place(const std::shared_ptr<const RankPlan>& plan) {
  if (free_.empty()) {
    const Execution::Settings settings{.slice_bytes = options_.slice_bytes,
                                       .window = options_.window,
                                       .can_rewind = options_.can_rewind,
                                       .channel = &options_.channel,
                                       .gate = options_.gate};
    free_.push_back(static_cast<uint32_t>(places_.size()));
    places_.push_back({.execution = std::make_unique<Execution>(pool_, settings)});
  }
  size_t chosen = free_.size() - 1;
  for (size_t i = 0; i < std::min(kRemembered, free_.size()); ++i) {
    const size_t candidate = free_.size() - 1 - i;
    if (!places_[free_[candidate]].execution->is_prepared_for(plan)) continue;
    chosen = candidate;
    break;
  }
  const uint32_t number = free_[chosen];
  free_.erase(free_.begin() + static_cast<ptrdiff_t>(chosen));
  return number;
}

Engine::Ticket Engine::start(const EngineCommand& command) {
  CHECK_EQ(suspended_, 0u) << "executions are neither restarted nor completed";
  const uint32_t number = free_place(command.plan);
  Place& place = places_[number];
  place.serial = ++serials_;
  place.state = State::running;
  ++running_;
  try {
    // If it cannot begin, it is as if it had not been started.
    place.execution->begin(command);
    join_channels(place);
  } catch (...) {
    place.execution->stop();
    place.execution->forget_plan();
    free(number);
    throw;
  }
  const Ticket ticket{.place = number, .serial = place.serial};
  if (place.execution->is_done()) free(number);
  return ticket;
}

void Engine::make_channel(uint32_t number) {
  if (number >= channels_.size()) {
    channels_.resize(number + 1);
    is_active_.resize(number + 1);
  }
  if (channels_[number] == nullptr) channels_[number] = std::make_unique<Channel>(number);
}

void Engine::join_channels(Place& place) {
  // First all that can fail, so that no channel is left with a port of an execution that has not begun.
  for (const Execution::Port& port : place.execution->ports()) make_channel(port.channel);
  active_.reserve(channels_.size());
  copying_.reserve(running_);
  for (Execution::Port& port : place.execution->ports()) {
    Channel& channel = *channels_[port.channel];
    channel.add(port);
    if (is_active_[port.channel] || channel.is_idle()) continue;
    is_active_[port.channel] = true;
    active_.push_back(&channel);
  }
  if (place.execution->has_copies()) copying_.push_back(place.execution.get());
}

// ---- Going on ----

bool Engine::progress(size_t budget) {
  if (failure_) throw Error(*failure_);
  CHECK_EQ(suspended_, 0u) << "executions are neither restarted nor completed";
  bool moved = false;
  waits_for_peers_ = true;
  try {
    // A failure is kept: every further step says the same until somebody sees to it.
    moved = serve_channels(budget);
  } catch (const Error& error) {
    failure_ = error;
    throw;
  }
  moved |= copy_some();
  waits_for_peers_ &= copying_.empty();
  lets_go_ = lets_go_ && is_holding();
  steps_ += moved ? 1 : 0;
  return moved;
}

// One slice, of the execution whose turn it is.
bool Engine::copy_some() {
  if (copying_.empty()) return false;
  Execution& execution = *copying_.front();
  copying_.erase(copying_.begin());
  execution.copy_slice();
  if (execution.has_copies()) copying_.push_back(&execution);
  if (execution.is_done()) finish(execution);
  return true;
}

void Engine::release_buffers(Ticket ticket) {
  CHECK(is_over(ticket)) << "execution " << ticket.serial << " is not over";
  if (is_in(ticket, State::running)) places_[ticket.place].execution->release_buffers();
}

bool Engine::is_holding() const {
  return std::any_of(active_.begin(), active_.end(), [](const Channel* channel) { return channel->is_holding(); });
}

// What comes behind a confirmation may have come with it.
bool Engine::receive(Channel& channel, size_t& allowance) {
  bool moved = false;
  do {
    Execution* finished = nullptr;
    moved |= channel.receive(transport_, allowance, finished);
    if (finished != nullptr) finish(*finished);
  } while (channel.has_read_confirmation() && allowance > 0);
  return moved;
}

// At most a message each way for each channel, and confirmations.
bool Engine::serve_channels(size_t allowance) {
  bool moved = false;
  const size_t count = active_.size();
  // Each step begins with another channel: with a budget none is passed over for ever (4).
  next_ = count == 0 ? 0 : (next_ + 1) % count;
  for (size_t i = 0; i < count && allowance > 0; ++i) {
    Channel& channel = *active_[(next_ + i) % count];
    const bool has_received = receive(channel, allowance);
    moved |= has_received;
    Execution* sent = nullptr;
    moved |= channel.send(transport_, allowance, sent, !lets_go_);
    for (Execution* const ended : {channel.take_confirmed(), sent}) {
      if (ended != nullptr) finish(*ended);
    }
    waits_for_peers_ &= !has_received && !channel.has_more_to_send();
  }
  waits_for_peers_ &= allowance > 0;
  // Channels without turns cost later steps nothing.
  std::erase_if(active_, [&](const Channel* channel) {
    if (channel->is_idle()) is_active_[channel->number()] = false;
    return channel->is_idle();
  });
  return moved;
}

void Engine::finish(Execution& execution) {
  const auto place = std::find_if(places_.begin(), places_.end(),
                                  [&](const Place& candidate) { return candidate.execution.get() == &execution; });
  free(static_cast<uint32_t>(place - places_.begin()));
}

void Engine::free(uint32_t number) {
  Place& place = places_[number];
  place.execution->end();
  place.state = State::free;
  free_.push_back(number);
  --running_;
}

// ---- When something is lost ----

std::vector<uint32_t> Engine::places_in(State state) const {
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < places_.size(); ++i) {
    if (places_[i].state == state) found.push_back(i);
  }
  std::sort(found.begin(), found.end(), [&](uint32_t a, uint32_t b) { return places_[a].serial < places_[b].serial; });
  return found;
}

void Engine::leave_channels() {
  for (Channel* const channel : active_) channel->reset();
  active_.clear();
  copying_.clear();
  is_active_.assign(is_active_.size(), false);
  failure_.reset();
}

std::vector<Engine::Suspended> Engine::suspend() {
  CHECK(options_.can_rewind) << "the engine has not kept what it overwrote";
  CHECK_EQ(suspended_, 0u) << "executions are neither restarted nor completed";
  leave_channels();
  std::vector<Suspended> suspended;
  // In the order of the starts, which is that in which they are to be restarted.
  for (const uint32_t number : places_in(State::running)) {
    Place& place = places_[number];
    suspended.push_back({.ticket = {.place = number, .serial = place.serial},
                         .sequence = place.execution->command().sequence,
                         .has_result = place.execution->has_result()});
    place.execution->stop();
    place.state = State::suspended;
  }
  suspended_ = suspended.size();
  // Other channels may stand for the same lanes from now on.
  for (Place& place : places_) place.execution->forget_plan();
  return suspended;
}

void Engine::restart(Ticket ticket, std::shared_ptr<const RankPlan> plan) {
  CHECK(is_in(ticket, State::suspended)) << "execution " << ticket.serial << " is not suspended";
  EngineCommand command = places_[ticket.place].execution->command();
  command.plan = std::move(plan);
  restart(ticket, command);
}

void Engine::restart(Ticket ticket, const EngineCommand& command) {
  CHECK(is_in(ticket, State::suspended)) << "execution " << ticket.serial << " is not suspended";
  Place& place = places_[ticket.place];
  place.execution->restore_input();
  place.execution->begin(command);
  join_channels(place);
  place.state = State::running;
  --suspended_;
  if (place.execution->is_done()) free(ticket.place);
}

void Engine::complete(Ticket ticket) {
  CHECK(is_in(ticket, State::suspended)) << "execution " << ticket.serial << " is not suspended";
  CHECK(places_[ticket.place].execution->has_result()) << "execution " << ticket.serial << " has no result";
  --suspended_;
  free(ticket.place);
}

void Engine::drop(Ticket ticket) {
  CHECK(is_in(ticket, State::suspended)) << "execution " << ticket.serial << " is not suspended";
  places_[ticket.place].execution->restore_input();
  --suspended_;
  free(ticket.place);
}

// ---- What is told about it ----

std::vector<Engine::Waiting> Engine::waiting_for() const {
  std::vector<Waiting> waiting;
  for (const uint32_t number : places_in(State::running)) {
    const Execution& execution = *places_[number].execution;
    waiting.push_back({.sequence = execution.command().sequence, .peers = execution.waits_for()});
  }
  return waiting;
}

uint64_t Engine::messages_sent() const {
  uint64_t sum = 0;
  for (const auto& channel : channels_) sum += channel == nullptr ? 0 : channel->message_count();
  return sum;
}

}  // namespace banyan::run
