#include "banyan/service/daemon/upgrade.h"

#include <unistd.h>

#include <set>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/record/log.h"

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

Upgrade::Upgrade(SessionOpener& opener, OperatorSide& operators, ClientSide& programs, HandedSockets sockets)
    : opener_(opener), cluster_(opener.cluster()), core_(opener.core()), operators_(operators), programs_(programs) {
  own_.unlinks_tenants = !sockets.tenants.is_open();
  own_.unlinks_operators = !core_.options.operators.empty();
  own_.sockets = std::move(sockets);
}

run::FileDescriptor Upgrade::own_socket(const std::string& path, DoorKind kind) const {
  const bool is_for_all_users = kind == DoorKind::tenants && core_.options.is_for_all_users;
  run::FileDescriptor kept = core_.options.keeper.take(path);
  return kept.is_open() ? std::move(kept) : listen_at(path, kind, is_for_all_users);
}

void Upgrade::open_tenants() {
  run::FileDescriptor& tenants = own_.sockets.tenants;
  if (!tenants.is_open()) tenants = own_socket(core_.options.socket, DoorKind::tenants);
}

void Upgrade::open_operators() {
  const Daemon::Options& options = core_.options;
  run::FileDescriptor& operators = own_.sockets.operators;
  run::FileDescriptor& http = own_.sockets.http;
  if (!operators.is_open() && !options.operators.empty()) {
    operators = own_socket(options.operators, DoorKind::operators);
  }
  if (!http.is_open() && !options.http.empty()) {
    const HttpPlace place = HttpPlace::parse(options.http);
    core_.wait_for_address(place.address);
    http = listen_on(place);
  }
  if (own_.unlinks_operators) options.keeper.keep(options.operators, operators);
  if (own_.unlinks_tenants) options.keeper.keep(options.socket, own_.sockets.tenants);
}

void Upgrade::unlink() const {
  if (own_.unlinks_tenants) ::unlink(core_.options.socket.c_str());
  if (own_.unlinks_operators) ::unlink(core_.options.operators.c_str());
}

// ---- As the newer one ----

OlderDaemon Upgrade::inherit(Predecessor& predecessor) {
  Inheritance given = predecessor.take_over();
  older_ = std::exchange(given.older, {});
  own_ = std::move(given);
  opener_.sessions().know_elsewhere(older_->sessions);
  // The older daemon says nothing any more: its end is all that can be read.
  core_.reactor.watch(older_->socket.get(), EPOLLIN, [this](uint32_t) { forget_older(); });
  return older_->daemon;
}

void Upgrade::forget_older() {
  core_.reactor.forget(older_->socket.get());
  older_.reset();
  opener_.sessions().know_elsewhere({});
  cluster_.forget_older();
  core_.events.record("the daemon that was here before has ended");
  operators_.forget_older();
}

// ---- As the older one ----

void Upgrade::begin(HostOperations::Upgraded done) {
  if (successor_) {
    throw Error(ErrorCode::invalid_usage, opener_.is_handing_over()
                                              ? "a newer daemon has taken the place of this one already"
                                              : "an upgrade is under way already");
  }
  if (older_) {
    throw Error(ErrorCode::invalid_usage,
                older_->sessions.empty() ? "the daemon that was here before is about to end; upgrade again then"
                                         : "the daemon that was here before has not ended: it had communicators (" +
                                               words_of(older_->sessions) + "); upgrade again when they have ended");
  }
  const Daemon::Options& options = core_.options;
  if (options.program.empty()) throw Error(ErrorCode::unsupported, "this daemon is a part of another program");
  successor_ = std::make_unique<Successor>(core_.reactor, options.program, options.arguments,
                                           Successor::Events{.ready = [this] { hand_over(); },
                                                             .serving = [this](const HostCard& card) { succeed(card); },
                                                             .failed = [this](const std::string& why) { fail(why); },
                                                             .ended = [this] { be_left_alone(); }});
  upgraded_ = std::move(done);
}

// Nobody comes to this daemon from here on, and nothing is opened: which sessions are whose is settled. Clients that
// look for the newer one wait at the door until it serves, or until this one does again.
void Upgrade::hand_over() {
  CHECK(successor_ && !older_ && !opener_.is_handing_over());
  opener_.hand_over(true);
  programs_.let_in(false);
  operators_.let_in(false);
  const HostCard& own = cluster_.own();
  ElderDaemon self{.daemon = {.incarnation = own.incarnation, .addresses = own.addresses, .port = own.port},
                   .sessions = opener_.clients().keys(),
                   .socket = {}};
  for (const auto& [number, client] : opener_.clients().clients()) {
    if (client.memory) client.connection->send(Succeeded());
  }
  opener_.sessions().end_with(self.sessions);
  if (core_.options.is_followed_by) core_.options.is_followed_by(successor_->process());
  own_.older = std::move(self);
  successor_->hand_over(own_);
}

void Upgrade::succeed(const HostCard& card) {
  CHECK(opener_.is_handing_over() && upgraded_) << "process " << successor_->process();
  core_.events.record("process " + std::to_string(successor_->process()) +
                      " has taken the place of this daemon, which ends with its last communicator");
  // Were the newer daemon killed, whoever listened here still would keep the next one from coming.
  own_ = {};
  programs_.leave_door();
  operators_.close_doors();
  operators_.follow(card.incarnation);
  cluster_.mesh().meet(card);
  cluster_.cards().leave();
  std::exchange(upgraded_, {})(successor_->process(), "");
}

// The newer daemon has been killed, and who comes next knows nothing of this one. Sessions go on by the connections
// that they have. Nobody is to call here instead of the next daemon: its caller would take a connection for made that
// this one refuses.
void Upgrade::be_left_alone() {
  cluster_.hang_up();
  core_.events.record("the daemon that took the place of this one has ended; what is open here goes on");
}

void Upgrade::fail(const std::string& why) {
  core_.events.record("this daemon goes on, since the upgrade has failed: " + why);
  // Who calls this is the successor. Its program must have ended before anybody is let in here.
  core_.reactor.mailbox()->post([this, why] {
    CHECK(upgraded_) << why;
    successor_.reset();
    if (opener_.is_handing_over()) {
      opener_.hand_over(false);
      cluster_.cards().publish(cluster_.own());
      if (core_.options.is_followed_by) core_.options.is_followed_by(getpid());
      programs_.let_in(true);
      operators_.let_in(true);
    }
    std::exchange(upgraded_, {})(0, why);
  });
}

void Upgrade::end_if_idle() {
  if (!opener_.is_handing_over() || upgraded_ || !opener_.clients().keys().empty()) return;
  BANYAN_LOG(info) << "its last communicator has ended, and so does the daemon that was followed by another";
  core_.reactor.stop();
}

}  // namespace banyan::service
