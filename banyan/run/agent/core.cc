#include "banyan/run/agent/core.h"

#include <unistd.h>

#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/host_names.h"

namespace banyan::run {

namespace {

std::vector<uint32_t> hosts_of(const AgentCore::Options& options) {
  std::vector<uint32_t> hosts = options.hosts;
  while (hosts.size() < options.names.size()) hosts.push_back(static_cast<uint32_t>(hosts.size()));
  return hosts;
}

}  // namespace

AgentCore::AgentCore(Timers& timers, Dialer& dialer, ProcessObserver& processes, Options options, Events events)
    : processes_(processes),
      events_(std::move(events)),
      own_(options.own),
      liveness_(static_cast<uint32_t>(options.names.size())),
      connections_(timers, dialer, {.own = options.own, .size = liveness_.size()}, connection_events()),
      suspicion_(timers, connections_, liveness_,
                 {.own = options.own, .hosts = hosts_of(options), .lost_after = options.lost_after},
                 {.is_watched = [this](uint32_t rank) { return processes_.is_watched(rank); },
                  .matters =
                      [this](uint32_t rank) {
                        return hub_.is_own() || hub_.rank() == rank || connections_.has_unconfirmed(rank);
                      },
                  .concluded = [this](uint32_t rank, const std::string& why,
                                      Suspicion::Reason reason) { hub_.suspicion_concluded(rank, why, reason); },
                  .send_gone = [this](uint32_t asker, uint32_t rank) { hub_.send_gone(asker, rank); }}),
      hub_(timers, connections_, liveness_,
           {.own = options.own,
            .heartbeat = options.heartbeat,
            .silent_after = options.silent_after,
            .lost_after = options.lost_after},
           options.names,
           {.changed = [this](uint32_t rank) { changed(rank); },
            .process_is_watched = [this](uint32_t rank) { return processes_.is_watched(rank); },
            .seems_to_live =
                [this](uint32_t rank) {
                  return suspicion_.has_sign_of(rank) ||
                         (connections_.is_connected(rank) && !suspicion_.is_suspect(rank));
                }}),
      queries_(timers, connections_, hub_, liveness_, *hooks_, options.own),
      membership_(timers, connections_, liveness_, options.own) {
  hooks_->show_by([this](std::vector<CommunicatorView> communicators) { return show(std::move(communicators)); });
}

// Called only when all are made.
AgentConnections::Events AgentCore::connection_events() {
  return {.received = [this](uint32_t rank, const Message& message) { received(rank, message); },
          .connected =
              [this](uint32_t rank) {
                hub_.connected(rank);
                check_joined();
              },
          .sign_of_life = [this](uint32_t rank) { suspicion_.sign_of_life(rank); },
          .unreachable = [this](uint32_t rank, const std::string& why,
                                bool is_orderly) { suspicion_.unreachable(rank, why, is_orderly); },
          .refused = [this](uint32_t rank) { suspicion_.refused(rank); },
          .unanswered = events_.unanswered,
          .dropped =
              [](uint32_t rank, size_t waiting) {
                BANYAN_LOG(warning) << "what the agent of rank " << rank
                                    << " is to hear is dropped until it hears more: " << waiting
                                    << " bytes wait for it";
              },
          .lost = [this](uint32_t rank, const std::string& why) { hub_.lost(rank, why); },
          .noticed = [this](uint32_t rank, const std::string& notice) { hub_.noticed(rank, notice); }};
}

void AgentCore::start() {
  hub_.start();
  check_joined();
}

void AgentCore::fail(const Error& error) noexcept {
  hooks_->fail(error);
  connections_.close_all();
}

std::string AgentCore::show(std::vector<CommunicatorView> communicators) const {
  ProcessView view{.rank = own_,
                   .size = liveness_.size(),
                   .host = host_name(),
                   .pid = getpid(),
                   .communicators = std::move(communicators)};
  for (uint32_t rank = 0; rank < view.size; ++rank) {
    const Health health = liveness_.state(rank);
    if (rank == own_ || (health == Health::alive && !suspicion_.is_suspect(rank))) continue;
    view.doubts.push_back(
        {.rank = rank,
         .health = health,
         .why = suspicion_.is_suspect(rank) ? "suspected: " + suspicion_.why(rank) : liveness_.why(rank)});
  }
  return view_to_json(std::move(view));
}

void AgentCore::check_joined() {
  if (is_joined_ || !hub_.is_joined()) return;
  is_joined_ = true;
  events_.joined();
}

void AgentCore::received(uint32_t rank, const Message& message) {
  hub_.take_sign_of_life(rank);
  if (!hub_.received(rank, message) && !suspicion_.received(rank, message) && !queries_.received(rank, message) &&
      !membership_.received(rank, message)) {
    throw Error(ErrorCode::invalid_input, "a message of kind " + std::to_string(message.kind));
  }
}

void AgentCore::changed(uint32_t rank) {
  check_joined();
  if (liveness_.is_gone(rank)) processes_.forget(rank);
  suspicion_.changed(rank);
  events_.changed(rank);
  queries_.changed();
  membership_.changed(rank);
  hooks_->liveness_changed();
}

}  // namespace banyan::run
