// Daemon::Impl: one daemon takes the place of another.
#include <unistd.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "banyan/run/record/log.h"
#include "banyan/service/daemon/daemon_impl.h"

namespace banyan::service {
namespace {

// The communicators of these sessions, as operators see them: "4f1c, 77ab and 3 more".
std::string words_of(const std::set<OpenSessions::Key>& sessions) {
  constexpr size_t kMostNamed = 4;
  std::set<std::string> names;
  for (const OpenSessions::Key& each : sessions) names.insert(OpenSessions::public_id(each.first));
  std::string words;
  size_t named = 0;
  for (const std::string& name : names) {
    if (named == kMostNamed) return words + " and " + std::to_string(names.size() - named) + " more";
    words += (named++ == 0 ? "" : ", ") + name;
  }
  return words;
}

}  // namespace

// ---- As the newer one ----

void Daemon::Impl::inherit(Predecessor& predecessor, HandedSockets& sockets) {
  Inheritance given = predecessor.take_over();
  sockets = std::move(given.sockets);
  unlinks_tenants_ = given.unlinks_tenants;
  unlinks_operators_ = given.unlinks_operators;
  older_ = std::move(given.older);
  own_.older = {older_->daemon};
  sessions_.know_elsewhere(older_->sessions);
  // The older daemon says nothing any more: its end is all that can be read.
  reactor_.watch(older_->socket.get(), EPOLLIN, [this](uint32_t) { forget_older(); });
}

void Daemon::Impl::forget_older() {
  reactor_.forget(older_->socket.get());
  older_.reset();
  own_.older.clear();
  sessions_.know_elsewhere({});
  mesh_->meet(own_);
  events_.note("the daemon that was here before has ended");
  host_answers_->forget_older();
  cards_.publish(own_);
}

// ---- As the older one ----

void Daemon::Impl::upgrade(HostOperations::Host::Upgraded done) {
  if (successor_) {
    throw Error(ErrorCode::invalid_usage, is_handing_over_ ? "a newer daemon has taken the place of this one already"
                                                           : "an upgrade is under way already");
  }
  if (older_) {
    throw Error(ErrorCode::invalid_usage,
                older_->sessions.empty() ? "the daemon that was here before is about to end; upgrade again then"
                                         : "the daemon that was here before has not ended: it had communicators (" +
                                               words_of(older_->sessions) + "); upgrade again when they have ended");
  }
  if (options_.program.empty()) throw Error(ErrorCode::unsupported, "this daemon is a part of another program");
  successor_ =
      std::make_unique<Successor>(reactor_, options_.program, options_.arguments,
                                  Successor::Events{.ready = [this] { hand_over(); },
                                                    .serving = [this](const HostCard& card) { succeed(card); },
                                                    .failed = [this](const std::string& why) { fail_to_upgrade(why); },
                                                    .ended = [this] { be_left_alone(); }});
  upgraded_ = std::move(done);
}

// Nobody comes to this daemon from here on, and nothing is opened: which sessions are whose is settled. Clients that
// look for the newer one wait at the door until it serves, or until this one does again.
void Daemon::Impl::hand_over() {
  is_handing_over_ = true;
  door_->close();
  if (http_) http_->let_in(false);
  Inheritance given{
      .sockets = {}, .unlinks_tenants = unlinks_tenants_, .unlinks_operators = unlinks_operators_, .older = {}};
  ElderDaemon& self = given.older;
  self.daemon = {.incarnation = own_.incarnation, .addresses = own_.addresses, .port = own_.port};
  for (const auto& [number, client] : clients_) {
    for (const auto& [session, each] : client.sessions) self.sessions.insert(each.key);
    if (client.memory) client.connection->say(Succeeded());
  }
  sessions_.end_with(self.sessions);
  if (options_.is_followed_by) options_.is_followed_by(successor_->process());
  std::swap(given.sockets, listening_);
  successor_->hand_over(given);
  std::swap(given.sockets, listening_);
}

void Daemon::Impl::succeed(const HostCard& card) {
  events_.note("process " + std::to_string(successor_->process()) +
               " has taken the place of this daemon, which ends with its last communicator");
  unlinks_tenants_ = unlinks_operators_ = false;
  // Were the newer daemon killed, whoever listened here still would keep the next one from coming.
  listening_ = {};
  door_.reset();
  if (http_) http_->close_doors();
  obedience_->follow(card.incarnation);
  mesh_->meet(card);
  cards_.leave();
  std::exchange(upgraded_, {})(successor_->process(), "");
}

// The newer daemon has been killed, and who comes next knows nothing of this one. Sessions go on by the connections
// that they have. Nobody is to call here instead of the next daemon: its caller would take a connection for made that
// this one refuses.
void Daemon::Impl::be_left_alone() {
  acceptor_.reset();
  events_.note("the daemon that took the place of this one has ended; what is open here goes on");
}

void Daemon::Impl::fail_to_upgrade(const std::string& why) {
  events_.note("this daemon goes on, since the upgrade has failed: " + why);
  // Who calls this is the successor. Its program must have ended before anybody is let in here.
  reactor_.mailbox()->post([this, why] {
    successor_.reset();
    if (std::exchange(is_handing_over_, false)) {
      sessions_.go_on();
      cards_.publish(own_);
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
