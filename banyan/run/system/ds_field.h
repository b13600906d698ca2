// The DS field of packets (RFC 2474), by which switches and network cards tell classes of traffic apart.
#pragma once

#include <cstdint>

namespace banyan::run {

inline constexpr uint8_t kMostDscp = 63;

// Packets of this TCP socket bear this code point from now on, over IPv4 and IPv6 alike: data, acknowledgements and
// what is sent again. Connections that a listener takes from now on begin with its code point. Sockets that are of
// neither family stay as they are. Throws Error{io}. Any thread.
void mark_packets(int socket, uint8_t dscp);

}  // namespace banyan::run
