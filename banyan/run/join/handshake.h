// Handshake: two processes make sure that they belong together before either believes a byte of the other.
//
// After "banyan/<protocol version>" and a fresh nonce from each side, each proves by HMAC-SHA256 over both nonces and
// its role that it knows the shared secret, the caller first; then the caller says what it wants (Greeting). Without a
// secret the proof is made with an empty key, and only callers on the same machine are served. A peer of another
// version, garbage, silence or a wrong proof is refused, with a line that says which; the other side is told where that
// is safe.
//
// A state machine over a non-blocking socket: whoever owns it polls the socket and calls advance(). One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "banyan/run/join/secret.h"
#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {

struct Greeting {
  std::string purpose;  // "store", "hub", "lane"
  std::string payload;  // as the purpose wants it; at most kMaxPayload bytes
  static constexpr size_t kMaxPayload = 16 * 1024;
};

class Handshake {
 public:
  enum class State : uint8_t { wants_read, wants_write, done, refused };

  // The socket is connected (or connecting), and non-blocking.
  static Handshake caller(FileDescriptor socket, const Secret& secret, const Greeting& greeting);
  static Handshake callee(FileDescriptor socket, const Secret& secret);
  Handshake(Handshake&&) noexcept;
  Handshake& operator=(Handshake&&) noexcept;
  ~Handshake();

  // Moves what can be moved now. Reads not a byte beyond the handshake.
  State advance();
  int fd() const;

  // Once done.
  const Greeting& greeting() const;
  FileDescriptor take_socket();
  // Once refused: "127.0.0.1:5123 speaks banyan/2, this is banyan/1", "... does not know the secret (set BANYAN_SECRET
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
