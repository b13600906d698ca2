#include "banyan/run/transport/tcp_transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>

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

namespace banyan {
namespace {

constexpr size_t kBufferBytes = size_t{64} << 10;
// Reads at least so long go to their place at once; shorter ones are worth a system call for many.
constexpr size_t kDirectRead = size_t{4} << 10;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }
bool is_lost(int error) { return error == ECONNRESET || error == EPIPE || error == ECONNREFUSED || error == ETIMEDOUT; }

std::string peer_name(uint32_t rank) { return "rank " + std::to_string(rank); }

Error connection_error(uint32_t peer, int error) {
  if (is_lost(error)) return Error(ErrorCode::peer_lost, "the connection to " + peer_name(peer) + " was lost");
  return system_error("the connection to " + peer_name(peer) + " failed", error);
}

// The connection to one peer, with what was received and not yet taken.
class Connection {
 public:
  Connection() = default;
  Connection(uint32_t peer, FileDescriptor socket)
      : peer_(peer), socket_(std::move(socket)), buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {}

  size_t write(std::span<const std::byte> head, std::span<const std::byte> body) {
    std::array<iovec, 2> parts = {iovec{const_cast<std::byte*>(head.data()), head.size()},
                                  iovec{const_cast<std::byte*>(body.data()), body.size()}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = retried([&] { return sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT); });
    if (sent < 0 && !would_block(errno)) throw connection_error(peer_, errno);
    const size_t count = sent < 0 ? 0 : static_cast<size_t>(sent);
    if (count < head.size() + body.size()) awaited_ |= POLLOUT;
    return count;
  }

  std::span<const std::byte> peek() {
    if (begin_ == end_) {
      begin_ = 0;
      end_ = receive({buffer_.get(), kBufferBytes});
    }
    return {buffer_.get() + begin_, end_ - begin_};
  }

  void consume(size_t count) {
    DCHECK(count <= end_ - begin_) << count << " of " << end_ - begin_ << " bytes";
    begin_ += count;
  }

  size_t read(std::span<std::byte> into) {
    if (begin_ == end_ && into.size() >= kDirectRead) return receive(into);
    const std::span<const std::byte> arrived = peek();
    const size_t count = std::min(arrived.size(), into.size());
    if (count > 0) std::memcpy(into.data(), arrived.data(), count);
    consume(count);
    return count;
  }

  // What moved nothing since the last time this was asked, as poll(2) calls it.
  short take_awaited() { return std::exchange(awaited_, short{0}); }
  bool is_open() const { return socket_.is_open(); }
  int fd() const { return socket_.get(); }

 private:
  template <typename Call>
  static ssize_t retried(Call call) {
    ssize_t result;
    do {
      result = call();
    } while (result < 0 && errno == EINTR);
    return result;
  }

  size_t receive(std::span<std::byte> into) {
    const ssize_t received = retried([&] { return recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT); });
    if (received == 0) throw connection_error(peer_, ECONNRESET);
    if (received > 0) return static_cast<size_t>(received);
    if (!would_block(errno)) throw connection_error(peer_, errno);
    awaited_ |= POLLIN;
    return 0;
  }

  uint32_t peer_ = 0;
  FileDescriptor socket_;
  std::unique_ptr<std::byte[]> buffer_;  // not touched before it is needed: peers may be many
  size_t begin_ = 0, end_ = 0;
  short awaited_ = 0;
};

class TcpTransport : public Transport {
 public:
  explicit TcpTransport(std::vector<Connection> peers) : peers_(std::move(peers)) {}

  size_t write(uint32_t peer, std::span<const std::byte> head, std::span<const std::byte> body) override {
    return peers_[peer].write(head, body);
  }
  std::span<const std::byte> peek(uint32_t peer) override { return peers_[peer].peek(); }
  void consume(uint32_t peer, size_t count) override { peers_[peer].consume(count); }
  size_t read(uint32_t peer, std::span<std::byte> into) override { return peers_[peer].read(into); }

  void wait(std::chrono::milliseconds at_most) override {
    polled_.clear();
    for (Connection& peer : peers_) {
      // Only what was tried in vain: a peer that is ahead of us may have sent what nobody reads yet, and must not keep
      // us awake.
      if (const short events = peer.take_awaited(); events != 0) {
        polled_.push_back({.fd = peer.fd(), .events = events, .revents = 0});
      }
    }
    const int rc = poll(polled_.data(), polled_.size(), static_cast<int>(at_most.count()));
    if (rc < 0 && errno != EINTR) throw system_error("cannot wait for connections");
  }

 private:
  std::vector<Connection> peers_;  // by rank; closed where nothing is exchanged
  std::vector<pollfd> polled_;     // kept to keep its memory
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

    std::vector<Connection> connections(peers_.size());
    for (const uint32_t peer : peers_[rank]) {
      send_at_once(sockets[peer].get());
      connections[peer] = Connection(peer, std::move(sockets[peer]));
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

}  // namespace banyan
