// PasswordExchange: two processes that know the same password agree on a key, and each proves to the other that it
// does.
//
// SPAKE2 of RFC 9382 over P-256 with SHA-256, HKDF and HMAC, on the arithmetic of libcrypto. Why a PAKE and not an HMAC
// by the password: with an HMAC, whoever proves first gives the other side something to try passwords on at leisure, be
// it who squats on a port (when the caller proves first) or whoever calls (when the callee does). Here a stranger in
// either role can try one password with each connection, and a recording tells nothing at all, even when the password
// becomes known later. Why not a library's: EC-JPAKE of mbedtls is not compiled into the package of Debian 12
// (libcrypto has no PAKE), takes one more round and four times as many multiplications.
//
// The caller is A of the RFC, the callee B. Proofs cover names, shares, password and context, so all that either has
// said before. One exchange is for one connection. One thread; Passwords are shared by any.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace banyan::run {

// What exchanges need of a password, made once.
class Password {
 public:
  // Of 48 bytes, which are as good as random for who does not know the password.
  static std::shared_ptr<const Password> from_key(std::string_view key);
  // The number itself, 32 bytes, the highest first; for test vectors.
  static std::shared_ptr<const Password> from_scalar(std::string_view scalar);
  ~Password();
  Password(const Password&) = delete;
  Password& operator=(const Password&) = delete;

 private:
  friend class PasswordExchange;
  struct Points;
  explicit Password(std::unique_ptr<Points> points);
  std::unique_ptr<Points> points_;
};

class PasswordExchange {
 public:
  static constexpr size_t kShareSize = 65, kProofSize = 32, kKeySize = 16;

  struct Names {
    std::string caller = "banyan caller", callee = "banyan callee";
  };
  // `scalar` is for test vectors; else it is drawn. Throws Error{io}, like all here.
  PasswordExchange(bool is_caller, std::shared_ptr<const Password> password,
                   const Names& names = Names{"banyan caller", "banyan callee"},
                   const std::optional<std::string>& scalar = {});
  ~PasswordExchange();
  PasswordExchange(const PasswordExchange&) = delete;
  PasswordExchange& operator=(const PasswordExchange&) = delete;

  // For the peer.
  const std::string& share() const { return share_; }
  // The peer's; `context` is what else both have said, the same on both sides. False when it is no share. Before all
  // that follows.
  bool take(std::string_view share, std::string_view context);
  const std::string& own_proof() const { return own_proof_; }
  bool is_proof_of_peer(std::string_view proof) const;
  // Only both of them know it, once each has proved itself.
  const std::string& key() const { return key_; }

 private:
  class Scalar;
  const bool is_caller_;
  const std::shared_ptr<const Password> password_;
  const Names names_;
  std::unique_ptr<Scalar> scalar_;
  std::string share_, own_proof_, peer_proof_, key_;
};

}  // namespace banyan::run
