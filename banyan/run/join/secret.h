// Secret: what only the processes of one job know.
//
// A secret that a person has chosen could be found by trying all that persons choose. So short ones, and those of few
// different characters, are refused (kShortest, kFewest), and all but those that a machine has drawn (at least 32
// hexadecimal digits, as `openssl rand -hex 16` makes them) are stretched once in a process by scrypt, which takes 32
// MiB and some tens of milliseconds for each guess. Handshakes are such that nobody gets anything to try secrets on but
// by calling again and again (password_exchange.h); what stretching protects is the mark on cards, which others may
// read where the place of a meeting is open to them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "banyan/run/seal/password_exchange.h"

namespace banyan::run {

class Secret {
 public:
  static constexpr size_t kShortest = 16;  // characters
  static constexpr size_t kFewest = 8;     // different ones

  // None: only processes of this machine and this user are believed (peer_owner.h).
  Secret();
  explicit Secret(std::string key);

  // BANYAN_SECRET, or the contents of the file that BANYAN_SECRET_FILE names (without the newline at its end); none
  // when neither is set. Throws Error{invalid_input} when both are, when it is easy to guess, or when the
  // file is of another user than this one and root, or others than its owner may read it or write to it; Error{io}.
  static Secret from_environment();
  // 128 random bits in hexadecimal.
  static Secret random();

  bool is_empty() const { return key_.empty(); }
  const std::string& key() const { return key_; }
  // HMAC-SHA256 of `message`, 32 bytes, by the stretched secret. Throws Error{io}, like the next.
  std::string sign(std::string_view message) const;
  // For handshakes.
  const std::shared_ptr<const Password>& password() const;

 private:
  struct Derived;
  const Derived& derived() const;

  std::string key_;
  std::shared_ptr<Derived> derived_;  // made when it is first needed; shared by copies
};

}  // namespace banyan::run
