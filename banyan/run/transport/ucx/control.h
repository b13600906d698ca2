// Control messages that the ends of a UCX transport send each other over the socket between them. First comes a
// greeting, which says how to reach the sender by UCX. An end that leaves in good order says how much it has sent in
// all, in a farewell, and stays until it has the receipt, for a while: if it closed the socket while the other end was
// still sending, the kernel would throw away what the other end has not read yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace banyan::run::ucx {

struct Greeting {
  static constexpr size_t kMaxAddress = size_t{64} << 10;  // bytes; UCX's have some hundred to some thousand

  uint32_t lanes = 0;
  uint32_t your_rank = 0;  // the sender's number for whom it greets
  uint64_t ticket = 0;     // to be shown with every message to the sender, so that no stranger's is taken for one
  std::vector<std::byte> address;
};

// The messages as bytes. In the byte order of this machine: another one's fails the check of the magic number.
std::vector<std::byte> to_bytes(const Greeting& greeting);
std::vector<std::byte> farewell_to_bytes(const std::vector<uint64_t>& sent_per_lane);
std::vector<std::byte> receipt_to_bytes();

// Reads the messages that one socket brings, in pieces of any length.
class ControlReader {
 public:
  // The greeting must agree with `lanes`. Errors name `sender` ("rank 3").
  ControlReader(uint32_t lanes, std::string sender) : lanes_(lanes), sender_(std::move(sender)) {}

  // Throws Error{mismatch} or Error{invalid_input} when the bytes are not those of such a transport.
  void take(std::span<const std::byte> bytes);

  const std::optional<Greeting>& greeting() const { return greeting_; }
  // Bytes that were sent in all, indexed by lane.
  const std::optional<std::vector<uint64_t>>& farewell() const { return farewell_; }
  bool has_receipt() const { return has_receipt_; }

 private:
  bool read_greeting();
  bool read_message();
  void drop(size_t count);

  uint32_t lanes_;
  std::string sender_;
  std::vector<std::byte> unread_;
  std::optional<Greeting> greeting_;
  std::optional<std::vector<uint64_t>> farewell_;
  bool has_receipt_ = false;
};

}  // namespace banyan::run::ucx
