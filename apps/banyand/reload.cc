#include "apps/banyand/reload.h"

#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

#include "banyan/base/error.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"

namespace banyan::app {
namespace {

constexpr size_t kMostWords = 4096;
// Of two signals that wait for the daemon at once it hears one, so the signal is sent again.
constexpr std::chrono::milliseconds kAgain{500};

struct Address {
  sockaddr_un place{};
  socklen_t size = 0;
};

// Abstract: it ends with its process.
Address address_of(pid_t asker, int drawn) {
  const std::string name = "banyan-reload-" + std::to_string(asker) + "-" + std::to_string(drawn);
  Address address;
  address.place.sun_family = AF_UNIX;
  std::memcpy(address.place.sun_path + 1, name.data(), name.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

run::FileDescriptor new_socket() {
  run::FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) throw run::system_error("cannot make a socket");
  return socket;
}

// What this process has sent, where anything has come. Of others nothing counts.
std::optional<std::string> answer_of(pid_t daemon, const run::FileDescriptor& socket) {
  std::array<char, kMostWords> words{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  iovec part{.iov_base = words.data(), .iov_len = words.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t count = recvmsg(socket.get(), &message, 0);
  if (count < 0) return std::nullopt;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS) {
    return std::nullopt;
  }
  ucred sender{};
  std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
  if (sender.pid != daemon) return std::nullopt;
  return std::string(words.data(), static_cast<size_t>(count));
}

}  // namespace

std::string reload(pid_t daemon, std::chrono::milliseconds at_most) {
  using Clock = std::chrono::steady_clock;
  const run::FileDescriptor socket = new_socket();
  int drawn = 0;
  if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn) throw run::system_error("cannot get random numbers");
  const Address own = address_of(getpid(), drawn);
  const int on = 1;
  if (setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&own.place), own.size) != 0) {
    throw run::system_error("cannot listen for the daemon's answer");
  }
  const Clock::time_point until = Clock::now() + at_most;
  while (Clock::now() < until) {
    sigval brought{};
    brought.sival_int = drawn;
    if (sigqueue(daemon, SIGHUP, brought) != 0) {
      if (errno == ESRCH) throw Error(ErrorCode::not_found, "there is no process " + std::to_string(daemon));
      throw run::system_error("cannot signal process " + std::to_string(daemon));
    }
    const Clock::time_point again = std::min(Clock::now() + kAgain, until);
    for (Clock::time_point now = Clock::now(); now < again; now = Clock::now()) {
      pollfd waits{.fd = socket.get(), .events = POLLIN, .revents = 0};
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(again - now);
      if (poll(&waits, 1, static_cast<int>(left.count())) <= 0) continue;
      if (const std::optional<std::string> answer = answer_of(daemon, socket)) return *answer;
    }
  }
  throw Error(ErrorCode::timed_out, "process " + std::to_string(daemon) +
                                        " has not said whether it has new rules; is it a banyand, and is it stopped?");
}

void answer_reload(const siginfo_t& signal, const std::string& refusal) {
  if (signal.si_code != SI_QUEUE) return;  // of kill
  const Address address = address_of(signal.si_pid, signal.si_value.sival_int);
  const run::FileDescriptor socket = new_socket();
  const std::string words = refusal.substr(0, kMostWords);
  sendto(socket.get(), words.data(), words.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
         reinterpret_cast<const sockaddr*>(&address.place), address.size);
}

}  // namespace banyan::app
