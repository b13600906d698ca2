#include "banyan/run/system/tcp_state.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// By TCP.
std::pair<FileDescriptor, FileDescriptor> connected_pair() {
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&here), size), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&here), &size), 0);
  FileDescriptor caller(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(caller.get(), reinterpret_cast<const sockaddr*>(&here), size), 0);
  return {std::move(caller), FileDescriptor(accept(listener.get(), nullptr, nullptr))};
}

TEST(TcpState, SaysWhatHasArrived) {
  const auto [caller, callee] = connected_pair();
  const uint64_t before = tcp_state(caller.get())->bytes_acknowledged;
  const std::string bytes(5000, 'x');
  ASSERT_EQ(send(caller.get(), bytes.data(), bytes.size(), 0), 5000);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (tcp_state(caller.get())->unacknowledged > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  const TcpState after = *tcp_state(caller.get());
  EXPECT_EQ(after.bytes_acknowledged - before, 5000u);
  EXPECT_EQ(after.unacknowledged, 0u);
  EXPECT_EQ(after.retransmits, 0u);
  EXPECT_LT(after.heard_ago, std::chrono::seconds(10));
  EXPECT_GT(after.round_trip, std::chrono::microseconds(0));
  EXPECT_GT(after.least_round_trip, std::chrono::microseconds(0));
  EXPECT_LE(after.least_round_trip, std::chrono::seconds(10));
  EXPECT_FALSE(after.is_broken);
}

TEST(TcpState, SaysThatAConnectionWasReset) {
  auto [caller, callee] = connected_pair();
  ASSERT_FALSE(tcp_state(caller.get())->is_broken);
  const linger reset{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(setsockopt(callee.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
  callee = FileDescriptor();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!tcp_state(caller.get())->is_broken && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(tcp_state(caller.get())->is_broken);
}

TEST(TcpState, IsNoneOfOtherThings) {
  const FileDescriptor file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(tcp_state(file.get()));
  EXPECT_FALSE(tcp_state(-1));
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const FileDescriptor first(ends[0]), second(ends[1]);
  EXPECT_FALSE(tcp_state(first.get()));
}

}  // namespace
}  // namespace banyan::run
