// Handshake: two processes make sure that they belong together before either believes a byte of the other, and agree on
// keys for what follows.
//
// First both say "banyan/<protocol version>", in a form that every version reads. With a secret, TLS 1.3 follows, by a
// key that is derived from the secret for this caller, this callee and this purpose (seal/tls_session.h): so an
// attacker that stands between two honest processes, or squats on a port, or calls, can neither pass for one of them
// nor turn one conversation into another: not for another purpose or rank, not again later. Names and purposes are
// readable on the way; the payload is not.
//
// Without a secret both sides ask the kernel whose process the other one is (peer_owner.h): it must be of this machine,
// and of this user or root. There are no keys then. A peer of another version, garbage, silence or a wrong proof is
// refused, with a line that says which; the other side is told where that is safe.
//
// A state machine over a non-blocking socket: whoever owns it polls the socket and calls advance(). One thread. Throws
// Error{io} when memory or random numbers are short.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "banyan/run/join/secret.h"
#include "banyan/run/seal/session_keys.h"
#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {

// The purpose of a caller that is no part of the job and only wants to see how it does.
constexpr const char* kLookPurpose = "look";
// The purpose of a member of a job that calls its store, which has this name, too.
constexpr const char* kStorePurpose = "store";

struct Greeting {
  std::string purpose;       // kStorePurpose, "agent", "lane", kLookPurpose
  std::string payload;       // as the purpose wants it; at most kMaxPayload bytes
  std::string from{}, to{};  // the names of both: a rank's number, a host's name, or kStorePurpose, kLookPurpose
  static constexpr size_t kMaxPayload = 16 * 1024;
};

// A connection whose two ends have shaken hands.
struct Admitted {
  FileDescriptor socket;  // nothing of what follows the handshake was read
  SessionKeys keys;
};

class Handshake {
 public:
  static constexpr unsigned kVersion = 3;
  enum class State : uint8_t { wants_read, wants_write, done, refused };
  static bool is_waiting(State state) { return state == State::wants_read || state == State::wants_write; }

  // The socket is connected (or connecting), and non-blocking.
  static Handshake caller(FileDescriptor socket, const Secret& secret, const Greeting& greeting);
  // Takes calls to `name`, and those of a caller that only wants to look.
  static Handshake callee(FileDescriptor socket, const Secret& secret, std::string name);
  Handshake(Handshake&&) noexcept;
  Handshake& operator=(Handshake&&) noexcept;
  ~Handshake();

  // Moves what can be moved now. Reads not a byte beyond the handshake.
  State advance();
  int fd() const;

  // Once done.
  const Greeting& greeting() const;
  Admitted take();
  // Once refused: "127.0.0.1:5123 speaks banyan/4, this is banyan/3", "... does not know the secret (set BANYAN_SECRET
  // or BANYAN_SECRET_FILE to the same on all hosts)", "... sent something else than a greeting of banyan".
  const std::string& refusal() const;
  // Once refused: the peer has another version, another secret, or is none of ours, and will be so when asked again.
  bool is_final() const;

 private:
  class Impl;
  explicit Handshake(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace banyan::run
