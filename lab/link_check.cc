#include "lab/link_check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <optional>

#include "banyan/base/check.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"
#include "lab/network_namespace.h"

namespace banyan::lab {
namespace {

using Clock = std::chrono::steady_clock;

const Port& port_of(const Lab& lab, uint32_t cable, NodeId node) {
  const std::vector<Port>& ports = lab.plan().host(node).ports;
  const auto found = std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.cable == cable; });
  CHECK(found != ports.end());
  return *found;
}

sockaddr_in socket_address(Address address, uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_addr.s_addr = htonl(address.bits);
  result.sin_port = htons(port);
  return result;
}

run::FileDescriptor make_socket(const std::string& network_namespace, Address address) {
  const InNamespace inside(network_namespace);
  run::FileDescriptor made(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.is_open()) throw run::system_error("cannot make a socket");
  const sockaddr_in own = socket_address(address, 0);
  if (bind(made.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) {
    throw run::system_error("cannot use " + address.to_string());
  }
  return made;
}

}  // namespace

double measure_link(const Lab& lab, uint32_t cable, NodeId from, std::chrono::milliseconds duration) {
  const NodeId to = lab.plan().cables()[cable].other_end(from);
  const Address target = port_of(lab, cable, to).address;
  const run::FileDescriptor listener = make_socket(lab.namespace_of(to), target);
  sockaddr_in bound{};
  socklen_t size = sizeof bound;
  if (listen(listener.get(), 1) != 0 || getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    throw run::system_error("cannot listen at " + target.to_string());
  }
  const run::FileDescriptor sender = make_socket(lab.namespace_of(from), port_of(lab, cable, from).address);
  if (connect(sender.get(), reinterpret_cast<const sockaddr*>(&bound), sizeof bound) != 0 && errno != EINPROGRESS) {
    return 0;
  }
  run::FileDescriptor receiver;
  std::array<std::byte, 1 << 16> piece{};
  const Clock::time_point begin = Clock::now(), end = begin + duration;
  std::optional<Clock::time_point> counting_since;
  Clock::time_point last;
  uint64_t counted = 0;
  for (Clock::time_point now = begin; now < end; now = Clock::now()) {
    std::array<pollfd, 2> polled{
        pollfd{.fd = receiver.is_open() ? receiver.get() : listener.get(), .events = POLLIN, .revents = 0},
        pollfd{.fd = sender.get(), .events = POLLOUT, .revents = 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - now);
    if (poll(polled.data(), polled.size(), static_cast<int>(left.count())) < 0) throw run::system_error("cannot poll");
    if (polled[1].revents != 0 && send(sender.get(), piece.data(), piece.size(), MSG_NOSIGNAL) < 0 && errno != EAGAIN) {
      return 0;
    }
    if (polled[0].revents == 0) continue;
    if (!receiver.is_open()) {
      receiver = run::FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      continue;
    }
    const ssize_t count = recv(receiver.get(), piece.data(), piece.size(), 0);
    if (count <= 0) continue;
    last = Clock::now();
    // The bytes that the bucket held at the beginning came faster.
    if (counting_since) {
      counted += static_cast<uint64_t>(count);
    } else if (last - begin > duration / 5) {
      counting_since = last;
    }
  }
  if (!counting_since || last <= *counting_since) return 0;
  return static_cast<double>(counted) / std::chrono::duration<double>(last - *counting_since).count();
}

}  // namespace banyan::lab
