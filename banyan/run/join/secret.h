// Secret: what only the processes of one job know.
#pragma once

#include <string>
#include <string_view>

namespace banyan::run {

class Secret {
 public:
  // None: proofs are made with an empty key, and only this machine is believed.
  Secret() = default;
  explicit Secret(std::string key) : key_(std::move(key)) {}

  // BANYAN_SECRET, or the contents of the file that BANYAN_SECRET_FILE names (without the newline at its end); none
  // when neither is set. Throws Error{invalid_input} when both are, when it is shorter than 8 bytes, or when others
  // than its owner may read the file; Error{io}.
  static Secret from_environment();
  // 128 random bits in hexadecimal.
  static Secret random();

  bool is_empty() const { return key_.empty(); }
  const std::string& key() const { return key_; }
  // HMAC-SHA256 of `message`, 32 bytes.
  std::string sign(std::string_view message) const;
  // In time that does not depend on where the two differ.
  bool is_signature(std::string_view message, std::string_view signature) const;

 private:
  std::string key_;
};

}  // namespace banyan::run
