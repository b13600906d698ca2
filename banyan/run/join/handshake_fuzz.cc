// Whatever a stranger says to a callee, or a false host to a caller.
#include <sys/socket.h>

#include <array>

#include "banyan/base/check.h"
#include "banyan/run/join/handshake.h"
#include "banyan/testing/fuzz.h"

namespace banyan::run {
namespace {

using State = Handshake::State;

const Greeting kGreeting{.purpose = "store", .payload = "payload", .from = "3", .to = "store"};

// The first byte says in which pieces the rest comes, and whether there is a secret.
void shake_hands_with(std::string_view input, bool as_caller) {
  std::array<int, 2> ends;
  CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  const FileDescriptor stranger(ends[1]);
  static const Secret drawn = Secret::random();
  const bool has_secret = (static_cast<unsigned char>(input[0]) & 0x80) != 0;
  const Secret secret = has_secret ? drawn : Secret();
  Handshake handshake = as_caller ? Handshake::caller(FileDescriptor(ends[0]), secret, kGreeting)
                                  : Handshake::callee(FileDescriptor(ends[0]), secret, "store");
  const size_t piece = static_cast<unsigned char>(input[0]) % 64 + 1;
  State state = handshake.advance();
  for (size_t at = 1; at < input.size() && state != State::refused && state != State::done; at += piece) {
    const std::string_view said = input.substr(at, piece);
    // A stranger that says more than fits is told so by the kernel; the rest of its words is lost.
    if (send(stranger.get(), said.data(), said.size(), MSG_NOSIGNAL) < 0) break;
    state = handshake.advance();
  }
  shutdown(stranger.get(), SHUT_WR);
  if (state != State::done) state = handshake.advance();
  if (state == State::done) {
    CHECK(!has_secret) << "nobody without the secret gets in";
    CHECK(handshake.greeting().payload.size() <= Greeting::kMaxPayload);
  } else {
    CHECK(state == State::refused && !handshake.refusal().empty());
  }
}

const testing::Fuzzer kFuzzer("handshake", "banyan/run/join/corpus/handshake", [](std::string_view input) {
  if (input.empty()) return;
  shake_hands_with(input, false);
  shake_hands_with(input, true);
});

}  // namespace
}  // namespace banyan::run
