// The doors of a daemon: the unix sockets at which tenants attach, and operators ask.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <functional>
#include <string>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"

namespace banyan::service {

// SOCK_SEQPACKET for tenants, SOCK_STREAM for operators.
enum class DoorKind : uint8_t { tenants, operators };
// Listens there, without blocking. `is_for_all_users`: of this host; else for this user and root. A socket that is left
// from a daemon that has ended is replaced; one at which somebody listens is Error{invalid_usage}. Throws
// Error{invalid_input} for what cannot be a path of a socket, Error{io}.
run::FileDescriptor listen_at(const std::string& path, DoorKind kind, bool is_for_all_users);

// Throws Error{invalid_input} for what cannot be the path of a socket.
void expect_path_of_socket(const std::string& path);

// "127.0.0.1:9420", "[::1]:9420", "0.0.0.0:9420".
struct HttpPlace {
  std::string address;
  uint16_t port = 0;
  // Throws Error{invalid_input}.
  static HttpPlace parse(const std::string& text);
};
// Listens by TCP. Throws Error{invalid_input}, Error{io}.
run::FileDescriptor listen_on(const HttpPlace& place);

// The address at which a socket listens, as the kernel says it: "unix:/run/banyan/banyand.sock",
// "http://127.0.0.1:9420". Empty if it does not know.
std::string place_of(const run::FileDescriptor& listening);

// Sockets that listen already, handed to the daemon by whoever started it (service_manager.h). In place of one that is
// not open, the daemon listens by itself, or not at all.
struct HandedSockets {
  run::FileDescriptor tenants;    // unix, SOCK_SEQPACKET: where programs attach
  run::FileDescriptor operators;  // unix, SOCK_STREAM: HTTP, also what changes something
  run::FileDescriptor http;       // TCP: HTTP, for looking only
};

// Keeps sockets at paths of the daemon's own beyond its end (service_manager.h).
struct SocketKeeper {
  // One that listens at this path already; none: the daemon opens it.
  std::function<run::FileDescriptor(const std::string& path)> take = [](const std::string&) {
    return run::FileDescriptor();
  };
  std::function<void(const std::string& path, const run::FileDescriptor& socket)> keep =
      [](const std::string&, const run::FileDescriptor&) {};
};

// Not open if `socket` is not open. Throws Error{io}.
inline run::FileDescriptor copy_of(const run::FileDescriptor& socket) {
  if (!socket.is_open()) return {};
  run::FileDescriptor copy(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.is_open()) throw run::system_error("cannot copy a socket that listens");
  return copy;
}

}  // namespace banyan::service
