#include "banyan/run/join/handshake.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <array>
#include <functional>
#include <string>
#include <utility>

#include "banyan/run/join/listener.h"
#include "banyan/run/join/socket_address.h"

namespace banyan::run {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using State = Handshake::State;

const Secret kSecret("the banyan grows down");
const std::string kHello = "banyan/1   \n";
const std::string kNonce(16, 'n');

std::pair<FileDescriptor, FileDescriptor> socket_pair() {
  std::array<int, 2> ends;
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// Two ends of a TCP connection over the loopback: {who called, who was called}.
std::pair<FileDescriptor, FileDescriptor> tcp_pair() {
  const Listener listener = Listener::on("127.0.0.1");
  const SocketAddress address = SocketAddress::parse("127.0.0.1", listener.port());
  FileDescriptor caller = make_tcp_socket(AF_INET);
  EXPECT_TRUE(connect(caller.get(), address.get(), address.size) == 0 || errno == EINPROGRESS);
  FileDescriptor callee(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  EXPECT_TRUE(callee.is_open());
  return {std::move(caller), std::move(callee)};
}

void send_text(const FileDescriptor& socket, const std::string& text) {
  EXPECT_EQ(send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

// All that can be read now.
std::string receive_text(const FileDescriptor& socket) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t count; (count = recv(socket.get(), buffer.data(), buffer.size(), 0)) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  return text;
}

bool is_over(State state) { return state == State::done || state == State::refused; }

void advance_both(Handshake& a, Handshake& b) {
  for (int i = 0; i < 100; ++i) {
    const State first = a.advance();
    if (is_over(b.advance()) && is_over(first)) return;
  }
  FAIL() << "the two do not come to an end";
}

struct Ending {
  State caller, callee;
  std::string caller_refusal, callee_refusal;
  Greeting heard;
};

Ending shake_hands(const Secret& caller_secret, const Secret& callee_secret,
                   std::pair<FileDescriptor, FileDescriptor> sockets, const Greeting& greeting = {"lane", "3 7"}) {
  Handshake caller = Handshake::caller(std::move(sockets.first), caller_secret, greeting);
  Handshake callee = Handshake::callee(std::move(sockets.second), callee_secret);
  advance_both(caller, callee);
  Ending ending{caller.advance(), callee.advance(), caller.refusal(), callee.refusal(), {}};
  if (ending.callee == State::done) ending.heard = callee.greeting();
  return ending;
}

TEST(Handshake, TellsTheCalleeWhatTheCallerWants) {
  for (const Secret& secret : {Secret(), kSecret}) {
    for (const bool over_tcp : {false, true}) {
      const Ending ending = shake_hands(secret, secret, over_tcp ? tcp_pair() : socket_pair());
      EXPECT_EQ(ending.caller, State::done) << ending.caller_refusal;
      EXPECT_EQ(ending.callee, State::done) << ending.callee_refusal;
      EXPECT_EQ(ending.heard.purpose, "lane");
      EXPECT_EQ(ending.heard.payload, "3 7");
    }
  }
}

TEST(Handshake, CarriesTheLargestAndTheEmptyGreeting) {
  Greeting largest{std::string(255, 'p'), std::string(Greeting::kMaxPayload, '\0')};
  for (size_t i = 0; i < largest.payload.size(); ++i) largest.payload[i] = static_cast<char>(i * 37);
  for (const Greeting& greeting : {largest, Greeting{}}) {
    const Ending ending = shake_hands(kSecret, kSecret, tcp_pair(), greeting);
    EXPECT_EQ(ending.callee, State::done) << ending.callee_refusal;
    EXPECT_EQ(ending.heard.purpose, greeting.purpose);
    EXPECT_EQ(ending.heard.payload, greeting.payload);
  }
}

TEST(Handshake, LeavesWhatFollowsInTheSocket) {
  auto [a, b] = socket_pair();
  Handshake caller = Handshake::caller(std::move(a), kSecret, {"store", "x"});
  Handshake callee = Handshake::callee(std::move(b), kSecret);
  while (caller.advance() != State::done) callee.advance();
  const FileDescriptor sender = caller.take_socket();
  send_text(sender, "and now the work");
  EXPECT_EQ(callee.advance(), State::done);
  EXPECT_EQ(receive_text(callee.take_socket()), "and now the work");
}

// Every byte is carried across alone, and each side is asked to go on after it.
TEST(Handshake, WorksByteByByte) {
  auto [a, a_far] = socket_pair();
  auto [b, b_far] = socket_pair();
  Handshake caller = Handshake::caller(std::move(a), kSecret, {"store", "payload"});
  Handshake callee = Handshake::callee(std::move(b), kSecret);
  const auto carry = [](const FileDescriptor& from, const FileDescriptor& to) {
    char byte;
    if (recv(from.get(), &byte, 1, 0) != 1) return 0;
    EXPECT_EQ(send(to.get(), &byte, 1, MSG_NOSIGNAL), 1);
    return 1;
  };
  int carried = 0;
  for (int moved = 1; moved != 0; carried += moved) {
    caller.advance();
    callee.advance();
    moved = carry(a_far, b_far) + carry(b_far, a_far);
  }
  EXPECT_EQ(caller.advance(), State::done) << caller.refusal();
  EXPECT_EQ(callee.advance(), State::done) << callee.refusal();
  EXPECT_EQ(callee.greeting().payload, "payload");
  EXPECT_EQ(carried, 28 + 28 + 33 + 33 + 1 + 3 + 5 + 7);
}

// A socket that is full: the rest follows when the peer has read.
TEST(Handshake, WaitsForRoom) {
  auto [a, far] = socket_pair();
  std::array<char, 1024> filling{};
  size_t filled = 0;
  for (ssize_t sent; (sent = send(a.get(), filling.data(), filling.size(), 0)) > 0;)
    filled += static_cast<size_t>(sent);
  Handshake caller = Handshake::caller(std::move(a), kSecret, {"store", ""});
  EXPECT_EQ(caller.advance(), State::wants_write);
  EXPECT_EQ(caller.advance(), State::wants_write);
  EXPECT_EQ(receive_text(far).size(), filled);
  EXPECT_EQ(caller.advance(), State::wants_read);
  EXPECT_THAT(receive_text(far), StartsWith(kHello));
}

TEST(Handshake, RefusesAnotherSecretOnBothSides) {
  const Ending ending = shake_hands(Secret("the oak grows upwards"), kSecret, tcp_pair());
  EXPECT_EQ(ending.callee, State::refused);
  EXPECT_THAT(ending.callee_refusal, StartsWith("127.0.0.1:"));
  EXPECT_THAT(ending.callee_refusal, HasSubstr("does not know the secret (set BANYAN_SECRET or BANYAN_SECRET_FILE"));
  EXPECT_EQ(ending.caller, State::refused);
  EXPECT_THAT(ending.caller_refusal, HasSubstr("has another secret than this process, or none"));
}

TEST(Handshake, RefusesWhenOneSideHasNoSecret) {
  const Ending without = shake_hands(Secret(), kSecret, socket_pair());
  EXPECT_EQ(without.callee, State::refused);
  EXPECT_THAT(without.caller_refusal, HasSubstr("wants a secret, and this process has none"));
  const Ending with = shake_hands(kSecret, Secret(), socket_pair());
  EXPECT_THAT(with.callee_refusal, HasSubstr("has a secret, and this process has none"));
  EXPECT_EQ(with.caller, State::refused);
}

// The callee that asks for a proof and returns it as its own knows nothing.
TEST(Handshake, IsNotFooledByItsOwnProof) {
  auto [a, impostor] = socket_pair();
  Handshake caller = Handshake::caller(std::move(a), kSecret, {"store", "precious"});
  caller.advance();
  std::string hello = receive_text(impostor);
  send_text(impostor, hello);  // its own nonce, too
  caller.advance();
  send_text(impostor, receive_text(impostor));
  EXPECT_EQ(caller.advance(), State::refused);
  EXPECT_THAT(caller.refusal(), HasSubstr("does not know the secret"));
  EXPECT_EQ(receive_text(impostor), "s");
}

// A caller that recorded a whole conversation and plays it again.
TEST(Handshake, IsNotFooledByAReplay) {
  auto [a, tap] = socket_pair();
  Handshake caller = Handshake::caller(std::move(a), kSecret, {"store", ""});
  auto [b, far] = socket_pair();
  Handshake callee = Handshake::callee(std::move(b), kSecret);
  std::string recorded;
  while (callee.advance() != State::done) {
    caller.advance();
    const std::string said = receive_text(tap);
    recorded += said;
    send_text(far, said);
    callee.advance();
    send_text(tap, receive_text(far));
  }
  auto [again, attacker] = socket_pair();
  Handshake victim = Handshake::callee(std::move(again), kSecret);
  send_text(attacker, recorded);
  EXPECT_EQ(victim.advance(), State::refused);
  EXPECT_THAT(victim.refusal(), HasSubstr("does not know the secret"));
}

std::string refusal_of_callee(const std::string& input, const Secret& secret = kSecret) {
  auto [a, far] = socket_pair();
  Handshake callee = Handshake::callee(std::move(a), secret);
  send_text(far, input);
  EXPECT_EQ(callee.advance(), State::refused) << input;
  return callee.refusal();
}

TEST(Handshake, RefusesGarbageAtItsFirstByte) {
  for (const std::string garbage : {"GET / HTTP/1.1\r\n", "\x16\x03\x01", "SSH-2.0-x\n", "b0", "banyan/x    \n",
                                    "banyan/1 2  \n", "banyan/     \n"}) {
    EXPECT_THAT(refusal_of_callee(garbage), HasSubstr("sent something else than a greeting of banyan"));
  }
}

TEST(Handshake, SaysNothingToStrangers) {
  auto [a, far] = socket_pair();
  Handshake callee = Handshake::callee(std::move(a), kSecret);
  EXPECT_EQ(callee.advance(), State::wants_read);
  send_text(far, "GET /");
  EXPECT_EQ(callee.advance(), State::refused);
  EXPECT_EQ(receive_text(far), "");
}

TEST(Handshake, NamesTheOtherVersionOnBothSides) {
  auto [a, far] = socket_pair();
  Handshake callee = Handshake::callee(std::move(a), kSecret);
  send_text(far, "banyan/27  \nand whatever they say");
  EXPECT_EQ(callee.advance(), State::refused);
  EXPECT_THAT(callee.refusal(), EndsWith("speaks banyan/27, this is banyan/1"));
  EXPECT_THAT(receive_text(far), StartsWith(kHello));
}

TEST(Handshake, RefusesAnOversizedPayloadBeforeItComes) {
  auto [a, tap] = socket_pair();
  Handshake caller = Handshake::caller(std::move(a), kSecret, {"store", ""});
  auto [b, far] = socket_pair();
  Handshake callee = Handshake::callee(std::move(b), kSecret);
  while (caller.advance() != State::done) {
    const std::string said = receive_text(tap);
    if (!said.empty()) send_text(far, said);
    callee.advance();
    const std::string answer = receive_text(far);
    if (!answer.empty()) send_text(tap, answer);
  }
  receive_text(tap);  // the true greeting is replaced
  send_text(far, std::string("y\x05\x01\x40", 4));
  EXPECT_EQ(callee.advance(), State::refused);
  EXPECT_THAT(callee.refusal(), HasSubstr("announced a payload of 16385 bytes; at most 16384"));
}

TEST(Handshake, NoticesThatThePeerHungUpAtAnyStep) {
  for (size_t heard = 0; heard < 28; heard += 9) {
    auto [a, far] = socket_pair();
    Handshake callee = Handshake::callee(std::move(a), kSecret);
    send_text(far, (kHello + kNonce).substr(0, heard));
    EXPECT_EQ(callee.advance(), State::wants_read);
    far.reset();
    EXPECT_EQ(callee.advance(), State::refused);
    EXPECT_THAT(callee.refusal(), HasSubstr("hung up during the greeting"));
  }
}

TEST(Handshake, SaysWhenNobodyAnswersTheCall) {
  const SocketAddress address = [] {
    const Listener gone = Listener::on("127.0.0.1");
    return SocketAddress::parse("127.0.0.1", gone.port());
  }();
  FileDescriptor socket = make_tcp_socket(AF_INET);
  const int rc = connect(socket.get(), address.get(), address.size);
  ASSERT_TRUE(rc == 0 || errno == EINPROGRESS || errno == ECONNREFUSED);
  Handshake caller = Handshake::caller(std::move(socket), kSecret, {"store", ""});
  State state = caller.advance();
  while (!is_over(state)) state = caller.advance();
  EXPECT_EQ(state, State::refused);
}

}  // namespace
}  // namespace banyan::run
