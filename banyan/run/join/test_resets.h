// Breaks connections of this process for tests, as a reset by the network does.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cstdint>

namespace banyan::run {

// Those that lead to the port; both ends see a reset. connect(2) to no address sends one.
inline void reset_connections_to(uint16_t port) {
  for (int fd = 3; fd < 256; ++fd) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || ntohs(peer.sin_port) != port) continue;
    sockaddr nobody{};
    nobody.sa_family = AF_UNSPEC;
    connect(fd, &nobody, sizeof nobody);
  }
}

}  // namespace banyan::run
