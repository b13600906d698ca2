// TlsSession: two processes that have the same key prove it to each other, and agree on keys that nobody else has.
//
// TLS 1.3 by libssl, with a pre-shared key from outside and an exchange over P-256 (psk_dhe_ke of RFC 8446): a
// recording tells nothing, also when the key becomes known later. One suite, no certificates, no tickets, no
// resumption, no early data, no log of keys. As RFC 9257 wants it, a key has 256 bits and is for one caller, one callee
// and one purpose, which its identity names; identities are readable on the way.
//
// It works on memory: its owner carries the records. One thread. Everything throws Error{io} when libssl cannot do its
// work, which is when memory or random numbers are short.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "banyan/run/seal/session_keys.h"

struct ssl_st;  // libssl's

namespace banyan::run {

class TlsSession {
 public:
  static constexpr size_t kKeySize = 32, kHeadSize = 5;

  // The session of a caller.
  TlsSession(const std::string& identity, const std::string& key);
  // The session of a callee. `find`: the key that an identity stands for; empty: the identity is not taken.
  using Find = std::function<std::string(std::string_view identity)>;
  explicit TlsSession(Find find);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // The number of bytes that follow this head of a record; 0: it is none.
  static size_t size_after(std::string_view head);

  enum class State : uint8_t {
    shaking,
    done,     // both have proved that they have the key
    unknown,  // the callee does not take the identity
    strange,  // the two have different keys
    broken,   // bytes came that are not the peer's
  };
  State state() const { return state_; }
  // Takes one whole record, while it shakes hands or is done; a caller begins with none.
  void take(std::string_view record);
  // The bytes for the peer since the last time, also after a failure.
  std::string said();

  // Once done: sends a text to the peer, which has the key; and the text that came from it since the last time.
  void send(std::string_view text);
  std::string heard() { return std::exchange(heard_, {}); }
  // The keys of both directions, drawn from the secrets of this session (RFC 5705, RFC 8446 section 7.5).
  SessionKeys keys() const;

 private:
  struct Of;  // libssl's callbacks
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  void begin();
  void go_on();
  void look_at_error(int result);

  const std::string identity_;  // of a caller, as the next
  std::string key_;
  const Find find_;  // of a callee
  std::unique_ptr<ssl_st, Free> ssl_;
  State state_ = State::shaking;
  bool was_refused_ = false;
  std::exception_ptr failure_;  // of find_, which libssl must not see
  std::string heard_;
};

}  // namespace banyan::run
