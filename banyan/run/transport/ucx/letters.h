// What the ends of a UCX transport tell each other over the socket between them: first a greeting, which says how to
// reach the sender by UCX. An end that leaves in good order says how much it has sent in all, in a farewell, and stays
// until it has the receipt, for a while: whoever hangs up on TCP while the other end talks makes the system throw away
// what the other has not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace banyan::run {

struct UcxGreeting {
  static constexpr size_t kMaxAddress = size_t{64} << 10;  // bytes; UCX's have some hundred to some thousand

  uint32_t lanes = 0;
  uint32_t your_rank = 0;  // the sender's number for whom it greets
  uint64_t ticket = 0;     // to be shown with every message to the sender, so that no stranger's is taken for one
  std::vector<std::byte> address;
};

// How they are written. In the byte order of this machine: another one's fails the check of the magic number.
std::vector<std::byte> to_bytes(const UcxGreeting& greeting);
std::vector<std::byte> farewell_to_bytes(const std::vector<uint64_t>& sent_per_lane);
std::vector<std::byte> receipt_to_bytes();

// The letters that one socket brings, in whatever pieces.
class UcxLetters {
 public:
  // `lanes`: that the greeting must agree with. `sender`: as errors name it ("rank 3").
  UcxLetters(uint32_t lanes, std::string sender) : lanes_(lanes), sender_(std::move(sender)) {}

  // Throws Error{mismatch} or Error{invalid_input} when these are not the letters of such a transport.
  void take(std::span<const std::byte> bytes);

  const std::optional<UcxGreeting>& greeting() const { return greeting_; }
  // Of each lane, how many bytes were sent in all.
  const std::optional<std::vector<uint64_t>>& farewell() const { return farewell_; }
  bool has_receipt() const { return has_receipt_; }

 private:
  bool read_greeting();
  bool read_letter();
  void drop(size_t count);

  uint32_t lanes_;
  std::string sender_;
  std::vector<std::byte> unread_;
  std::optional<UcxGreeting> greeting_;
  std::optional<std::vector<uint64_t>> farewell_;
  bool has_receipt_ = false;
};

}  // namespace banyan::run
