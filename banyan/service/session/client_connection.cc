#include "banyan/service/session/client_connection.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <string_view>
#include <utility>

#include "banyan/base/file.h"
#include "banyan/run/system/process_watch.h"
#include "banyan/run/system/system_error.h"

namespace banyan::service {
namespace {

#ifndef SO_PEERPIDFD
constexpr int SO_PEERPIDFD = 77;  // Linux 6.5
#endif

// Whether the process that has this number now is of another user. Where /proc hides it, so are its control groups, and
// nobody has anything for these.
bool is_of_another(pid_t process, uid_t user) {
  std::istringstream numbers(run::status_of(process, "Uid"));
  bool is_told = false;
  for (uint64_t number = 0; numbers >> number; is_told = true) {
    if (number == user) return false;
  }
  return is_told;
}

// Of who has connected, if the kernel can tell; else of the process that has its number now.
run::FileDescriptor pidfd_of(const run::FileDescriptor& socket, pid_t process, uid_t user) {
  int pidfd = -1;
  socklen_t length = sizeof pidfd;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) == 0) return run::FileDescriptor(pidfd);
  if (errno == ENOPROTOOPT) return watched_by_number(process, user);
  if (errno == ESRCH || errno == EINVAL) throw Error(ErrorCode::peer_lost, "its process has ended");
  throw run::system_error("cannot watch its process (SO_PEERPIDFD)");
}

std::string cgroup_of(pid_t process) {
  constexpr std::string_view kUnified = "0::";
  try {
    const std::string text = read_file("/proc/" + std::to_string(process) + "/cgroup", 65'536);
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = std::string_view(text).substr(begin, end - begin);
      if (line.starts_with(kUnified)) return std::string(line.substr(kUnified.size()));
      begin = end + 1;
    }
  } catch (const Error&) {  // it has ended, or is none of ours
  }
  return {};
}

bool has_ended(const run::FileDescriptor& pidfd) {
  pollfd polled{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  return poll(&polled, 1, 0) > 0;
}

// Whether what is said is an answer to a wish.
bool is_answer(const DaemonMessage& message) {
  return std::visit(
      [](const auto& said) {
        return requires { said.wish; };
      },
      message);
}
bool is_wish(const ClientMessage& message) {
  return std::visit(
      [](const auto& said) {
        return requires { said.wish; };
      },
      message);
}

}  // namespace

run::FileDescriptor watched_by_number(pid_t process, uid_t user) {
  if (process <= 0) {
    throw Error(ErrorCode::unsupported,
                "its process is in another namespace of processes, where only Linux 6.5 and newer tell of its end");
  }
  run::FileDescriptor opened(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  const bool is_gone = opened.is_open() ? is_of_another(process, user) : errno == ESRCH;
  if (opened.is_open() && !is_gone) return opened;
  if (is_gone) throw Error(ErrorCode::peer_lost, "its process has ended");
  throw run::system_error("cannot watch its process (pidfd_open)");
}

ClientIdentity caller_at(const run::FileDescriptor& socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    throw run::system_error("cannot ask who a client is");
  }
  return {.process = credentials.pid, .user = credentials.uid, .group = credentials.gid};
}

ClientProcess process_of(const run::FileDescriptor& socket) {
  const ClientIdentity caller = caller_at(socket);
  ClientProcess process{.identity = caller, .pidfd = pidfd_of(socket, caller.process, caller.user)};
  if (caller.process > 0) process.identity.cgroup = cgroup_of(caller.process);
  if (has_ended(process.pidfd)) throw Error(ErrorCode::peer_lost, "its process has ended");
  return process;
}

ClientConnection::ClientConnection(run::Reactor& reactor, run::FileDescriptor socket, ClientProcess process,
                                   Hooks hooks)
    : reactor_(reactor),
      socket_(std::move(socket)),
      hooks_(std::move(hooks)),
      identity_(std::move(process.identity)),
      process_(std::move(process.pidfd)) {
  reactor_.watch(socket_.get(), EPOLLIN, [this](uint32_t events) { serve(events); });
  // The socket alone does not tell: a process that the client has forked may hold it, too.
  reactor_.watch(process_.get(), EPOLLIN, [this](uint32_t) { hang_up("its process has ended"); });
}

ClientConnection::~ClientConnection() {
  end();
  close(std::move(socket_));  // with what the client has sent and nobody has read
}

bool ClientConnection::end() {
  if (std::exchange(is_over_, true)) return false;
  reactor_.forget(socket_.get());
  reactor_.forget(process_.get());
  if (rest_) reactor_.cancel(*rest_);
  return true;
}

void ClientConnection::hang_up(const std::string& why) {
  if (end()) hooks_.gone(why);
}

void ClientConnection::close(run::FileDescriptor descriptor) const {
  if (hooks_.close && descriptor.is_open()) hooks_.close(std::move(descriptor));
}

uint32_t ClientConnection::wanted() const {
  return (is_resting_ ? 0u : uint32_t{EPOLLIN}) | (unsent_.empty() ? 0u : uint32_t{EPOLLOUT});
}

void ClientConnection::serve(uint32_t events) {
  try {
    if ((events & EPOLLOUT) != 0) send_on();
    if (is_resting_ && (events & (EPOLLHUP | EPOLLERR)) != 0) return hang_up("the other side has gone");
    if (!is_resting_ && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive();
  } catch (const Error& error) {
    hang_up(error.message());
  }
}

void ClientConnection::receive() {
  for (int parcels = 0; parcels < kParcelsAtOnce && !is_over_; ++parcels) {
    if (shall_rest()) return;
    std::optional<Parcel> parcel = receive_parcel(socket_.get(), hooks_.close);
    if (!parcel) return;
    struct Closer {
      ~Closer() {
        if (descriptor) connection.close(*std::move(descriptor));
      }
      const ClientConnection& connection;
      std::optional<run::FileDescriptor>& descriptor;
    };
    const Closer closer{*this, parcel->descriptor};
    const ClientMessage message = decode_client_message(parcel->bytes);
    if (is_wish(message)) ++unanswered_;
    hooks_.received(message, parcel->descriptor);
  }
}

bool ClientConnection::shall_rest() {
  const bool has_asked_enough = unanswered_ >= kMostUnanswered;
  const std::chrono::nanoseconds pause = hooks_.pause ? hooks_.pause() : std::chrono::nanoseconds(0);
  if (!has_asked_enough && pause.count() <= 0) return false;
  is_resting_ = true;
  if (!has_asked_enough) {  // else the next answer ends it
    rest_ = reactor_.after(std::chrono::ceil<std::chrono::microseconds>(pause), [this] { go_on_receiving(); });
  }
  reactor_.change(socket_.get(), wanted());
  return true;
}

void ClientConnection::go_on_receiving() {
  rest_.reset();
  is_resting_ = false;
  reactor_.change(socket_.get(), wanted());
}

void ClientConnection::send(const DaemonMessage& message, int descriptor) {
  if (is_over_) return;
  try {
    if (is_answer(message) && unanswered_ > 0 && --unanswered_ < kMostUnanswered && is_resting_ && !rest_) {
      go_on_receiving();
    }
    std::string bytes = encode(message);
    if (unsent_.empty() && send_parcel(socket_.get(), bytes, descriptor)) return;
    if (descriptor >= 0 || unsent_.size() >= kMostUnsent) {
      throw Error(ErrorCode::peer_lost, "it does not read what it is told");
    }
    unsent_.push_back(std::move(bytes));
    reactor_.change(socket_.get(), wanted());
  } catch (const Error& error) {
    hang_up(error.message());
  }
}

void ClientConnection::send_on() {
  for (; !unsent_.empty(); unsent_.pop_front()) {
    if (!send_parcel(socket_.get(), unsent_.front())) return;
  }
  reactor_.change(socket_.get(), wanted());
}

}  // namespace banyan::service
