#include "banyan/run/agent/socket_dialer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/words.h"
#include "banyan/run/seal/sealed_stream.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

void set_option(const FileDescriptor& socket, int level, int name, int value) {
  if (setsockopt(socket.get(), level, name, &value, sizeof value) != 0) {
    throw system_error("cannot prepare a connection");
  }
}

// So that TCP gives up on a peer whose host is gone, whether something is being sent or not.
void notice_loss(const FileDescriptor& socket, std::chrono::milliseconds after) {
  const int seconds = static_cast<int>(after.count() / 1000);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(after.count()));
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 3));
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 6));
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
}

// An error of send() after which the stream carries nothing more, and which is not due to the peer's closing it.
bool is_broken_by(int error) {
  return error != EAGAIN && error != EWOULDBLOCK && error != ENOBUFS && error != ENOMEM && error != EPIPE;
}

std::string why_broken(int error, std::chrono::milliseconds lost_after) {
  if (error == 0 || error == ECONNRESET || error == EPIPE) return "it has closed its connection";
  if (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH) {
    return "its host has not answered for " + format_timeout(lost_after);
  }
  return std::string("its connection failed: ") + std::strerror(error);
}

}  // namespace

SocketStream::SocketStream(Reactor& reactor, FileDescriptor socket, std::chrono::milliseconds lost_after)
    : reactor_(reactor), socket_(std::move(socket)), lost_after_(lost_after) {
  if (lost_after.count() > 0) notice_loss(socket_, lost_after);
}

SocketStream::~SocketStream() { reactor_.forget(socket_.get()); }

void SocketStream::watch(Ready ready) {
  reactor_.watch(socket_.get(), EPOLLIN, [ready = std::move(ready)](uint32_t events) {
    ready((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0, (events & EPOLLOUT) != 0);
  });
}

void SocketStream::await_room(bool on) { reactor_.change(socket_.get(), on ? EPOLLIN | EPOLLOUT : EPOLLIN); }

size_t SocketStream::send(std::string_view bytes) {
  for (;;) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EINTR) continue;
    if (broken_by_ == 0 && is_broken_by(errno)) broken_by_ = errno;
    return 0;
  }
}

ByteStream::Received SocketStream::receive(std::span<char> buffer) {
  for (;;) {
    const ssize_t count = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0) return {.count = static_cast<size_t>(count), .is_over = false, .why = ""};
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    const int error = count < 0 ? errno : broken_by_;
    return {
        .count = 0, .is_over = true, .is_orderly = error == 0, .is_said = false, .why = why_broken(error, lost_after_)};
  }
}

uint32_t SocketDialer::paths(uint32_t peer) const {
  const size_t addresses = std::max<size_t>(1, peers_[peer].target.addresses.size());
  return static_cast<uint32_t>(addresses + learned_[peer].size());
}

void SocketDialer::learn(uint32_t peer, const std::string& local_address, const std::string& peer_address) {
  constexpr size_t kMost = 8;
  const ConnectTarget& target = peers_[peer].target;
  if (peer_address.empty() || learned_[peer].size() >= kMost) return;
  const bool is_known =
      local_address.empty() && std::ranges::find(target.addresses, peer_address) != target.addresses.end();
  const auto is_same = [&](const ConnectTarget& other) {
    return other.local_address == local_address && other.addresses.front() == peer_address;
  };
  if (is_known || std::ranges::any_of(learned_[peer], is_same)) return;
  learned_[peer].push_back(
      {.addresses = {peer_address}, .port = target.port, .local_address = local_address, .name = target.name});
}

uint64_t SocketDialer::dial(uint32_t peer, uint32_t path, Done done) {
  ConnectTarget target = peers_[peer].target;
  if (path < target.addresses.size()) {
    target.addresses = {target.addresses[path]};
  } else if (path >= std::max<size_t>(1, target.addresses.size())) {
    target = learned_[peer].at(path - std::max<size_t>(1, target.addresses.size()));
  }
  return connects_.connect(
      std::move(target), peers_[peer].greeting, [this, done = std::move(done)](OutgoingConnects::Outcome outcome) {
        Outcome made{.stream = nullptr,
                     .failure = std::move(outcome.failure),
                     .nobody_listens = outcome.nobody_listens,
                     .somebody_listens = outcome.somebody_listens};
        try {
          if (outcome.socket.is_open()) {
            auto stream = std::make_unique<SocketStream>(reactor_, std::move(outcome.socket), lost_after_);
            made.stream = std::make_unique<SealedStream>(std::move(stream), outcome.keys);
          }
        } catch (const Error& error) {  // it was reset already
          made.failure = error.what();
        }
        done(std::move(made));
      });
}

}  // namespace banyan::run
