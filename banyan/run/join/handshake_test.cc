#include "banyan/run/join/handshake.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <array>
#include <functional>
#include <optional>
#include <set>
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
const std::string kHello = "banyan/2   \n";
const std::string kNonce(16, 'n');
constexpr size_t kHelloSize = 28, kShareSize = 65, kProofSize = 32;

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
  const FileDescriptor sender = caller.take().socket;
  send_text(sender, "and now the work");
  EXPECT_EQ(callee.advance(), State::done);
  EXPECT_EQ(receive_text(callee.take().socket), "and now the work");
}

// Every byte is carried across alone, and each side is asked to go on after it.
TEST(Handshake, WorksByteByByte) {
  auto [a, a_far] = socket_pair();
  auto [b, b_far] = socket_pair();
  Handshake caller = Handshake::caller(std::move(a), kSecret, {"store", "payload"});
  Handshake callee = Handshake::callee(std::move(b), kSecret);
  const auto carry = [](const FileDescriptor& from, const FileDescriptor& to) {
    char byte;
    if (recv(from.get(), &byte, 1, 0) != 1) return size_t{0};
    EXPECT_EQ(send(to.get(), &byte, 1, MSG_NOSIGNAL), 1);
    return size_t{1};
  };
  size_t carried = 0;
  for (size_t moved = 1; moved != 0; carried += moved) {
    caller.advance();
    callee.advance();
    moved = carry(a_far, b_far) + carry(b_far, a_far);
  }
  EXPECT_EQ(caller.advance(), State::done) << caller.refusal();
  EXPECT_EQ(callee.advance(), State::done) << callee.refusal();
  EXPECT_EQ(callee.greeting().payload, "payload");
  constexpr size_t kSealed = 2 + (1 + 5 + 7) + 16;  // the greeting, with its size
  EXPECT_EQ(carried, 2 * (kHelloSize + kShareSize + 1 + kProofSize) + kSealed);
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

// Both know what the other one seals, in each direction by another key, and in each connection by others.
TEST(Handshake, GivesBothTheSameKeysAndNobodyElse) {
  std::set<std::string> keys;
  for (const Secret& secret : {Secret(), kSecret, kSecret}) {
    auto [a, b] = socket_pair();
    Handshake caller = Handshake::caller(std::move(a), secret, {"store", "x"});
    Handshake callee = Handshake::callee(std::move(b), secret);
    advance_both(caller, callee);
    const SessionKeys of_caller = caller.take().keys, of_callee = callee.take().keys;
    EXPECT_EQ(of_caller.sending, of_callee.receiving);
    EXPECT_EQ(of_caller.receiving, of_callee.sending);
    EXPECT_EQ(of_caller.sending.size(), 32u);
    keys.insert({of_caller.sending, of_caller.receiving});
  }
  EXPECT_EQ(keys.size(), 6u);
}

// Two handshakes whose bytes an attacker carries, and may change.
struct Relay {
  explicit Relay(const Greeting& greeting = {"lane", "3 7"}, const Secret& of_callee = kSecret) {
    auto [a, a_far] = socket_pair();
    auto [b, b_far] = socket_pair();
    caller.emplace(Handshake::caller(std::move(a), kSecret, greeting));
    callee.emplace(Handshake::callee(std::move(b), of_callee));
    to_caller = std::move(a_far);
    to_callee = std::move(b_far);
  }
  std::string hear_caller() {
    caller->advance();
    return receive_text(to_caller);
  }
  std::string hear_callee() {
    callee->advance();
    return receive_text(to_callee);
  }
  State tell_caller(const std::string& text) {
    send_text(to_caller, text);
    return caller->advance();
  }
  State tell_callee(const std::string& text) {
    send_text(to_callee, text);
    return callee->advance();
  }
  std::optional<Handshake> caller, callee;
  FileDescriptor to_caller, to_callee;
};

// Whoever squats on a port, or calls, hears nothing by which a secret could be tried, but for one with each call: the
// caller says nothing of the secret before the callee has proved that it knows it.
TEST(Handshake, GivesASquatterNothingToGuessBy) {
  Relay squatter;
  const std::string said = squatter.hear_caller();
  EXPECT_EQ(said.size(), kHelloSize + kShareSize) << "its share is one for any secret";
  Relay guesser({"lane", "3 7"}, Secret("a guess of the squatter"));
  EXPECT_EQ(squatter.tell_caller([&] {
    guesser.tell_callee(said);
    return receive_text(guesser.to_callee);
  }()),
            State::refused);
  EXPECT_EQ(receive_text(squatter.to_caller), "s");
}

// Who sends back what it hears knows nothing, be it all or only the share.
TEST(Handshake, IsNotFooledByItsOwnWords) {
  Relay relay;
  const std::string said = relay.hear_caller();
  const std::string hello = said.substr(0, kHelloSize), share = said.substr(kHelloSize);
  EXPECT_EQ(relay.tell_caller(hello + "y" + share + std::string(kProofSize, 'p')), State::refused);
  EXPECT_THAT(relay.caller->refusal(), HasSubstr("has another secret than this process, or none"));
  EXPECT_EQ(receive_text(relay.to_caller), "s");

  Relay other;
  other.tell_callee(other.hear_caller());
  const std::string answer = receive_text(other.to_callee);
  EXPECT_EQ(other.tell_callee("y" + answer.substr(answer.size() - kProofSize) + std::string(2, '\x40')),
            State::refused);
  EXPECT_THAT(other.callee->refusal(), HasSubstr("does not know the secret"));
}

// Every byte of the handshake, changed on its way, ends it on one side at least, and never with another greeting.
TEST(Handshake, NoticesEveryByteThatIsChangedOnItsWay) {
  constexpr size_t kFirst = kHelloSize + kShareSize, kSecond = kHelloSize + 1 + kShareSize + kProofSize;
  const size_t all = kFirst + kSecond + 1 + kProofSize + 2 + (1 + 4 + 3) + 16;
  for (size_t changed = 0; changed < all; ++changed) {
    Relay relay;
    size_t position = 0;
    const auto passed = [&](std::string text) {
      for (char& byte : text) byte = static_cast<char>(byte ^ (position++ == changed ? 0x04 : 0));
      return text;
    };
    relay.tell_callee(passed(relay.hear_caller()));
    const State caller = relay.tell_caller(passed(receive_text(relay.to_callee)));
    if (caller != State::refused) relay.tell_callee(passed(receive_text(relay.to_caller)));
    shutdown(relay.to_callee.get(), SHUT_WR);
    EXPECT_EQ(relay.callee->advance(), State::refused) << "byte " << changed;
    if (changed < kFirst + kSecond) {
      shutdown(relay.to_caller.get(), SHUT_WR);
      EXPECT_EQ(relay.caller->advance(), State::refused) << "byte " << changed;
    }
  }
}

// An honest caller's connection cannot be used for what it has not asked for: neither its greeting in another
// connection nor another greeting in its own.
TEST(Handshake, IsForItsOwnPurposeAndRankOnly) {
  Relay lane({"lane", "rank 3"}), store({"store", "rank 4"});
  for (Relay* relay : {&lane, &store}) {
    relay->tell_callee(relay->hear_caller());
    relay->tell_caller(receive_text(relay->to_callee));
  }
  const std::string for_lane = receive_text(lane.to_caller), for_store = receive_text(store.to_caller);
  constexpr size_t kProof = 1 + kProofSize;
  EXPECT_EQ(lane.tell_callee(for_lane.substr(0, kProof) + for_store.substr(kProof)), State::refused);
  EXPECT_THAT(lane.callee->refusal(), HasSubstr("a greeting that was changed on its way"));
  EXPECT_EQ(store.tell_callee(for_lane), State::refused);
  EXPECT_THAT(store.callee->refusal(), HasSubstr("does not know the secret"));
}

// A caller that recorded a whole conversation and plays it again; and a callee that does.
TEST(Handshake, IsNotFooledByAReplay) {
  Relay honest;
  const std::string first = honest.hear_caller();
  honest.tell_callee(first);
  const std::string second = receive_text(honest.to_callee);
  honest.tell_caller(second);
  const std::string third = receive_text(honest.to_caller);
  EXPECT_EQ(honest.tell_callee(third), State::done);
  Relay again;
  EXPECT_EQ(again.tell_callee(first + third), State::refused);
  EXPECT_THAT(again.callee->refusal(), HasSubstr("does not know the secret"));
  EXPECT_EQ(again.tell_caller(second), State::refused);
  EXPECT_THAT(again.caller->refusal(), HasSubstr("has another secret"));
}

// An older version was less careful. Both say which they speak before anything else, and stop.
TEST(Handshake, IsNotTalkedIntoAnOlderVersion) {
  Relay relay;
  std::string said = relay.hear_caller();
  said[7] = '1';
  EXPECT_EQ(relay.tell_callee(said), State::refused);
  EXPECT_THAT(relay.callee->refusal(), EndsWith("speaks banyan/1, this is banyan/2"));
  EXPECT_EQ(relay.tell_caller("banyan/1   \n"), State::refused);
  EXPECT_THAT(relay.caller->refusal(), EndsWith("speaks banyan/1, this is banyan/2"));
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
                                    "banyan/2 2  \n", "banyan/     \n"}) {
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
  EXPECT_THAT(callee.refusal(), EndsWith("speaks banyan/27, this is banyan/2"));
  EXPECT_THAT(receive_text(far), StartsWith(kHello));
}

TEST(Handshake, RefusesAnOversizedGreetingBeforeItComes) {
  Relay relay;
  relay.tell_callee(relay.hear_caller());
  relay.tell_caller(receive_text(relay.to_callee));
  const std::string proof = receive_text(relay.to_caller).substr(0, 1 + kProofSize);
  EXPECT_EQ(relay.tell_callee(proof + "\x11\x41"), State::refused);
  EXPECT_THAT(relay.callee->refusal(), HasSubstr("announced a greeting of 16657 bytes; at most 16656"));
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
