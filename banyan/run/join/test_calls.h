// Calls of strangers, for tests.
#pragma once

#include <sys/socket.h>

#include <string>

#include "banyan/run/join/socket_address.h"
#include "banyan/testing/test.h"

namespace banyan::run {

// A connection over which nothing has been said yet.
inline FileDescriptor call(uint16_t port, const std::string& address = "127.0.0.1") {
  const SocketAddress target = SocketAddress::parse(address, port);
  FileDescriptor socket(::socket(target.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(socket.get(), target.get(), target.size), 0);
  return socket;
}

}  // namespace banyan::run
