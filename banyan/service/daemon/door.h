// The doors of a daemon: the unix sockets at which tenants attach, and operators ask.
#pragma once

#include <cstdint>
#include <string>

#include "banyan/run/system/file_descriptor.h"

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

}  // namespace banyan::service
