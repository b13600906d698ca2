#include "banyan/run/transport/tcp_connection.h"

#include <poll.h>

#include <cerrno>

#include "banyan/run/system/processes.h"
#include "banyan/run/transport/lane_transport.h"
#include "banyan/run/transport/test_exchange.h"
#include "banyan/run/transport/test_sockets.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// One end sends what the other reads, in bodies that last.
std::string lend(TcpConnection& connection, uint64_t total) {
  const std::vector<std::byte> bytes = bytes_from(0, total);
  const std::vector<std::byte> head = bytes_from(total, 100);
  size_t sent = 0;
  const auto sleep = [&] {
    const short events = connection.before_sleep();
    pollfd polled{.fd = connection.fd(), .events = events, .revents = 0};
    if (events != 0 && poll(&polled, 1, 10'000) == 1) connection.after_sleep();
  };
  while (sent < total) {
    const size_t count = connection.write_lasting({}, std::span(bytes).subspan(sent));
    sent += count;
    if (count == 0) sleep();
  }
  size_t of_head = 0;
  while (of_head < head.size()) of_head += connection.write_lasting(std::span(head).subspan(of_head), {});
  while (connection.has_unsent()) sleep();
  // On the loopback the kernel copies all the same, and the connection learns it from the first that it lent.
  return connection.lent() == 0 ? "nothing was lent" : "sent";
}

TEST(TcpConnection, WhoeverBreaksItOffThePeerIsLost) {
  for (const int error : {ECONNRESET, EPIPE, ECONNREFUSED, ETIMEDOUT, ECONNABORTED, EHOSTUNREACH, ENETUNREACH}) {
    EXPECT_EQ(connection_error(3, error).code(), ErrorCode::peer_lost) << error;
  }
  EXPECT_EQ(connection_error(3, ENOMEM).code(), ErrorCode::io);
}

TEST(TcpConnection, LendsLongBodiesAndGetsThemBack) {
  constexpr uint64_t kTotal = 30'000'000;
  MeetingPoint place(2);
  const auto reports = run_processes(2, seconds(60), [&](uint32_t rank) -> std::string {
    auto sockets = place.connect(rank);
    TcpConnection connection(1 - rank, std::move(sockets[1 - rank]), rank == 0);
    if (rank == 0) return lend(connection, kTotal);
    uint64_t came = 0, wrong = 0;
    std::vector<std::byte> into(100'000);
    while (came < kTotal + 100) {
      const size_t count = connection.read(into);
      wrong += count_wrong(came, std::span(into).first(count));
      came += count;
      if (count > 0) continue;
      pollfd polled{.fd = connection.fd(), .events = connection.before_sleep(), .revents = 0};
      poll(&polled, 1, 10'000);
    }
    return wrong == 0 ? "sent" : std::to_string(wrong) + " wrong";
  });
  EXPECT_THAT(reports, Each("sent"));
}

TEST(TcpConnection, LendsNothingUnlessItIsToldTo) {
  MeetingPoint place(2);
  const auto body = [&](uint32_t rank) -> std::string {
    auto sockets = place.connect(rank);
    TcpConnection connection(1 - rank, std::move(sockets[1 - rank]));
    const std::vector<std::byte> bytes(50'000);
    size_t sent = connection.write_lasting({}, bytes), came = 0;
    std::vector<std::byte> into(50'000);
    while (sent < 50'000) sent += connection.write_lasting({}, std::span(bytes).subspan(sent));
    while (came < 50'000) came += connection.read(into);
    return std::to_string(connection.lent());
  };
  EXPECT_THAT(run_processes(2, seconds(60), body), Each("0"));
}

}  // namespace
}  // namespace banyan::run
