// Daemon::Impl: one daemon takes the place of another.
#include <unistd.h>

#include <set>
#include <utility>

#include "banyan/run/record/log.h"
#include "banyan/service/daemon/daemon_impl.h"

namespace banyan::service {

// ---- As the newer one ----

void Daemon::Impl::inherit(HandedSockets& sockets) {
  Inheritance given = predecessor_->take_over();
  sockets = std::move(given.sockets);
  unlinks_tenants_ = given.unlinks_tenants;
  unlinks_operators_ = given.unlinks_operators;
  own_.older = {std::move(given.older)};
  sessions_.know_elsewhere(std::move(given.sessions));
  reactor_.watch(predecessor_->fd(), EPOLLIN, [this](uint32_t) { forget_predecessor(); });
}

// The older one says nothing any more, so it has ended.
void Daemon::Impl::forget_predecessor() {
  reactor_.forget(predecessor_->fd());
  predecessor_.reset();
  sessions_.know_elsewhere({});
  own_.older.clear();
  mesh_->meet(own_);
  events_.note("the daemon that was here before has ended");
  directory_->publish(own_);
}

// ---- As the older one ----

void Daemon::Impl::upgrade(const std::string& binary, HostOperations::Host::Upgraded done) {
  if (successor_) {
    throw Error(ErrorCode::invalid_usage, is_handing_over_ ? "a newer daemon has taken the place of this one already"
                                                           : "an upgrade is under way already");
  }
  if (predecessor_) {
    throw Error(ErrorCode::invalid_usage,
                "the daemon that was here before still has communicators; upgrade again when it has ended");
  }
  if (options_.program.empty()) throw Error(ErrorCode::unsupported, "this daemon is a part of another program");
  successor_ = std::make_unique<Successor>(
      reactor_, binary.empty() ? options_.program : binary, options_.arguments,
      Successor::Events{.ready = [this] { hand_over(); },
                        .serving = [this](const HostCard& card) { succeed(card); },
                        .failed = [this](const std::string& why) { fail_to_upgrade(why); }});
  upgraded_ = std::move(done);
}

// Nobody comes to this daemon from here on, and nothing is opened: which sessions are whose is settled. Clients that
// look for the newer one wait at the door until it serves, or until this one does again.
void Daemon::Impl::hand_over() {
  is_handing_over_ = true;
  door_->close();
  if (http_) http_->let_in(false);
  Inheritance given{.sockets = {},
                    .unlinks_tenants = unlinks_tenants_,
                    .unlinks_operators = unlinks_operators_,
                    .older = {.incarnation = own_.incarnation, .addresses = own_.addresses, .port = own_.port},
                    .sessions = {}};
  for (const auto& [number, client] : clients_) {
    for (const auto& [session, each] : client.sessions) given.sessions.insert(each.key);
    if (client.memory) client.connection->say(Succeeded());
  }
  sessions_.end_with(given.sessions);
  if (options_.is_followed_by) options_.is_followed_by(successor_->process());
  std::swap(given.sockets, listening_);
  successor_->hand_over(given);
  std::swap(given.sockets, listening_);
}

void Daemon::Impl::succeed(const HostCard& card) {
  events_.note("process " + std::to_string(successor_->process()) +
               " has taken the place of this daemon, which ends with its last communicator");
  unlinks_tenants_ = unlinks_operators_ = false;
  listening_ = {};
  mesh_->meet(card);
  directory_->leave();
  std::exchange(upgraded_, {})(successor_->process(), "");
}

void Daemon::Impl::fail_to_upgrade(const std::string& why) {
  events_.note("this daemon goes on, since the upgrade has failed: " + why);
  // Who calls this is the successor. Its program must have ended before anybody is let in here.
  reactor_.mailbox()->post([this, why] {
    successor_.reset();
    if (std::exchange(is_handing_over_, false)) {
      sessions_.go_on();
      directory_->publish(own_);
      if (options_.is_followed_by) options_.is_followed_by(getpid());
      door_->open();
      if (http_) http_->let_in(true);
    }
    std::exchange(upgraded_, {})(0, why);
  });
}

void Daemon::Impl::end_if_idle() {
  if (!is_handing_over_ || upgraded_) return;
  for (const auto& [number, client] : clients_) {
    if (!client.sessions.empty()) return;
  }
  BANYAN_LOG(info) << "its last communicator has ended, and so does the daemon that was followed by another";
  reactor_.stop();
}

}  // namespace banyan::service
