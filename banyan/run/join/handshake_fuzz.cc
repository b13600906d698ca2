// Whatever a stranger says to a callee, or a false host to a caller.
#include <sys/socket.h>

#include <array>
#include <string>

#include "banyan/base/check.h"
#include "banyan/run/join/handshake.h"
#include "banyan/testing/fuzz.h"

namespace banyan::run {
namespace {

using State = Handshake::State;

// The first byte says in which pieces the rest comes. The empty secret lets a fuzzer get beyond the proofs, if it ever
// finds one.
void shake_hands_with(std::string_view input, bool as_caller) {
  std::array<int, 2> ends;
  CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  const FileDescriptor stranger(ends[1]);
  Handshake handshake = as_caller ? Handshake::caller(FileDescriptor(ends[0]), Secret(), {"store", "payload"})
                                  : Handshake::callee(FileDescriptor(ends[0]), Secret());
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
    CHECK(handshake.greeting().payload.size() <= Greeting::kMaxPayload);
  } else {
    CHECK(state == State::refused && !handshake.refusal().empty());
  }
}

// A caller that knows the secret, and then says anything.
void greet_with(std::string_view input) {
  std::array<int, 2> ends, taps;
  CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, taps.data()), 0);
  const FileDescriptor far(ends[1]), tap(taps[1]);
  Handshake caller = Handshake::caller(FileDescriptor(taps[0]), Secret(), {"store", ""});
  Handshake callee = Handshake::callee(FileDescriptor(ends[0]), Secret());
  const auto carry = [](const FileDescriptor& from, const FileDescriptor& to) {
    std::array<char, 256> buffer;
    const ssize_t count = recv(from.get(), buffer.data(), buffer.size(), 0);
    if (count > 0) CHECK_EQ(send(to.get(), buffer.data(), static_cast<size_t>(count), MSG_NOSIGNAL), count);
  };
  while (caller.advance() != State::done) {
    carry(tap, far);
    CHECK(callee.advance() == State::wants_read) << callee.refusal();
    carry(far, tap);
  }
  // Its proof gets across, and not its greeting.
  constexpr size_t kProof = 33;
  std::array<char, kProof> proof;
  CHECK_EQ(recv(tap.get(), proof.data(), proof.size(), 0), static_cast<ssize_t>(proof.size()));
  CHECK_EQ(send(far.get(), proof.data(), proof.size(), MSG_NOSIGNAL), static_cast<ssize_t>(proof.size()));
  const ssize_t said = send(far.get(), input.data(), input.size(), MSG_NOSIGNAL);
  shutdown(far.get(), SHUT_WR);
  const State state = callee.advance();
  CHECK(said < 0 || state == State::refused) << "nobody but the caller can seal a greeting";
}

const testing::Fuzzer kFuzzer("handshake", "banyan/run/join/corpus/handshake", [](std::string_view input) {
  if (input.empty()) return;
  greet_with(input);
  shake_hands_with(input, false);
  shake_hands_with(input, true);
});

}  // namespace
}  // namespace banyan::run
