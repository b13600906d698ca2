#include "banyan/run/system/tcp_state.h"

// The kernel's own header: that of the C library lacks the newer numbers, and excludes this one.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>

namespace banyan::run {
namespace {

// TCP_ESTABLISHED and TCP_CLOSE of the kernel, which its header does not name.
constexpr uint8_t kOpen = 1, kClosed = 7;
constexpr uint32_t kUnknown = UINT32_MAX;

}  // namespace

std::optional<TcpState> tcp_state(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  return TcpState{.is_open = info.tcpi_state == kOpen,
                  .is_broken = info.tcpi_state == kClosed,
                  .unacknowledged = info.tcpi_unacked,
                  .retransmits = info.tcpi_retransmits,
                  .unanswered = info.tcpi_probes,
                  .bytes_acknowledged = info.tcpi_bytes_acked,
                  .bytes_unsent = info.tcpi_notsent_bytes,
                  .round_trip = std::chrono::microseconds(info.tcpi_rtt),
                  .least_round_trip = std::chrono::microseconds(info.tcpi_min_rtt == kUnknown ? 0 : info.tcpi_min_rtt),
                  .busy = std::chrono::microseconds(info.tcpi_busy_time),
                  .receiver_was_full = std::chrono::microseconds(info.tcpi_rwnd_limited),
                  .heard_ago = std::chrono::milliseconds(info.tcpi_last_ack_recv)};
}

}  // namespace banyan::run
