#include "banyan/run/agent/core.h"

#include <utility>

#include "banyan/base/error.h"

namespace banyan::run {

AgentCore::AgentCore(Timers& timers, Dialer& dialer, ProcessObserver& processes, Options options, Events events)
    : processes_(processes),
      events_(std::move(events)),
      liveness_(static_cast<uint32_t>(options.names.size())),
      connections_(timers, dialer, {.own = options.own, .size = liveness_.size(), .lost_after = options.lost_after},
                   {.received = [this](uint32_t rank, const Message& message) { received(rank, message); },
                    .connected =
                        [this](uint32_t rank) {
                          hub_.connected(rank);
                          check_joined();
                        },
                    .lost = [this](uint32_t rank, const std::string& why) { hub_.lost(rank, why); }}),
      hub_(timers, connections_, liveness_,
           {.own = options.own, .heartbeat = options.heartbeat, .silent_after = options.silent_after}, options.names,
           {.changed = [this](uint32_t rank) { changed(rank); },
            .process_is_watched = [this](uint32_t rank) { return processes_.is_watched(rank); }}),
      queries_(timers, connections_, hub_, liveness_, *hooks_, options.own),
      membership_(timers, connections_, liveness_, options.own) {}

void AgentCore::start() {
  hub_.start();
  check_joined();
}

void AgentCore::check_joined() {
  if (is_joined_ || !hub_.is_joined()) return;
  is_joined_ = true;
  events_.joined();
}

void AgentCore::received(uint32_t rank, const Message& message) {
  hub_.note_sign_of_life(rank);
  if (!hub_.received(rank, message) && !queries_.received(rank, message) && !membership_.received(rank, message)) {
    throw Error(ErrorCode::invalid_input, "a message of kind " + std::to_string(message.kind));
  }
}

void AgentCore::changed(uint32_t rank) {
  check_joined();
  if (liveness_.is_gone(rank)) processes_.forget(rank);
  events_.changed(rank);
  queries_.changed();
  membership_.changed(rank);
  hooks_->liveness_changed();
}

}  // namespace banyan::run
