#include "banyan/run/join/socket_address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <charconv>
#include <cstring>

#include "banyan/run/join/network.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

// The number of the interface by which an address is reached that is valid on one link only.
uint32_t zone_number(const std::string& address, const std::string& zone) {
  if (zone.empty()) {
    throw Error(ErrorCode::invalid_input, "'" + address + "' is valid on one link only; say which, as in '" + address +
                                              "%eth0' (this machine has " + list_interfaces() + ")");
  }
  uint32_t number = if_nametoindex(zone.c_str());
  if (number == 0) {
    const char* const end = zone.data() + zone.size();
    const auto [rest, error] = std::from_chars(zone.data(), end, number);
    if (error != std::errc() || rest != end) number = 0;
  }
  if (number == 0) {
    throw Error(ErrorCode::invalid_input, "'" + address + "%" + zone + "': this machine has no interface '" + zone +
                                              "', but " + list_interfaces());
  }
  return number;
}

}  // namespace

SocketAddress SocketAddress::parse(const std::string& whole, uint16_t port) {
  const size_t mark = whole.find('%');
  const std::string address = whole.substr(0, mark);
  SocketAddress parsed;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&parsed.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&parsed.storage);
  if (inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    parsed.size = sizeof *v4;
  } else if (inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    parsed.size = sizeof *v6;
    if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) v6->sin6_scope_id = zone_number(address, zone_of(whole));
  } else {
    throw Error(ErrorCode::invalid_input, "'" + address + "' is no IP address, such as 10.1.2.3");
  }
  return parsed;
}

std::optional<SocketAddress> SocketAddress::of(int socket) {
  SocketAddress address{.size = sizeof(sockaddr_storage)};
  if (getsockname(socket, address.get(), &address.size) != 0) return {};
  return address;
}
std::optional<SocketAddress> SocketAddress::beyond(int socket) {
  SocketAddress address{.size = sizeof(sockaddr_storage)};
  if (getpeername(socket, address.get(), &address.size) != 0) return {};
  return address;
}

std::string SocketAddress::ip() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text, sizeof text);
  } else if (family() == AF_INET6) {
    const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
    const bool is_v4 = IN6_IS_ADDR_V4MAPPED(&address);
    inet_ntop(is_v4 ? AF_INET : AF_INET6, &address.s6_addr[is_v4 ? 12 : 0], text, sizeof text);
  }
  return text;
}

bool SocketAddress::operator==(const SocketAddress& other) const {
  return size == other.size && std::memcmp(&storage, &other.storage, size) == 0;
}

bool has_reached_itself(int socket) {
  const std::optional<SocketAddress> own = SocketAddress::of(socket), peer = SocketAddress::beyond(socket);
  return own && peer && *own == *peer;
}

uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET ? reinterpret_cast<const sockaddr_in*>(&storage)->sin_port
                                   : reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
}

FileDescriptor try_tcp_socket(int family) noexcept {
  return FileDescriptor(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS; }

FileDescriptor make_tcp_socket(int family) {
  FileDescriptor made = try_tcp_socket(family);
  if (!made.is_open()) throw system_error("cannot make a socket");
  return made;
}

void send_at_once(const FileDescriptor& socket) {
  const int on = 1;
  if (setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
    throw system_error("cannot set TCP_NODELAY");
  }
}

}  // namespace banyan::run
