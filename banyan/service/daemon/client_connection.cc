#include "banyan/service/daemon/client_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "banyan/run/system/system_error.h"

namespace banyan::service {
namespace {

ClientIdentity identity_of(const run::FileDescriptor& socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    throw run::system_error("cannot ask who a client is");
  }
  return {.process = credentials.pid, .user = credentials.uid, .group = credentials.gid};
}

}  // namespace

ClientConnection::ClientConnection(run::Reactor& reactor, run::FileDescriptor socket, Hooks hooks)
    : reactor_(reactor),
      socket_(std::move(socket)),
      hooks_(std::move(hooks)),
      identity_(identity_of(socket_)),
      process_(static_cast<int>(syscall(SYS_pidfd_open, identity_.process, 0))) {
  reactor_.watch(socket_.get(), EPOLLIN, [this](uint32_t events) { serve(events); });
  // The socket alone does not tell: a process that the client has forked may hold it, too.
  if (process_.is_open()) {
    reactor_.watch(process_.get(), EPOLLIN, [this](uint32_t) { hang_up("its process has ended"); });
  }
}

ClientConnection::~ClientConnection() {
  if (is_over_) return;
  reactor_.forget(socket_.get());
  if (process_.is_open()) reactor_.forget(process_.get());
}

void ClientConnection::hang_up(const std::string& why) {
  if (std::exchange(is_over_, true)) return;
  reactor_.forget(socket_.get());
  if (process_.is_open()) reactor_.forget(process_.get());
  hooks_.gone(why);
}

void ClientConnection::serve(uint32_t events) {
  try {
    if ((events & EPOLLOUT) != 0) say_on();
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) hear();
  } catch (const Error& error) {
    hang_up(error.message());
  }
}

void ClientConnection::hear() {
  for (int parcels = 0; parcels < kParcelsAtOnce && !is_over_; ++parcels) {
    std::optional<Parcel> parcel = receive_parcel(socket_.get());
    if (!parcel) return;
    hooks_.said(decode_client_message(parcel->bytes), std::move(parcel->descriptor));
  }
}

void ClientConnection::say(const DaemonMessage& message, int descriptor) {
  if (is_over_) return;
  try {
    std::string bytes = encode(message);
    if (unsaid_.empty() && send_parcel(socket_.get(), bytes, descriptor)) return;
    if (descriptor >= 0 || unsaid_.size() >= kMostUnsaid) {
      throw Error(ErrorCode::peer_lost, "it does not read what it is told");
    }
    unsaid_.push_back(std::move(bytes));
    reactor_.change(socket_.get(), EPOLLIN | EPOLLOUT);
  } catch (const Error& error) {
    hang_up(error.message());
  }
}

void ClientConnection::say_on() {
  for (; !unsaid_.empty(); unsaid_.pop_front()) {
    if (!send_parcel(socket_.get(), unsaid_.front())) return;
  }
  reactor_.change(socket_.get(), EPOLLIN);
}

}  // namespace banyan::service
