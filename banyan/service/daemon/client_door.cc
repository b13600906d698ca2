#include "banyan/service/daemon/client_door.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "banyan/base/error.h"
#include "banyan/run/system/descriptor_use.h"
#include "banyan/service/protocol/messages.h"

namespace banyan::service {

ClientDoor::ClientDoor(DaemonCore& core, run::FileDescriptor door, Hooks hooks)
    : core_(core),
      reactor_(core.reactor),
      door_(std::move(door)),
      hooks_(std::move(hooks)),
      accounts_(core.options.limits.value_or(TenantLimits::of_machine())),
      names_({.mailbox = reactor_.mailbox(),
              .elsewhere = [&core](const auto& task) { return core.threads->try_post(TenantThreads::names(), task); },
              .name_of = core.options.name_of}),
      sub_ids_({.path = core.options.sub_ids,
                .warn = [&core](const std::string& words) { core.events.warn(words); },
                .number_of = [this](const std::string& name) { return names_.number_of(name); }}) {}

ClientDoor::~ClientDoor() {
  if (pause_) {
    reactor_.cancel(*pause_);
  } else {
    reactor_.forget(door_.get());
  }
}

void ClientDoor::open() {
  pause_.reset();
  reactor_.watch(door_.get(), EPOLLIN, [this](uint32_t) { look(); });
}

void ClientDoor::close() {
  if (pause_) reactor_.cancel(*std::exchange(pause_, std::nullopt));
  reactor_.forget(door_.get());
}

void ClientDoor::rest(std::chrono::microseconds pause) {
  reactor_.forget(door_.get());
  pause_ = reactor_.after(pause, [this] { open(); });
}

bool ClientDoor::knows(uint32_t user) {
  const std::string owner = sub_ids_.asks_for(user);
  return (owner.empty() || names_.knows(owner)) && names_.knows(sub_ids_.owner_of(user));
}

// Asks for the number of whom it is a sub-id of, and then for the name.
void ClientDoor::ask(uint32_t user, std::function<void()> then) {
  if (knows(user)) return then();
  const auto go_on = lifetime_.guard([this, user, then = std::move(then)] { ask(user, then); });
  const std::string owner = sub_ids_.asks_for(user);
  if (!owner.empty() && !names_.knows(owner)) return names_.ask(owner, go_on);
  names_.ask(sub_ids_.owner_of(user), go_on);
}

bool ClientDoor::is_flooded() {
  if (!flood_) return false;
  const uint64_t closing = flood_->account->used(Resource::closing);
  if (closing < flood_->least) {
    flood_->least = closing;
    flood_->since = reactor_.now();
  }
  if (flood_->account->has_room(Resource::closing, 1)) flood_.reset();
  return flood_ && reactor_.now() - flood_->since < kStands;
}

void ClientDoor::look() {
  for (int guests = 0; guests < kGuestsAtOnce; ++guests) {
    if (is_flooded()) return rest(kShortPause);
    run::FileDescriptor socket(accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.is_open()) {
      receive(std::move(socket));
      continue;
    }
    const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    if (is_short && !pause_) {
      const int why = errno;
      if (hooks_.is_short)
        hooks_.is_short(std::string("programs wait at the door of the service: ") + std::strerror(why));
      rest(kPause);
    }
    return;  // nobody is there, or has gone again
  }
}

// The kernel gives the lowest number that is free: below it, all are in use.
std::optional<Error> ClientDoor::shortage(const run::FileDescriptor& guest) const {
  const uint64_t allowed = run::allowed_descriptors(), used = static_cast<uint64_t>(guest.get()) + 1;
  if (allowed == 0 || used + std::min(kReserve, allowed / 8) <= allowed) return {};
  const std::string why = "the service of this host has " + std::to_string(used) + " of " + std::to_string(allowed) +
                          " descriptors in use and keeps the last ones; end some programs, or allow banyand more of "
                          "them (LimitNOFILE of its unit, ulimit -n)";
  if (hooks_.is_short) hooks_.is_short(why);
  return Error(ErrorCode::unsupported, why);
}

void ClientDoor::receive(run::FileDescriptor socket) {
  const uint32_t user = caller_at(socket).user;
  const bool do_others_wait = waiting_.contains(user);
  if (!do_others_wait && knows(user)) return let_in(std::move(socket));
  if (unknown_ >= kMostUnknown) {
    const std::string why = "too many programs wait until the system has said who their users are; try again later";
    return turn_away(accounts_.of(user), std::move(socket), Error(ErrorCode::unsupported, why));
  }
  ++unknown_;
  waiting_[user].push_back(std::move(socket));
  if (!do_others_wait) ask(user, lifetime_.guard([this, user] { let_in_next(user); }));
}

// One by one, whatever one of them throws, and in the order in which they came.
void ClientDoor::let_in_next(uint32_t user) {
  const auto waiting = waiting_.find(user);
  run::FileDescriptor guest = std::move(waiting->second.front());
  waiting->second.pop_front();
  --unknown_;
  if (waiting->second.empty()) {
    waiting_.erase(waiting);
  } else {
    reactor_.mailbox()->post(lifetime_.guard([this, user] { let_in_next(user); }));
  }
  let_in(std::move(guest));
}

void ClientDoor::turn_away(const std::shared_ptr<TenantAccount>& account, run::FileDescriptor socket,
                           const Error& why) {
  try {
    send_parcel(socket.get(), encode(DaemonMessage(Refused{.wish = 0, .error = why})));
  } catch (const Error&) {  // it has gone
  }
  hooks_.turned_away(account, std::move(socket));
  if (!flood_ && !account->has_room(Resource::closing, 1)) {
    flood_ = {.account = account, .least = account->used(Resource::closing), .since = reactor_.now()};
  }
}

void ClientDoor::let_in(run::FileDescriptor socket) {
  const TenantAccount::Time now = reactor_.now().time_since_epoch();
  ClientProcess process{.identity = caller_at(socket), .pidfd = {}};
  std::optional<Error> trouble = shortage(socket);  // before more descriptors are opened for the guest
  try {
    if (!trouble) process = process_of(socket);
  } catch (const Error& error) {  // it has ended, say: its user pays for the look
    trouble = error;
  }
  process.identity.user = sub_ids_.owner_of(process.identity.user);
  process.identity.name = names_.name_of(process.identity.user);
  const auto account = accounts_.of(process.identity.user,
                                    core_.rules.rules().quota_group(subject_of(process.identity, "")).value_or(""));
  try {
    if (account->wait(now) >= kFar) {
      throw Error(ErrorCode::unsupported, "the programs of " + account->owner() +
                                              " ask the service for too much in too short a time; try again later");
    }
    account->act(now, kCost);
    if (trouble) throw Error(*trouble);
    TenantAccount::Charge charge = account->take(Resource::connections, 1);
    hooks_.came(
        {.socket = std::move(socket), .process = std::move(process), .account = account, .charge = std::move(charge)});
  } catch (const Error& error) {
    if (!socket.is_open()) throw;
    turn_away(account, std::move(socket), error);
  }
}

}  // namespace banyan::service
