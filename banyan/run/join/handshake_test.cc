#include "banyan/run/join/handshake.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "banyan/run/join/listener.h"
#include "banyan/run/join/socket_address.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using State = Handshake::State;

const Secret kSecret = Secret::parse("000102030405060708090a0b0c0d0e0f", "test");
const Secret kOther = Secret::parse("000102030405060708090a0b0c0d0e0e", "test");
const std::string kHello = "banyan/3   \n";
constexpr size_t kHelloSize = 12;

const Greeting kLane{.purpose = "lane", .payload = "3 7", .from = "3", .to = "7"};
const Greeting kStore{.purpose = "store", .payload = "x", .from = "4", .to = "store"};

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
                   std::pair<FileDescriptor, FileDescriptor> sockets, const Greeting& greeting = kLane,
                   const std::string& name = "7") {
  Handshake caller = Handshake::caller(std::move(sockets.first), caller_secret, greeting);
  Handshake callee = Handshake::callee(std::move(sockets.second), callee_secret, name);
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
      EXPECT_EQ(ending.heard.from, "3");
      EXPECT_EQ(ending.heard.to, "7");
    }
  }
}

// Of whoever only looks, no name is asked for.
TEST(Handshake, TakesCallsToItsNameAndLooksOnly) {
  const Greeting look{.purpose = kLookPurpose, .payload = "", .from = kLookPurpose, .to = kLookPurpose};
  for (const Secret& secret : {Secret(), kSecret}) {
    EXPECT_EQ(shake_hands(secret, secret, tcp_pair(), look).callee, State::done);
    const Ending ending = shake_hands(secret, secret, tcp_pair(), kLane, "8");
    EXPECT_EQ(ending.callee, State::refused);
    EXPECT_THAT(ending.callee_refusal, EndsWith("called '7' (for 'lane'), and this is '8'"));
    EXPECT_THAT(ending.caller_refusal, EndsWith(secret.is_empty() ? "" : "is not '7' (for 'lane')"));
  }
}

TEST(Handshake, CarriesTheLargestAndTheEmptyGreeting) {
  Greeting largest{.purpose = std::string(255, 'p'),
                   .payload = std::string(Greeting::kMaxPayload, '\0'),
                   .from = std::string(255, 'f'),
                   .to = std::string(255, 't')};
  for (size_t i = 0; i < largest.payload.size(); ++i) largest.payload[i] = static_cast<char>(i * 37);
  for (const Greeting& greeting : {largest, Greeting{}}) {
    for (const Secret& secret : {Secret(), kSecret}) {
      const Ending ending = shake_hands(secret, secret, tcp_pair(), greeting, greeting.to);
      EXPECT_EQ(ending.callee, State::done) << ending.callee_refusal;
      EXPECT_EQ(ending.heard.purpose, greeting.purpose);
      EXPECT_EQ(ending.heard.payload, greeting.payload);
      EXPECT_EQ(ending.heard.from, greeting.from);
    }
  }
  largest.to += 't';
  EXPECT_THROW(Handshake::caller(std::move(tcp_pair().first), kSecret, largest), Error);
}

TEST(Handshake, LeavesWhatFollowsInTheSocket) {
  for (const Secret& secret : {Secret(), kSecret}) {
    auto [a, b] = socket_pair();
    Handshake caller = Handshake::caller(std::move(a), secret, kStore);
    Handshake callee = Handshake::callee(std::move(b), secret, "store");
    while (caller.advance() != State::done) callee.advance();
    const FileDescriptor sender = caller.take().socket;
    send_text(sender, "and now the work");
    EXPECT_EQ(callee.advance(), State::done);
    const FileDescriptor receiver = callee.take().socket;
    EXPECT_EQ(receive_text(receiver), "and now the work");
    send_text(receiver, "and its answer");
    EXPECT_EQ(receive_text(sender), "and its answer");
  }
}

// Every byte is carried across alone, and each side is asked to go on after it.
TEST(Handshake, WorksByteByByte) {
  for (const Secret& secret : {Secret(), kSecret}) {
    auto [a, a_far] = socket_pair();
    auto [b, b_far] = socket_pair();
    Handshake caller = Handshake::caller(std::move(a), secret, kStore);
    Handshake callee = Handshake::callee(std::move(b), secret, "store");
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
    EXPECT_EQ(callee.greeting().payload, "x");
    constexpr size_t kCall = 3 * 4 + 5 + 1 + 5, kPlain = 2 * kHelloSize + 3 + 2 + kCall + 1;
    EXPECT_TRUE(secret.is_empty() ? carried == kPlain : carried < 800u) << carried;
  }
}

// A socket that is full: the rest follows when the peer has read.
TEST(Handshake, WaitsForRoom) {
  auto [a, far] = socket_pair();
  std::array<char, 1024> filling{};
  size_t filled = 0;
  for (ssize_t sent; (sent = send(a.get(), filling.data(), filling.size(), 0)) > 0;)
    filled += static_cast<size_t>(sent);
  Handshake caller = Handshake::caller(std::move(a), kSecret, kStore);
  EXPECT_EQ(caller.advance(), State::wants_write);
  EXPECT_EQ(caller.advance(), State::wants_write);
  EXPECT_EQ(receive_text(far).size(), filled);
  EXPECT_EQ(caller.advance(), State::wants_read);
  EXPECT_THAT(receive_text(far), StartsWith(kHello));
}

TEST(Handshake, RefusesAnotherSecretOnBothSides) {
  auto [a, b] = tcp_pair();
  Handshake caller = Handshake::caller(std::move(a), kOther, kLane);
  Handshake callee = Handshake::callee(std::move(b), kSecret, "7");
  advance_both(caller, callee);
  EXPECT_THAT(callee.refusal(), StartsWith("127.0.0.1:"));
  EXPECT_THAT(callee.refusal(), HasSubstr("does not know the secret (set BANYAN_SECRET or BANYAN_SECRET_FILE"));
  EXPECT_THAT(caller.refusal(), HasSubstr("has another secret than this process"));
  EXPECT_TRUE(caller.is_final());
}

TEST(Handshake, RefusesWhenOneSideHasNoSecret) {
  const Ending without = shake_hands(Secret(), kSecret, socket_pair());
  EXPECT_THAT(without.callee_refusal, HasSubstr("does not know the secret"));
  EXPECT_THAT(without.caller_refusal, HasSubstr("wants a secret, and this process has none"));
  const Ending with = shake_hands(kSecret, Secret(), socket_pair());
  EXPECT_THAT(with.callee_refusal, HasSubstr("has a secret, and this process has none"));
  EXPECT_THAT(with.caller_refusal, HasSubstr("has no secret, and this process has one"));
}

// Without a secret nobody else's bytes come, and nothing is sealed.
TEST(Handshake, GivesKeysToThoseWithASecretOnly) {
  for (const Secret& secret : {Secret(), kSecret}) {
    auto [a, b] = socket_pair();
    Handshake caller = Handshake::caller(std::move(a), secret, kStore);
    Handshake callee = Handshake::callee(std::move(b), secret, "store");
    advance_both(caller, callee);
    const SessionKeys of_caller = caller.take().keys, of_callee = callee.take().keys;
    EXPECT_EQ(of_caller.sending, of_callee.receiving);
    EXPECT_EQ(of_caller.receiving, of_callee.sending);
    EXPECT_EQ(of_caller.sending.size(), secret.is_empty() ? 0u : 32u);
  }
}

// Two handshakes whose bytes an attacker carries, and may change.
struct Relay {
  explicit Relay(const Greeting& greeting = kLane, const Secret& of_callee = kSecret) {
    auto [a, a_far] = socket_pair();
    auto [b, b_far] = socket_pair();
    caller.emplace(Handshake::caller(std::move(a), kSecret, greeting));
    callee.emplace(Handshake::callee(std::move(b), of_callee, greeting.to));
    to_caller = std::move(a_far);
    to_callee = std::move(b_far);
  }
  std::string receive_from_caller() {
    caller->advance();
    return receive_text(to_caller);
  }
  State send_to_caller(const std::string& text) {
    send_text(to_caller, text);
    return caller->advance();
  }
  State send_to_callee(const std::string& text) {
    send_text(to_callee, text);
    return callee->advance();
  }
  std::optional<Handshake> caller, callee;
  FileDescriptor to_caller, to_callee;
};

TEST(Handshake, IsNotFooledByItsOwnWords) {
  Relay relay;
  const std::string said = relay.receive_from_caller();
  EXPECT_EQ(relay.send_to_caller(said.substr(0, kHelloSize) + "y" + said.substr(kHelloSize + 1)), State::refused);
  EXPECT_THAT(relay.caller->refusal(), HasSubstr("a greeting that was changed on its way"));
}

// Every byte of the handshake, changed on its way, ends it on one side at least, and never with another greeting.
TEST(Handshake, NoticesEveryByteThatIsChangedOnItsWay) {
  size_t all = SIZE_MAX;
  for (size_t changed = 0; changed < all; ++changed) {
    Relay relay;
    size_t position = 0;
    const auto passed = [&](std::string text) {
      for (char& byte : text) byte = static_cast<char>(byte ^ (position++ == changed ? 0x04 : 0));
      return text;
    };
    relay.send_to_callee(passed(relay.receive_from_caller()));
    const State caller = relay.send_to_caller(passed(receive_text(relay.to_callee)));
    if (caller != State::refused) relay.send_to_callee(passed(receive_text(relay.to_caller)));
    if (changed >= position) all = position;  // nothing was changed: this was the last one
    shutdown(relay.to_callee.get(), SHUT_WR);
    EXPECT_EQ(relay.callee->advance(), changed < position ? State::refused : State::done) << "byte " << changed;
  }
  EXPECT_GT(all, 500u);
}

// An honest caller's connection cannot be used for what it has not asked for: its words in another conversation, in
// the place of those of another one, and for another rank.
TEST(Handshake, IsForItsOwnPurposeAndRankOnly) {
  Relay lane(kLane), store(kStore);
  for (Relay* relay : {&lane, &store}) {
    relay->send_to_callee(relay->receive_from_caller());
    relay->send_to_caller(receive_text(relay->to_callee));
  }
  const std::string for_lane = receive_text(lane.to_caller), for_store = receive_text(store.to_caller);
  EXPECT_EQ(lane.send_to_callee(for_store), State::refused);
  EXPECT_EQ(store.send_to_callee(for_lane), State::refused);

  Relay relayed;
  Handshake other = Handshake::callee(std::move(relayed.to_callee), kSecret, "8");
  auto [near, far] = socket_pair();
  other = Handshake::callee(std::move(near), kSecret, "8");
  send_text(far, relayed.receive_from_caller());
  EXPECT_EQ(other.advance(), State::refused);
  EXPECT_THAT(other.refusal(), HasSubstr("called '7' (for 'lane'), and this is '8'"));
}

// A caller that recorded a whole conversation and plays it again; and a callee that does.
TEST(Handshake, IsNotFooledByAReplay) {
  Relay honest;
  const std::string first = honest.receive_from_caller();
  honest.send_to_callee(first);
  const std::string second = receive_text(honest.to_callee);
  honest.send_to_caller(second);
  const std::string third = receive_text(honest.to_caller);
  EXPECT_EQ(honest.send_to_callee(third), State::done);
  Relay again;
  EXPECT_EQ(again.send_to_callee(first + third), State::refused);
  EXPECT_EQ(again.send_to_caller(second), State::refused);
}

// Another version may be less careful, or know more. Both say which they speak before anything else, and stop.
TEST(Handshake, IsNotTalkedIntoAnotherVersion) {
  for (const std::string other : {"1", "27"}) {
    Relay relay;
    std::string said = relay.receive_from_caller();
    said.replace(7, other.size(), other);
    EXPECT_EQ(relay.send_to_callee(said), State::refused);
    EXPECT_THAT(relay.callee->refusal(), EndsWith("speaks banyan/" + other + ", this is banyan/3"));
    EXPECT_THAT(receive_text(relay.to_callee), StartsWith(kHello));
    EXPECT_EQ(relay.send_to_caller(said), State::refused);
    EXPECT_THAT(relay.caller->refusal(), EndsWith("speaks banyan/" + other + ", this is banyan/3"));
  }
}

// Who has a secret goes on without it for nobody.
TEST(Handshake, IsNotTalkedOutOfItsSecret) {
  Relay relay;
  std::string said = relay.receive_from_caller();
  said[kHelloSize] = 'p';
  EXPECT_EQ(relay.send_to_callee(said), State::refused);
  EXPECT_EQ(receive_text(relay.to_callee), kHello + "s");
  EXPECT_EQ(relay.send_to_caller(kHello + "n"), State::refused);
}

std::string refusal_of_callee(const std::string& input, const Secret& secret = kSecret) {
  auto [a, far] = socket_pair();
  Handshake callee = Handshake::callee(std::move(a), secret, "7");
  send_text(far, input);
  EXPECT_EQ(callee.advance(), State::refused) << input;
  return callee.refusal();
}

TEST(Handshake, RefusesGarbageAtItsFirstByte) {
  for (const std::string garbage : {"GET / HTTP/1.1\r\n", "\x16\x03\x01", "SSH-2.0-x\n", "b0", "banyan/x    \n",
                                    "banyan/3 3  \n", "banyan/     \n"}) {
    EXPECT_THAT(refusal_of_callee(garbage), HasSubstr("sent something else than a greeting of banyan"));
  }
}

TEST(Handshake, SaysNothingToStrangers) {
  auto [a, far] = socket_pair();
  Handshake callee = Handshake::callee(std::move(a), kSecret, "7");
  EXPECT_EQ(callee.advance(), State::wants_read);
  send_text(far, "GET /");
  EXPECT_EQ(callee.advance(), State::refused);
  EXPECT_EQ(receive_text(far), "");
}

TEST(Handshake, RefusesAnOversizedGreetingBeforeItComes) {
  EXPECT_THAT(refusal_of_callee(kHello + "py\x11\x52", Secret()),
              HasSubstr("announced a greeting of 21009 bytes; at most 17161"));
  EXPECT_THAT(refusal_of_callee(kHello + std::string("t\x17\x03\x03\x41\x01", 6)),
              HasSubstr("sent something else than a greeting of banyan"));
}

// Of records each of which brings one byte of a greeting that never ends.
TEST(Handshake, TakesNoMoreRecordsThanItNeeds) {
  const std::string begins("\x01\x00\x20\x00\x03\x03", 6);
  std::string said = kHello + "t";
  for (size_t i = 0; i < 1000; ++i) said += std::string("\x16\x03\x01\x00\x01", 5) + (i < 6 ? begins[i] : 'x');
  auto [a, far] = socket_pair();
  Handshake callee = Handshake::callee(std::move(a), kSecret, "7");
  send_text(far, said);
  EXPECT_EQ(callee.advance(), State::refused);
  EXPECT_THAT(callee.refusal(), HasSubstr("sent something else than a greeting of banyan"));
  int unread = 0;
  ASSERT_EQ(ioctl(callee.fd(), FIONREAD, &unread), 0);
  EXPECT_GT(unread, 5900 - 16 * 6) << "of " << said.size() << " bytes";
}

TEST(Handshake, NoticesThatThePeerHungUpAtAnyStep) {
  const std::string said = Relay().receive_from_caller();
  for (size_t heard = 0; heard < said.size(); heard += 9) {
    auto [a, far] = socket_pair();
    Handshake callee = Handshake::callee(std::move(a), kSecret, "7");
    send_text(far, said.substr(0, heard));
    EXPECT_EQ(callee.advance(), State::wants_read);
    receive_text(far);
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
  Handshake caller = Handshake::caller(std::move(socket), kSecret, kStore);
  State state = caller.advance();
  while (!is_over(state)) state = caller.advance();
  EXPECT_EQ(state, State::refused);
}

}  // namespace
}  // namespace banyan::run
