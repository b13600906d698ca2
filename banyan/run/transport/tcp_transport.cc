#include "banyan/run/transport/tcp_transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"
#include "banyan/run/transport/tcp_connection.h"

namespace banyan::run {
namespace {

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }
class TcpTransport : public Transport {
 public:
  explicit TcpTransport(std::vector<std::unique_ptr<TcpConnection>> peers) : peers_(std::move(peers)) {}

  size_t write(uint32_t peer, std::span<const std::byte> head, std::span<const std::byte> body) override {
    return peers_[peer]->write(head, body);
  }
  std::span<const std::byte> peek(uint32_t peer) override { return peers_[peer]->peek(); }
  void consume(uint32_t peer, size_t count) override { peers_[peer]->consume(count); }
  size_t read(uint32_t peer, std::span<std::byte> into) override { return peers_[peer]->read(into); }

  void wait(std::chrono::milliseconds at_most) override {
    polled_.clear();
    for (const auto& peer : peers_) {
      if (!peer) continue;
      // Only what was tried in vain: a peer that is ahead of us may have sent what nobody reads yet, and must not keep
      // us awake.
      if (const short events = peer->before_sleep(); events != 0) {
        polled_.push_back({.fd = peer->fd(), .events = events, .revents = 0});
      }
    }
    const int rc = poll(polled_.data(), polled_.size(), static_cast<int>(at_most.count()));
    if (rc < 0 && errno != EINTR) throw system_error("cannot wait for connections");
  }

 private:
  std::vector<std::unique_ptr<TcpConnection>> peers_;  // by rank; none where nothing is exchanged
  std::vector<pollfd> polled_;                         // kept to keep its memory
};

struct Hello {
  std::array<std::byte, 16> secret{};
  uint32_t rank = 0;
};

struct Listener {
  FileDescriptor socket;
  sockaddr_in address{};
};

Listener listen_on_loopback(size_t callers) {
  Listener listener{.socket = FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
  if (!listener.socket.is_open()) throw system_error("cannot make a socket");
  listener.address.sin_family = AF_INET;
  listener.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof listener.address;
  auto* address = reinterpret_cast<sockaddr*>(&listener.address);
  // Strangers may stand in the queue too, so it is longer than the peers need.
  if (bind(listener.socket.get(), address, size) != 0 ||
      listen(listener.socket.get(), static_cast<int>(callers) + 16) != 0 ||
      getsockname(listener.socket.get(), address, &size) != 0) {
    throw system_error("cannot listen on 127.0.0.1");
  }
  return listener;
}

void send_at_once(int fd) {
  const int on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) throw system_error("cannot set TCP_NODELAY");
}

// Calls `address` and says hello. The queue of the listener has room for all, so this does not wait for the callee.
FileDescriptor call(const sockaddr_in& address, const Hello& hello, uint32_t callee) {
  FileDescriptor caller(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!caller.is_open()) throw system_error("cannot make a socket");
  if (connect(caller.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw connection_error(callee, errno);
  }
  send_at_once(caller.get());
  // An empty new connection takes so few bytes whole.
  const ssize_t sent = send(caller.get(), &hello, sizeof hello, MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(sizeof hello)) throw connection_error(callee, sent < 0 ? errno : EPIPE);
  return caller;
}

// Answers calls until all expected ranks have said hello; others are hung up on.
class Reception {
 public:
  Reception(const Listener& listener, const Hello& own) : listener_(listener), own_(own) {}

  // Fills `sockets`, by rank, for the `expected` ones.
  void receive(const std::vector<uint32_t>& expected, std::vector<FileDescriptor>& sockets) {
    size_t missing = expected.size();
    while (missing > 0) {
      std::vector<pollfd> polled = {{.fd = listener_.socket.get(), .events = POLLIN, .revents = 0}};
      for (const FileDescriptor& guest : guests_) polled.push_back({.fd = guest.get(), .events = POLLIN, .revents = 0});
      if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) throw system_error("cannot wait for calls");
      for (size_t i = 0; i < guests_.size(); ++i) {
        if (polled[i + 1].revents == 0) continue;
        FileDescriptor guest = std::move(guests_[i]);
        if (const std::optional<uint32_t> rank = identify(guest); rank && is_missing(*rank, expected, sockets)) {
          sockets[*rank] = std::move(guest);
          --missing;
        }
      }
      std::erase_if(guests_, [](const FileDescriptor& guest) { return !guest.is_open(); });
      if (polled[0].revents != 0) answer();
    }
  }

 private:
  void answer() {
    FileDescriptor guest(accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (guest.is_open()) {
      guests_.push_back(std::move(guest));
    } else if (!would_block(errno) && errno != EINTR && errno != ECONNABORTED) {
      throw system_error("cannot answer a call on 127.0.0.1");
    }
  }

  // Hello is sent in one piece; who sends less at first is no rank of this run.
  std::optional<uint32_t> identify(const FileDescriptor& guest) const {
    Hello hello;
    const ssize_t received = recv(guest.get(), &hello, sizeof hello, MSG_DONTWAIT);
    if (received != static_cast<ssize_t>(sizeof hello) || hello.secret != own_.secret) return {};
    return hello.rank;
  }

  static bool is_missing(uint32_t rank, const std::vector<uint32_t>& expected,
                         const std::vector<FileDescriptor>& sockets) {
    return std::find(expected.begin(), expected.end(), rank) != expected.end() && !sockets[rank].is_open();
  }

  const Listener& listener_;
  const Hello& own_;
  std::vector<FileDescriptor> guests_;  // who called and has not spoken yet
};

class TcpMeeting : public Meeting {
 public:
  explicit TcpMeeting(PeerLists peers) : peers_(std::move(peers)) {
    for (size_t i = 0; i < peers_.size(); ++i) listeners_.push_back(listen_on_loopback(peers_.size()));
    if (getrandom(secret_.data(), secret_.size(), 0) != static_cast<ssize_t>(secret_.size())) {
      throw system_error("cannot draw a secret");
    }
  }

  std::unique_ptr<Transport> join(uint32_t rank) override {
    const Hello hello{.secret = secret_, .rank = rank};
    for (uint32_t other = 0; other < listeners_.size(); ++other) {
      if (other != rank) listeners_[other].socket.reset();  // or calls to a dead rank would be answered by its siblings
    }
    std::vector<FileDescriptor> sockets(peers_.size());
    std::vector<uint32_t> callers;
    for (const uint32_t peer : peers_[rank]) {
      if (peer < rank) {
        sockets[peer] = call(listeners_[peer].address, hello, peer);
      } else {
        callers.push_back(peer);
      }
    }
    Reception(listeners_[rank], hello).receive(callers, sockets);
    listeners_[rank].socket.reset();

    std::vector<std::unique_ptr<TcpConnection>> connections(peers_.size());
    for (const uint32_t peer : peers_[rank]) {
      send_at_once(sockets[peer].get());
      connections[peer] = std::make_unique<TcpConnection>(peer, std::move(sockets[peer]));
    }
    return std::make_unique<TcpTransport>(std::move(connections));
  }

 private:
  PeerLists peers_;
  std::vector<Listener> listeners_;  // by rank
  std::array<std::byte, 16> secret_{};
};

}  // namespace

std::unique_ptr<Meeting> make_tcp_meeting(PeerLists peers) { return std::make_unique<TcpMeeting>(std::move(peers)); }

}  // namespace banyan::run
