// Listener: the door of a process, open before anybody knows its address.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {

// Calls queue up in the kernel until somebody answers them (agent.h, store_server.h). Not inherited by programs that
// this process starts.
class Listener {
 public:
  // "127.0.0.1", "10.1.2.3", "::1"; "0.0.0.0" or "::" for all addresses of this host ("::" takes IPv4 calls too).
  // Without a secret only the loopback may be listened on: see secret.h. Port 0: the kernel chooses one. Throws
  // Error{invalid_input} for what is no address, Error{io}.
  static Listener on(const std::string& address, uint16_t port = 0);
  // True if this host has the address, as bind(2) sees it: one of an interface that comes up does not count yet. Throws
  // the same.
  static bool can_be_on(const std::string& address);

  uint16_t port() const { return port_; }
  int fd() const { return socket_.get(); }
  FileDescriptor take() && { return std::move(socket_); }

 private:
  Listener(FileDescriptor socket, uint16_t port) : socket_(std::move(socket)), port_(port) {}

  FileDescriptor socket_;
  uint16_t port_ = 0;
};

}  // namespace banyan::run
