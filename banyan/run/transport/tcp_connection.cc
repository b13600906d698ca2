#include "banyan/run/transport/tcp_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/system/system_error.h"

namespace banyan {
namespace {

constexpr size_t kBufferBytes = size_t{64} << 10;
// Reads at least so long go to their place at once; shorter ones are worth a system call for many.
constexpr size_t kDirectRead = size_t{4} << 10;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }
bool is_lost(int error) { return error == ECONNRESET || error == EPIPE || error == ECONNREFUSED || error == ETIMEDOUT; }

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

TcpConnection::TcpConnection(uint32_t peer, FileDescriptor socket)
    : peer_(peer), socket_(std::move(socket)), buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {}

size_t TcpConnection::write(std::span<const std::byte> head, std::span<const std::byte> body) {
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

std::span<const std::byte> TcpConnection::peek() {
  if (begin_ == end_) {
    begin_ = 0;
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

}  // namespace banyan
