#include "banyan/service/client/executors_in_force.h"

#include <utility>

#include "banyan/base/check.h"

namespace banyan::service {

void ExecutorsInForce::begin_with(std::shared_ptr<run::Executor> first) {
  const std::lock_guard lock(mutex_);
  present_.executor = std::move(first);
}

void ExecutorsInForce::go_over(std::shared_ptr<run::Executor> next, uint32_t generation) {
  CHECK(next && !before_.executor) << "of generation " << generation_;
  const std::lock_guard lock(mutex_);
  before_ = std::move(present_);
  present_ = {.executor = std::move(next), .generation = generation};
  generation_ = generation;
}

std::shared_ptr<run::Executor> ExecutorsInForce::drop_before() {
  if (!before_.executor) return nullptr;
  steps_ended_ += before_.executor->steps();
  progress_ended_ += before_.executor->progress();
  const std::lock_guard lock(mutex_);
  const run::SentBytes sent = before_.executor->sent_bytes();
  sent_ended_.tcp += sent.tcp;
  sent_ended_.shared_memory += sent.shared_memory;
  return std::exchange(before_, Side()).executor;
}

void ExecutorsInForce::drop_all() {
  before_.executor.reset();
  present_.executor.reset();
}

// ---- Calls ----

void ExecutorsInForce::begin(const run::Call& call, const run::CallNumbers& numbers) {
  present().start(call, numbers);
  ++present_.calls;
}

bool ExecutorsInForce::advance() {
  Side& side = before_.calls > 0 ? before_ : present_;
  if (!side.executor->advance()) return false;
  side.calls -= side.calls > 0 ? 1 : 0;
  return true;
}

// Later calls may be given to the next sessions meanwhile, and the present ones become those before.
void ExecutorsInForce::finish(run::Watch& watch) {
  oldest()->finish(watch);
  (before_.calls > 0 ? before_.calls : present_.calls) = 0;
}

// ---- What a watcher sees ----

uint64_t ExecutorsInForce::steps() const {
  return steps_ended_ + present().steps() + (has_before() ? before_.executor->steps() : 0);
}

uint64_t ExecutorsInForce::progress() const {
  return progress_ended_ + present().progress() + (has_before() ? before_.executor->progress() : 0);
}

bool ExecutorsInForce::can_do_without(uint32_t rank) const {
  return present().can_do_without(rank) && (!has_before() || before_.executor->can_do_without(rank));
}

run::SentBytes ExecutorsInForce::sent_bytes() const {
  const std::lock_guard lock(mutex_);
  run::SentBytes sent = sent_ended_;
  for (const Side* const side : {&present_, &before_}) {
    if (!side->executor) continue;
    sent.tcp += side->executor->sent_bytes().tcp;
    sent.shared_memory += side->executor->sent_bytes().shared_memory;
  }
  return sent;
}

// ---- Any thread ----

std::vector<std::shared_ptr<run::Executor>> ExecutorsInForce::both() const {
  const std::lock_guard lock(mutex_);
  if (!before_.executor) return {present_.executor};
  return {present_.executor, before_.executor};
}

void ExecutorsInForce::wake() const {
  const std::lock_guard lock(mutex_);
  for (const Side* const side : {&present_, &before_}) {
    if (side->executor) side->executor->wake();
  }
}

void ExecutorsInForce::break_with(const Error& error) const {
  for (const auto& executor : both()) executor->break_with(error);
}

std::optional<Error> ExecutorsInForce::broken() const {
  for (const auto& executor : both()) {
    if (std::optional<Error> error = executor->broken()) return error;
  }
  return std::nullopt;
}

}  // namespace banyan::service
