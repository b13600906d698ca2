// The state of a TCP connection, as the kernel knows it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace banyan::run {

struct TcpState {
  bool is_open = false;             // both ways
  bool is_broken = false;           // by a reset, or after too many repetitions
  uint32_t unacknowledged = 0;      // packets that were sent
  uint32_t retransmits = 0;         // of the first of them
  uint32_t unanswered = 0;          // keep-alive questions, since the peer was last heard of
  uint64_t bytes_acknowledged = 0;  // since the beginning
  uint64_t bytes_unsent = 0;        // that wait here
  // Until what was sent was acknowledged: smoothed, and the least of the last minutes; 0: not known.
  std::chrono::microseconds round_trip{0}, least_round_trip{0};
  // Since the beginning, while there was anything to send or unacknowledged; and the part of it for which the receiver
  // had no room.
  std::chrono::microseconds busy{0}, receiver_was_full{0};
  std::chrono::milliseconds heard_ago{0};  // since the last packet with an acknowledgement, which all have
};

// None if the socket is no TCP connection. Any thread.
std::optional<TcpState> tcp_state(int socket);

}  // namespace banyan::run
