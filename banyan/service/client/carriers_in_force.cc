#include "banyan/service/client/carriers_in_force.h"

#include "banyan/base/check.h"

namespace banyan::service {

void CarriersInForce::begin_with(std::shared_ptr<Carrier> first) {
  const std::lock_guard lock(mutex_);
  present_.carrier = std::move(first);
}

void CarriersInForce::go_over(std::shared_ptr<Carrier> next) {
  CHECK(next && !before_.carrier) << "of generation " << generation();
  const std::lock_guard lock(mutex_);
  before_ = std::move(present_);
  present_ = {.carrier = std::move(next), .calls = 0};
  generation_ = present_.carrier->generation;
}

std::shared_ptr<CarriersInForce::Carrier> CarriersInForce::drop_before() {
  if (!before_.carrier) return nullptr;
  steps_ended_ += before_.executor()->steps();
  progress_ended_ += before_.executor()->progress();
  const std::lock_guard lock(mutex_);
  const run::SentBytes sent = before_.executor()->sent_bytes();
  sent_ended_.tcp += sent.tcp;
  sent_ended_.shared_memory += sent.shared_memory;
  return std::exchange(before_, Side()).carrier;
}

void CarriersInForce::drop_all() {
  before_.carrier.reset();
  present_.carrier.reset();
}

// ---- Calls ----

void CarriersInForce::begin(const run::Call& call, const run::CallNumbers& numbers) {
  present().start(call, numbers);
  ++present_.calls;
}

bool CarriersInForce::advance() {
  Side& side = before_.calls > 0 ? before_ : present_;
  if (!side.executor()->advance()) return false;
  side.calls -= side.calls > 0 ? 1 : 0;
  return true;
}

// Later calls may be given to the next sessions meanwhile, and the present ones become those before.
void CarriersInForce::finish(run::Watch& watch) {
  oldest()->executor->finish(watch);
  (before_.calls > 0 ? before_.calls : present_.calls) = 0;
}

// ---- What a watcher sees ----

uint64_t CarriersInForce::steps() const {
  return steps_ended_ + present().steps() + (has_before() ? before_.executor()->steps() : 0);
}

uint64_t CarriersInForce::progress() const {
  return progress_ended_ + present().progress() + (has_before() ? before_.executor()->progress() : 0);
}

bool CarriersInForce::can_do_without(uint32_t rank) const {
  return present().can_do_without(rank) && (!has_before() || before_.executor()->can_do_without(rank));
}

run::SentBytes CarriersInForce::sent_bytes() const {
  const std::lock_guard lock(mutex_);
  run::SentBytes sent = sent_ended_;
  for (const Side* const side : {&present_, &before_}) {
    if (!side->carrier) continue;
    sent.tcp += side->executor()->sent_bytes().tcp;
    sent.shared_memory += side->executor()->sent_bytes().shared_memory;
  }
  return sent;
}

// ---- Any thread ----

std::pair<std::shared_ptr<CarriersInForce::Carrier>, std::shared_ptr<CarriersInForce::Carrier>> CarriersInForce::both()
    const {
  const std::lock_guard lock(mutex_);
  return {present_.carrier, before_.carrier};
}

void CarriersInForce::wake() const {
  const std::lock_guard lock(mutex_);
  for (const Side* const side : {&present_, &before_}) {
    if (side->carrier) side->executor()->wake();
  }
}

void CarriersInForce::break_with(const Error& error) const {
  const auto [present, before] = both();
  present->executor->break_with(error);
  if (before) before->executor->break_with(error);
}

std::optional<Error> CarriersInForce::broken() const {
  const auto [present, before] = both();
  std::optional<Error> error = present->executor->broken();
  if (!error && before) error = before->executor->broken();
  return error;
}

}  // namespace banyan::service
