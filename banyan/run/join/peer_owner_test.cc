#include "banyan/run/join/peer_owner.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "banyan/run/join/handshake.h"
#include "banyan/run/join/listener.h"
#include "banyan/run/join/socket_address.h"
#include "banyan/run/join/test_calls.h"
#include "banyan/run/system/child.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using State = Handshake::State;

constexpr uid_t kOther = 65534;

FileDescriptor answer(const Listener& listener) {
  pollfd polled{.fd = listener.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&polled, 1, 10'000), 1);
  return FileDescriptor(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

TEST(PeerOwner, IsOursAtBothEndsOfAConnectionOfOurOwn) {
  for (const auto& each : {std::pair("127.0.0.1", "127.0.0.1"), std::pair("0.0.0.0", "127.0.0.5"),
                           std::pair("::1", "::1"), std::pair("::", "127.0.0.1")}) {
    const char *const listens = each.first, *const calls = each.second;
    SCOPED_TRACE(listens);
    const Listener listener = [&] {
      try {
        return Listener::on(listens);
      } catch (const Error&) {  // there is no IPv6 here
        return Listener::on("127.0.0.1");
      }
    }();
    const bool is_v6_missing = std::string(calls) == "::1" && std::string(listens) == "::1" && [&] {
      SocketAddress bound;
      bound.size = sizeof bound.storage;
      getsockname(listener.fd(), bound.get(), &bound.size);
      return bound.family() == AF_INET;
    }();
    if (is_v6_missing) continue;
    const FileDescriptor caller = call(listener.port(), calls);
    EXPECT_EQ(owner_of_peer(caller.get()), std::nullopt) << "nobody has answered yet";
    const FileDescriptor callee = answer(listener);
    for (const FileDescriptor* end : {&caller, &callee}) {
      EXPECT_EQ(owner_of_peer(end->get()), geteuid());
      EXPECT_EQ(owner_of_peer_by_table(end->get()), geteuid());
      EXPECT_EQ(stranger_at(end->get()), std::nullopt);
    }
  }
}

// The kernel calls the owner of such a socket 0. Root would be let in.
TEST(PeerOwner, IsNobodyWhenThePeerHasHungUp) {
  const Listener listener = Listener::on("127.0.0.1");
  FileDescriptor caller = call(listener.port());
  const FileDescriptor callee = answer(listener);
  caller.reset();
  EXPECT_EQ(owner_of_peer(callee.get()), std::nullopt);
  EXPECT_EQ(owner_of_peer_by_table(callee.get()), std::nullopt);
  EXPECT_THAT(stranger_at(callee.get()).value_or(""), HasSubstr("has no owner that the kernel would name"));
}

TEST(PeerOwner, IsToldOfUnixSocketsToo) {
  std::array<int, 2> ends;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const FileDescriptor a(ends[0]), b(ends[1]);
  EXPECT_EQ(owner_of_peer(a.get()), geteuid());
}

State finish(Handshake& handshake) {
  while (true) {
    const State state = handshake.advance();
    if (state == State::done || state == State::refused) return state;
    pollfd polled{.fd = handshake.fd(), .events = POLLIN, .revents = 0};
    if (state == State::wants_write) polled.events = POLLOUT;
    poll(&polled, 1, 10'000);
  }
}

Handshake caller_to(uint16_t port, const Secret& secret) {
  const SocketAddress target = SocketAddress::parse("127.0.0.1", port);
  FileDescriptor socket = make_tcp_socket(AF_INET);
  EXPECT_TRUE(connect(socket.get(), target.get(), target.size) == 0 || errno == EINPROGRESS);
  return Handshake::caller(std::move(socket), secret, {.purpose = "lane", .payload = "", .from = "0", .to = "1"});
}

// So does a process of ours that is short of descriptors: who called it may call again, and is no stranger's victim.
TEST(PeerOwner, IsAskedForAgainWhereThePeerHungUpAfterItsAnswer) {
  const Listener listener = Listener::on("127.0.0.1");
  Handshake caller = caller_to(listener.port(), Secret());
  ASSERT_EQ(caller.advance(), State::wants_read);
  {
    Handshake callee = Handshake::callee(answer(listener), Secret(), "1");
    ASSERT_EQ(callee.advance(), State::wants_read) << "it has answered, and waits for the greeting";
  }
  EXPECT_EQ(finish(caller), State::refused);
  EXPECT_THAT(caller.refusal(), HasSubstr("hung up during the greeting"));
  EXPECT_FALSE(caller.is_final());
}

class OtherUser : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  }
};

// Both at once: the child calls while this process answers.
TEST_F(OtherUser, IsNamedByTheOneWhoRefusesIt) {
  const Listener listener = Listener::on("127.0.0.1");
  Child child([&] {
    if (setgid(kOther) != 0 || setuid(kOther) != 0) return 99;
    Handshake caller = caller_to(listener.port(), Secret());
    const State state = finish(caller);
    const bool is_told = caller.refusal().find("trusts no process of another user") != std::string::npos;
    return state == State::refused && is_told ? 0 : 1;
  });
  Handshake callee = Handshake::callee(answer(listener), Secret(), "1");
  EXPECT_EQ(finish(callee), State::refused);
  EXPECT_THAT(callee.refusal(),
              HasSubstr("belongs to user 65534, and without a secret only user 0 is trusted (set BANYAN_SECRET"));
  { const Handshake ended = std::move(callee); }  // hangs up
  EXPECT_EQ(child.reap(), 0);
}

// Who squats on the port of a rank that has died, or is yet to come.
TEST_F(OtherUser, IsNotBelievedWhenItAnswers) {
  Listener listener = Listener::on("127.0.0.1");
  Child child([&] {
    if (setgid(kOther) != 0 || setuid(kOther) != 0) return 99;
    Handshake callee = Handshake::callee(answer(listener), Secret(), "1");
    const State state = finish(callee);
    const bool is_told = callee.refusal().find("trusts no process of another user") != std::string::npos;
    return state == State::refused && is_told ? 0 : 1;
  });
  Handshake caller = caller_to(listener.port(), Secret());
  EXPECT_EQ(finish(caller), State::refused);
  EXPECT_THAT(caller.refusal(), HasSubstr("belongs to user 65534"));
  EXPECT_EQ(child.reap(), 0);
}

TEST_F(OtherUser, IsLetInWithTheSecret) {
  const Secret secret = Secret::random();
  const Listener listener = Listener::on("127.0.0.1");
  Child child([&] {
    if (setgid(kOther) != 0 || setuid(kOther) != 0) return 99;
    Handshake caller = caller_to(listener.port(), secret);
    const State state = finish(caller);
    char byte;
    if (state == State::done) static_cast<void>(recv(caller.take().socket.get(), &byte, 1, 0));
    return state == State::done ? 0 : 1;
  });
  Handshake callee = Handshake::callee(answer(listener), secret, "1");
  EXPECT_EQ(finish(callee), State::done) << callee.refusal();
  callee.take();  // hangs up
  EXPECT_EQ(child.reap(), 0);
}

}  // namespace
}  // namespace banyan::run
