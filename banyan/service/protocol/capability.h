// Capability: 128 random bits that a daemon has made. A process that knows them may have ranks in the communicators of
// a job. Also random bits of other lengths, and hexadecimal digits for names that may have any bytes.
//
// Any thread.
#pragma once

#include <sys/random.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "banyan/run/system/system_error.h"

namespace banyan::service {

using Capability = std::array<uint8_t, 16>;

// Bits drawn by the kernel. Throws Error{io}.
template <typename Bits>
Bits random_bits() {
  Bits bits{};
  if (getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits))
    throw run::system_error("cannot get random numbers");
  return bits;
}

// Two digits for each byte.
inline std::string in_hexadecimal(std::string_view bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char letter : bytes) {
    const auto byte = static_cast<uint8_t>(letter);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}
inline std::string in_hexadecimal(const Capability& capability) {
  return in_hexadecimal(std::string(capability.begin(), capability.end()));
}

// Nothing for what in_hexadecimal() does not give, such as the name of a file that is being written.
inline std::optional<std::string> from_hexadecimal(std::string_view text) {
  std::string bytes;
  if (text.size() % 2 != 0) return std::nullopt;
  for (size_t at = 0; at < text.size(); at += 2) {
    uint8_t byte = 0;
    const char* const begin = text.data() + at;
    if (std::from_chars(begin, begin + 2, byte, 16).ptr != begin + 2) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace banyan::service
