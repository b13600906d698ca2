// Sockets, and whatever else has a descriptor.
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>  // has more of TCP_INFO than the header of the C library
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "banyan/testing/machines/interpose.h"
#include "banyan/testing/machines/objects.h"
#include "banyan/testing/machines/tcp_socket.h"

namespace banyan::testing::machines {

void link_sockets() {}

void put(const Address& from, sockaddr* into, socklen_t* size) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(from.ip);
  v4.sin_port = htons(from.port);
  std::memcpy(into, &v4, std::min<size_t>(*size, sizeof v4));
  *size = sizeof v4;
}

namespace {

Address address_of(const sockaddr* address) {
  sockaddr_in v4;
  std::memcpy(&v4, address, sizeof v4);
  return {.ip = ntohl(v4.sin_addr.s_addr), .port = ntohs(v4.sin_port)};
}

std::shared_ptr<TcpSocket> tcp(int fd) { return std::dynamic_pointer_cast<TcpSocket>(world->find(fd)); }

// Does `move` again while there is nothing to do, if the call is to wait for that.
template <typename Move>
ssize_t moved(int fd, int flags, uint32_t events, Move move) {
  const std::shared_ptr<Object> object = world->find(fd);
  if (object == nullptr) return fail(EBADF);
  for (;;) {
    const ssize_t count = move(*object);
    const bool waits = !object->is_nonblocking && (flags & MSG_DONTWAIT) == 0;
    if (count >= 0 || errno != EAGAIN || !waits) return count;
    world->scheduler().wait("a descriptor",
                            [object, events] { return (object->events() & (events | POLLERR | POLLHUP)) != 0; });
  }
}

int poll_until(pollfd* polled, nfds_t count, Nanoseconds end) {
  const auto look = [polled, count] {
    int ready = 0;
    for (nfds_t i = 0; i < count; ++i) {
      pollfd& each = polled[i];
      each.revents = 0;
      if (each.fd < 0) continue;
      const std::shared_ptr<Object> object = world->find(each.fd);
      const uint32_t events = object == nullptr ? POLLNVAL : object->events();
      each.revents = static_cast<short>(events & (static_cast<uint32_t>(each.events) | POLLERR | POLLHUP | POLLNVAL));
      ready += each.revents != 0 ? 1 : 0;
    }
    return ready;
  };
  world->scheduler().wait(
      "poll", [&look] { return look() > 0; }, end);
  return look();
}

}  // namespace
}  // namespace banyan::testing::machines

using namespace banyan::testing::machines;  // these are its functions

extern "C" {

// ---- Sockets ----

int socket(int family, int type, int protocol) noexcept {
  const Entry inside(kCall);
  if (!inside) return real_calls().socket(family, type, protocol);
  if (inside.fails()) return fail(EMFILE);
  if (family != AF_INET) return fail(EAFNOSUPPORT);
  const bool is_nonblocking = (type & SOCK_NONBLOCK) != 0;
  if ((type & 0xf) == SOCK_DGRAM) return world->add(std::make_shared<DatagramSocket>(), is_nonblocking);
  return world->add(std::make_shared<TcpSocket>(*world), is_nonblocking);
}

int bind(int fd, const sockaddr* address, socklen_t size) noexcept {
  const Entry inside(fd);
  if (!inside) return real_calls().bind(fd, address, size);
  if (inside.fails()) return fail(EADDRINUSE);
  const auto socket = tcp(fd);
  return socket == nullptr ? fail(ENOTSOCK) : socket->bind(address_of(address));
}

int listen(int fd, int backlog) noexcept {
  const Entry inside(fd);
  if (!inside) return real_calls().listen(fd, backlog);
  if (inside.fails()) return fail(ENOBUFS);
  const auto socket = tcp(fd);
  return socket == nullptr ? fail(ENOTSOCK) : socket->listen();
}

int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  const Entry inside(fd);
  if (!inside) return real_calls().accept4(fd, address, size, flags);
  if (inside.fails()) return fail(EMFILE);
  const auto listener = tcp(fd);
  if (listener == nullptr) return fail(ENOTSOCK);
  std::shared_ptr<TcpSocket> caller;
  while ((caller = listener->accept()) == nullptr) {
    if (listener->is_nonblocking) return fail(EAGAIN);
    world->scheduler().wait("a caller", [listener] { return listener->events() != 0; });
  }
  if (address != nullptr) put(caller->remote(), address, size);
  return world->add(caller, (flags & SOCK_NONBLOCK) != 0);
}

int connect(int fd, const sockaddr* address, socklen_t size) {
  const Entry inside(fd);
  if (!inside) return real_calls().connect(fd, address, size);
  if (inside.fails()) return fail(ENOBUFS);
  const std::shared_ptr<Object> object = world->find(fd);
  if (const auto datagrams = std::dynamic_pointer_cast<DatagramSocket>(object)) {
    datagrams->local = {.ip = world->address_towards(world->own().host, address_of(address).ip), .port = 40'000};
    return 0;
  }
  const auto socket = tcp(fd);
  if (socket == nullptr) return fail(ENOTSOCK);
  const int rc = socket->connect(address_of(address));
  if (rc == 0 || errno != EINPROGRESS || socket->is_nonblocking) return rc;
  world->scheduler().wait("a connection", [socket] { return !socket->is_connecting(); });
  const int error = socket->take_error();
  return error == 0 ? 0 : fail(error);
}

int shutdown(int fd, int how) noexcept {
  const Entry inside(fd);
  if (!inside) return real_calls().shutdown(fd, how);
  const auto socket = tcp(fd);
  if (socket == nullptr) return fail(ENOTSOCK);
  return how == SHUT_RD ? 0 : socket->shut_down_sending();
}

int getsockname(int fd, sockaddr* address, socklen_t* size) noexcept {
  const Entry inside(fd);
  if (!inside) return real_calls().getsockname(fd, address, size);
  const auto datagrams = std::dynamic_pointer_cast<DatagramSocket>(world->find(fd));
  const auto socket = tcp(fd);
  if (datagrams == nullptr && socket == nullptr) return fail(ENOTSOCK);
  put(datagrams != nullptr ? datagrams->local : socket->local(), address, size);
  return 0;
}

int getpeername(int fd, sockaddr* address, socklen_t* size) noexcept {
  const Entry inside(fd);
  if (!inside) return real_calls().getpeername(fd, address, size);
  const auto socket = tcp(fd);
  if (socket == nullptr) return fail(ENOTSOCK);
  if (!socket->is_connected()) return fail(ENOTCONN);
  put(socket->remote(), address, size);
  return 0;
}

int getsockopt(int fd, int level, int name, void* value, socklen_t* size) noexcept {
  const Entry inside(fd);
  if (!inside) return real_calls().getsockopt(fd, level, name, value, size);
  const auto socket = tcp(fd);
  if (socket == nullptr) return fail(ENOTSOCK);
  if (level == SOL_SOCKET && name == SO_ERROR) {
    const int error = socket->take_error();
    std::memcpy(value, &error, sizeof error);
    return 0;
  }
  if (level != IPPROTO_TCP || name != TCP_INFO) return fail(ENOPROTOOPT);
  const TcpSocket::Info told = socket->info();
  tcp_info info{};
  info.tcpi_state = told.is_broken ? 7 : 1;  // closed, established
  info.tcpi_bytes_acked = told.acknowledged;
  info.tcpi_unacked = static_cast<uint32_t>((told.unacknowledged + 1447) / 1448);
  info.tcpi_retransmits = static_cast<uint8_t>(std::min<uint64_t>(told.retransmits, 255));
  info.tcpi_last_ack_recv = static_cast<uint32_t>(told.last_heard.count());
  std::memcpy(value, &info, std::min<size_t>(*size, sizeof info));
  return 0;
}

int setsockopt(int fd, int level, int name, const void* value, socklen_t size) noexcept {
  const Entry inside(fd);
  if (!inside) return real_calls().setsockopt(fd, level, name, value, size);
  if (inside.fails()) return fail(ENOBUFS);
  const auto socket = tcp(fd);
  if (socket == nullptr) return fail(ENOTSOCK);
  int number = 0;
  std::memcpy(&number, value, std::min<size_t>(size, sizeof number));
  if (level == IPPROTO_TCP && name == TCP_USER_TIMEOUT) socket->set_user_timeout(std::chrono::milliseconds(number));
  if (level == IPPROTO_TCP && name == TCP_KEEPIDLE) socket->keep_alive_for(std::chrono::seconds(3 * number));
  return level == SOL_SOCKET && name == SO_ZEROCOPY ? fail(ENOPROTOOPT) : 0;
}

ssize_t send(int fd, const void* from, size_t size, int flags) {
  const Entry inside(fd);
  if (!inside) return real_calls().send(fd, from, size, flags);
  if (inside.fails()) return fail(ENOBUFS);
  return moved(fd, flags, POLLOUT, [&](Object& object) { return object.write(from, size); });
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  const Entry inside(fd);
  if (!inside) return real_calls().sendmsg(fd, message, flags);
  if (inside.fails()) return fail(ENOBUFS);
  std::string bytes;
  for (size_t i = 0; i < message->msg_iovlen; ++i) {
    bytes.append(static_cast<const char*>(message->msg_iov[i].iov_base), message->msg_iov[i].iov_len);
  }
  return moved(fd, flags, POLLOUT, [&](Object& object) { return object.write(bytes.data(), bytes.size()); });
}

ssize_t recv(int fd, void* into, size_t size, int flags) {
  const Entry inside(fd);
  if (!inside) return real_calls().recv(fd, into, size, flags);
  if (inside.fails()) return fail(ENOMEM);
  return moved(fd, flags, POLLIN, [&](Object& object) { return object.read(into, size); });
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  const Entry inside(fd);
  if (!inside) return real_calls().recvmsg(fd, message, flags);
  if (inside.fails()) return fail(ENOMEM);
  if ((flags & MSG_ERRQUEUE) != 0) return fail(EAGAIN);
  return moved(fd, flags, POLLIN,
               [&](Object& object) { return object.read(message->msg_iov[0].iov_base, message->msg_iov[0].iov_len); });
}

// ---- Descriptors ----

ssize_t read(int fd, void* into, size_t size) {
  const Entry inside(fd);
  if (!inside) return real_calls().read(fd, into, size);
  return moved(fd, 0, POLLIN, [&](Object& object) { return object.read(into, size); });
}

ssize_t write(int fd, const void* from, size_t size) {
  const Entry inside(fd);
  if (!inside) return real_calls().write(fd, from, size);
  return moved(fd, 0, POLLOUT, [&](Object& object) { return object.write(from, size); });
}

int close(int fd) {
  const Entry inside(fd);
  if (!inside) return real_calls().close(fd);
  return world->close(fd);
}

int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const long argument = va_arg(arguments, long);
  va_end(arguments);
  const Entry inside(fd);
  if (!inside) return real_calls().fcntl(fd, command, argument);
  const std::shared_ptr<Object> object = world->find(fd);
  if (object == nullptr) return fail(EBADF);
  if (command == F_GETFL) return O_RDWR | (object->is_nonblocking ? O_NONBLOCK : 0);
  if (command == F_SETFL) object->is_nonblocking = (argument & O_NONBLOCK) != 0;
  return command == F_GETFD ? FD_CLOEXEC : 0;
}

int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const Entry inside(fd);
  if (!inside) return real_calls().ioctl(fd, request, argument);
  const auto socket = tcp(fd);
  if (socket == nullptr || request != SIOCOUTQ) return fail(ENOTTY);
  const auto count = static_cast<int>(socket->info().unacknowledged);
  std::memcpy(argument, &count, sizeof count);
  return 0;
}

int poll(pollfd* polled, nfds_t count, int time) {
  const Entry inside(kCall);
  if (!inside) return real_calls().poll(polled, count, time);
  if (inside.fails()) return fail(ENOMEM);
  return poll_until(polled, count, end_after_ms(time));
}

int ppoll(pollfd* polled, nfds_t count, const timespec* time, const sigset_t* mask) {
  const Entry inside(kCall);
  if (!inside) return real_calls().ppoll(polled, count, time, mask);
  if (inside.fails()) return fail(ENOMEM);
  return poll_until(polled, count, end_after(time));
}

int epoll_create1(int flags) noexcept {
  const Entry inside(kCall);
  if (!inside) return real_calls().epoll_create1(flags);
  if (inside.fails()) return fail(EMFILE);
  return world->add(std::make_shared<EventPoll>(*world), false);
}

int epoll_ctl(int poll, int operation, int fd, epoll_event* event) noexcept {
  const Entry inside(poll);
  if (!inside) return real_calls().epoll_ctl(poll, operation, fd, event);
  if (inside.fails()) return fail(ENOMEM);
  const auto found = std::dynamic_pointer_cast<EventPoll>(world->find(poll));
  return found == nullptr ? fail(EBADF) : found->control(operation, fd, event);
}

int epoll_wait(int poll, epoll_event* events, int most, int time) {
  const Entry inside(poll);
  if (!inside) return real_calls().epoll_wait(poll, events, most, time);
  const auto found = std::dynamic_pointer_cast<EventPoll>(world->find(poll));
  if (found == nullptr) return fail(EBADF);
  world->scheduler().wait(
      "epoll", [found] { return found->has_any(); }, end_after_ms(time));
  return found->take(events, most);
}

int eventfd(unsigned count, int flags) noexcept {
  const Entry inside(kCall);
  if (!inside) return real_calls().eventfd(count, flags);
  if (inside.fails()) return fail(EMFILE);
  return world->add(std::make_shared<EventCounter>(count), (flags & EFD_NONBLOCK) != 0);
}

int eventfd_read(int fd, eventfd_t* value) {
  if (!Kernel::is_simulated(fd)) return real_calls().eventfd_read(fd, value);
  return read(fd, value, sizeof *value) == sizeof *value ? 0 : -1;
}

int eventfd_write(int fd, eventfd_t value) {
  if (!Kernel::is_simulated(fd)) return real_calls().eventfd_write(fd, value);
  return write(fd, &value, sizeof value) == sizeof value ? 0 : -1;
}

}  // extern "C"
