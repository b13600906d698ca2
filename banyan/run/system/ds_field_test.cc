#include "banyan/run/system/ds_field.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr uint8_t kDscp = 34, kOther = 8;

// Of IPv4, and of IPv6; -1: there is none.
std::pair<int, int> fields_of(int socket) {
  std::pair<int, int> fields{-1, -1};
  socklen_t size = sizeof(int);
  if (getsockopt(socket, IPPROTO_IP, IP_TOS, &fields.first, &size) != 0) fields.first = -1;
  size = sizeof(int);
  if (getsockopt(socket, IPPROTO_IPV6, IPV6_TCLASS, &fields.second, &size) != 0) fields.second = -1;
  return fields;
}

FileDescriptor listener(int family) {
  FileDescriptor made(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (made.is_open() && listen(made.get(), 1) != 0) return {};
  return made;
}

FileDescriptor call(const FileDescriptor& listener, int family) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size) != 0) return {};
  const in_port_t port = at.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(at).sin_port
                                                 : reinterpret_cast<const sockaddr_in6&>(at).sin6_port;
  FileDescriptor made(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = port;
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = port;
  six.sin6_addr = in6addr_loopback;
  const bool is_six = family == AF_INET6;
  const auto* const there = is_six ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&four);
  if (connect(made.get(), there, is_six ? sizeof six : sizeof four) != 0) return {};
  return made;
}

TEST(DsField, IsThatOfTheSocketsPacketsUntilItIsMarkedAnew) {
  const FileDescriptor socket = listener(AF_INET);
  for (const uint8_t dscp : {kDscp, kOther, uint8_t{0}, kMostDscp}) {
    mark_packets(socket.get(), dscp);
    EXPECT_EQ(fields_of(socket.get()).first, dscp << 2);
  }
}

TEST(DsField, OfAListenerIsThatOfConnectionsThatItTakesByIPv4) {
  const FileDescriptor door = listener(AF_INET);
  mark_packets(door.get(), kDscp);
  const FileDescriptor caller = call(door, AF_INET);
  const FileDescriptor taken(accept4(door.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(taken.is_open());
  EXPECT_EQ(fields_of(taken.get()).first, kDscp << 2);
  EXPECT_EQ(fields_of(caller.get()).first, 0);
}

// A socket of IPv6 also has connections by IPv4.
TEST(DsField, OfSocketsOfIPv6IsThatOfBothProtocols) {
  const FileDescriptor door = listener(AF_INET6);
  if (!door.is_open()) GTEST_SKIP() << "there is no IPv6: " << std::strerror(errno);
  mark_packets(door.get(), kDscp);
  for (const int family : {AF_INET, AF_INET6}) {
    const FileDescriptor caller = call(door, family);
    if (family == AF_INET6 && !caller.is_open()) GTEST_SKIP() << "no loopback of IPv6: " << std::strerror(errno);
    const FileDescriptor taken(accept4(door.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(taken.is_open());
    EXPECT_EQ(fields_of(taken.get()), std::pair(kDscp << 2, kDscp << 2));
    mark_packets(taken.get(), kOther);
    EXPECT_EQ(fields_of(taken.get()), std::pair(kOther << 2, kOther << 2));
  }
}

TEST(DsField, IsNoMatterOfOtherSockets) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor one(ends[0]), other(ends[1]);
  EXPECT_NO_THROW(mark_packets(one.get(), kDscp));
}

TEST(DsField, OfWhatIsNoSocketIsAnError) {
  EXPECT_THAT(testing::error_of([&] { mark_packets(-1, kDscp); }, ErrorCode::io),
              ::testing::HasSubstr("Bad file descriptor"));
}

}  // namespace
}  // namespace banyan::run
