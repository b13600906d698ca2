// An IP address and a port, as sockets want them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  // "10.1.2.3", "fd00::1", or "fe80::1%eth0": one that is valid on one link only has the interface by its name or
  // number. Throws Error{invalid_input}.
  static SocketAddress parse(const std::string& address, uint16_t port);
  // The address of a socket itself, and of its other end; none if it has none (errno says why).
  static std::optional<SocketAddress> of(int socket);
  static std::optional<SocketAddress> beyond(int socket);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  uint16_t port() const;
  // The address alone, that of IPv4 alike in both families: "10.1.2.3"; empty if it is no IP address.
  std::string ip() const;
  bool operator==(const SocketAddress& other) const;
};

// A port of the range that callers get theirs from may be given to the caller itself, and then it reaches itself.
bool has_reached_itself(int socket);

// Non-blocking, closed on exec. Throws Error{io}; the second is not open then, and errno says why.
FileDescriptor make_tcp_socket(int family);
FileDescriptor try_tcp_socket(int family) noexcept;
// True if an errno says that this process or machine has too few descriptors, or too little memory for sockets.
bool is_shortage(int error);
void send_at_once(const FileDescriptor& socket);

}  // namespace banyan::run
