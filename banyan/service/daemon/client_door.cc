#include "banyan/service/daemon/client_door.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/service/daemon/client_connection.h"
#include "banyan/service/protocol/messages.h"

namespace banyan::service {

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

void ClientDoor::look() {
  for (int guests = 0; guests < kGuestsAtOnce; ++guests) {
    run::FileDescriptor socket(accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.is_open()) {
      let_in(std::move(socket));
      continue;
    }
    const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    if (is_short && !pause_) {
      reactor_.forget(door_.get());
      pause_ = reactor_.after(kPause, [this] { open(); });
    }
    return;  // nobody is there, or has gone again
  }
}

void ClientDoor::let_in(run::FileDescriptor socket) {
  const TenantAccount::Time now = reactor_.now().time_since_epoch();
  try {
    Guest guest{.socket = {}, .account = accounts_.of(identity_of(socket).user), .charge = {}};
    if (guest.account->wait(now) >= kFar) {
      throw Error(ErrorCode::unsupported, "the programs of user " + std::to_string(guest.account->user()) +
                                              " ask the service for too much in too short a time; try again later");
    }
    guest.account->act(now, kCost);
    guest.charge = guest.account->take(Resource::connections, 1);
    guest.socket = std::move(socket);
    came_(std::move(guest));
  } catch (const Error& error) {
    if (!socket.is_open()) throw;
    try {
      send_parcel(socket.get(), encode(DaemonMessage(Refused{.wish = 0, .error = error})));
    } catch (const Error&) {  // it has gone
    }
  }
}

}  // namespace banyan::service
