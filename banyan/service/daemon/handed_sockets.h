// Sockets that listen already, handed to the daemon by whoever started it (service_manager.h). In place of one that is
// not open, the daemon listens by itself, or not at all.
#pragma once

#include <fcntl.h>

#include <functional>
#include <string>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"

namespace banyan::service {

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
