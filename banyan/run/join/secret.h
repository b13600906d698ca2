// Secret: what only the processes of one job, or only the daemons of one cluster, know.
//
// It must be drawn by a machine: 32 hexadecimal digits or more, or 22 characters of base64 or more, which is 128 bits
// and more. A secret that a person thought of is refused: an attacker that records a handshake, or reads a card, could
// try words at leisure (RFC 9257, section 4.2).
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace banyan::run {

class Secret {
 public:
  // None: only processes of this machine and this user are believed (peer_owner.h).
  Secret() = default;
  // Throws Error{invalid_input}, with the line that draws one: `text` may have been thought of. `source`: where it was.
  static Secret parse(std::string_view text, const std::string& source);
  // BANYAN_SECRET, or the contents of the file that BANYAN_SECRET_FILE names (without the newline at its end); none
  // when neither is set. Throws as parse() does, and Error{invalid_input} when both are set, or when the file is of
  // another user than this one and root, or others than its owner may read it or write to it; Error{io}.
  static Secret from_environment();
  static Secret from_file(const std::string& path);
  // 128 random bits in hexadecimal.
  static Secret random();

  bool is_empty() const { return hidden_ == nullptr; }
  std::string_view key() const;
  // HMAC-SHA256 of `message`, 32 bytes. Throws Error{io}, like the next.
  std::string sign(std::string_view message) const;
  // The key of handshakes for what `call` says, 32 bytes.
  std::string key_for(std::string_view call) const;

 private:
  class Hidden;
  explicit Secret(std::string_view key);

  std::shared_ptr<const Hidden> hidden_;  // one copy, which no dump of memory shows; copies of this object share it
};

}  // namespace banyan::run
