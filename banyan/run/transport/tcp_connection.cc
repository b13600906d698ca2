#include "banyan/run/transport/tcp_connection.h"

#include <linux/errqueue.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "banyan/base/check.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

// Reads at least so long go to their place at once; shorter ones are worth a system call for many.
constexpr size_t kDirectRead = size_t{4} << 10;

// Shorter bodies cost less to copy than to lend.
constexpr size_t kLeastLent = size_t{16} << 10;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }
// By the peer, by this host (`ss -K`, an operator who clears away connections), or by the network, whose last complaint
// the kernel reports in place of ETIMEDOUT.
bool is_lost(int error) {
  constexpr std::array kLost{ECONNRESET, EPIPE, ECONNREFUSED, ETIMEDOUT, ECONNABORTED, EHOSTUNREACH, ENETUNREACH};
  return std::ranges::find(kLost, error) != kLost.end();
}

template <typename Call>
ssize_t retried(Call call) {
  ssize_t result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace

Error connection_error(uint32_t peer, int error) {
  const std::string name = "rank " + std::to_string(peer);
  if (is_lost(error)) return Error(ErrorCode::peer_lost, "the connection to " + name + " was lost");
  return system_error("the connection to " + name + " failed", error);
}

TcpConnection::TcpConnection(uint32_t peer, FileDescriptor socket, bool zero_copy)
    : peer_(peer), socket_(std::move(socket)), buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {
  const int on = 1;
  zero_copy_ = zero_copy && setsockopt(socket_.get(), SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) == 0;
}

// 0 too when the kernel has no room to be lent anything.
size_t TcpConnection::send(std::span<const std::span<const std::byte>> pieces, int flags) {
  CHECK(pieces.size() <= kMostPieces) << pieces.size();
  std::array<iovec, kMostPieces> parts;
  for (size_t i = 0; i < pieces.size(); ++i) {
    parts[i] = {.iov_base = const_cast<std::byte*>(pieces[i].data()), .iov_len = pieces[i].size()};
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = pieces.size();
  const ssize_t sent = retried([&] { return sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT | flags); });
  if (sent >= 0) return static_cast<size_t>(sent);
  const bool has_no_room = (flags & MSG_ZEROCOPY) != 0 && errno == ENOBUFS;
  if (!would_block(errno) && !has_no_room) throw connection_error(peer_, errno);
  return 0;
}

size_t TcpConnection::write(std::span<const std::byte> head, std::span<const std::byte> body) {
  return write_pieces(std::array{head, body});
}

size_t TcpConnection::write_pieces(std::span<const std::span<const std::byte>> pieces) {
  size_t all = 0;
  for (const std::span<const std::byte> piece : pieces) all += piece.size();
  const size_t count = send(pieces, 0);
  if (count < all) awaited_ |= POLLOUT;
  return count;
}

size_t TcpConnection::write_lasting(std::span<const std::byte> head, std::span<const std::byte> body) {
  if (!zero_copy_ || body.size() < kLeastLent) return write(head, body);
  if (!head.empty()) {
    // Heads do not last.
    const size_t count = send({&head, 1}, MSG_MORE);
    if (count < head.size()) awaited_ |= POLLOUT;
    if (count < head.size()) return count;
  }
  const size_t count = send({&body, 1}, MSG_ZEROCOPY);
  if (count == 0) return head.size() + write({}, body);
  ++lent_;
  if (count < body.size()) awaited_ |= POLLOUT;
  return head.size() + count;
}

short TcpConnection::before_sleep() {
  // What was released is told as an error, for which poll(2) always looks, but only on sockets that it is given.
  const int lent = lent_ > released_ ? POLLERR : 0;
  return static_cast<short>(std::exchange(awaited_, short{0}) | lent);
}

size_t TcpConnection::in_flight() const {
  int count = 0;  // not acknowledged, also of a connection that was reset
  return ioctl(socket_.get(), SIOCOUTQ, &count) == 0 ? static_cast<size_t>(count) : SIZE_MAX;
}

bool TcpConnection::has_unsent() {
  take_releases();
  return lent_ > released_;
}

// The kernel numbers what it is lent, and releases it in ranges.
void TcpConnection::take_releases() {
  while (lent_ > released_) {
    alignas(cmsghdr) std::array<std::byte, 256> space;
    msghdr message{};
    message.msg_control = space.data();
    message.msg_controllen = space.size();
    if (retried([&] { return recvmsg(socket_.get(), &message, MSG_ERRQUEUE | MSG_DONTWAIT); }) < 0) {
      if (!would_block(errno)) throw connection_error(peer_, errno);
      return;
    }
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
      sock_extended_err report;
      if (part->cmsg_len < CMSG_LEN(sizeof report)) continue;
      std::memcpy(&report, CMSG_DATA(part), sizeof report);
      if (report.ee_errno != 0 || report.ee_origin != SO_EE_ORIGIN_ZEROCOPY) continue;
      released_ += uint64_t{report.ee_data - report.ee_info} + 1;
      if ((report.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0) zero_copy_ = false;
    }
  }
}

std::span<const std::byte> TcpConnection::peek() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    end_ = receive({buffer_.get(), kBufferBytes});
  }
  return {buffer_.get() + begin_, end_ - begin_};
}

void TcpConnection::consume(size_t count) {
  DCHECK(count <= end_ - begin_) << count << " of " << end_ - begin_ << " bytes";
  begin_ += count;
}

size_t TcpConnection::read(std::span<std::byte> into) {
  if (begin_ == end_ && into.size() >= kDirectRead) return receive(into);
  const std::span<const std::byte> arrived = peek();
  const size_t count = std::min(arrived.size(), into.size());
  if (count > 0) std::memcpy(into.data(), arrived.data(), count);
  consume(count);
  return count;
}

size_t TcpConnection::receive(std::span<std::byte> into) {
  const ssize_t received = retried([&] { return recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT); });
  if (received == 0) throw connection_error(peer_, ECONNRESET);
  if (received > 0) return static_cast<size_t>(received);
  if (!would_block(errno)) throw connection_error(peer_, errno);
  awaited_ |= POLLIN;
  return 0;
}

}  // namespace banyan::run
