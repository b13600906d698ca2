// Quantities with their units: bytes, bandwidth, time. Passing 400 Gb/s where 400 GB/s was meant must not compile.
//
// Bandwidth is an integer number of bytes per second, because planners decide by exact arithmetic; only
// Bytes / Bandwidth makes time. Simulated and planned time is an integer number of picoseconds.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "banyan/base/fraction.h"

namespace banyan {

using Picoseconds = std::chrono::duration<int64_t, std::pico>;

class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(uint64_t count) : count_(count) {}
  // "0", "4096", "64KiB", "1 MB", "1GiB": decimal (kB MB GB TB) and binary (KiB MiB GiB TiB) units.
  // "64K", "1M", "1G" are binary, as in nccl-tests.
  // Throws Error{invalid_input} on a sign, a fraction of a byte, an unknown unit or more than 2^63.
  static Bytes parse(std::string_view text);

  constexpr uint64_t count() const { return count_; }
  std::string to_string() const;  // "64 KiB", "1.5 GB"; exact only in the number of digits a person reads
  friend constexpr auto operator<=>(const Bytes&, const Bytes&) = default;

 private:
  uint64_t count_ = 0;
};

class Bandwidth {
 public:
  // No link of today or of the next decades is above 1 PB/s; a larger figure is a unit error.
  static constexpr uint64_t kMaxBytesPerSecond = 1'000'000'000'000'000;

  constexpr Bandwidth() = default;
  static constexpr Bandwidth bytes_per_second(uint64_t value) { return Bandwidth(value); }
  static constexpr Bandwidth gigabytes_per_second(uint64_t value) { return Bandwidth(value * 1'000'000'000); }
  static constexpr Bandwidth gigabits_per_second(uint64_t value) { return Bandwidth(value * 125'000'000); }
  // "300 GB/s", "400Gb/s", "12.5 GB/s", "800 Mb/s": B is byte, b is bit, prefixes k M G T are decimal.
  // "100Gbps" and "100 Gbit/s" are 100 Gb/s.
  // Throws Error{invalid_input} when the unit is missing, the value is zero, negative, not finite, above the maximum
  // or not a whole number of bytes per second.
  static Bandwidth parse(std::string_view text);

  constexpr uint64_t bytes_per_second() const { return bytes_per_second_; }
  std::string to_string() const;  // "300 GB/s", always re-parses to the same value
  friend constexpr auto operator<=>(const Bandwidth&, const Bandwidth&) = default;

 private:
  constexpr explicit Bandwidth(uint64_t value) : bytes_per_second_(value) {}
  uint64_t bytes_per_second_ = 0;
};

// The exact time in seconds to push `bytes` through `bandwidth`; bandwidth must not be zero.
Fraction operator/(Bytes bytes, Bandwidth bandwidth);

// "1 us", "250ns", "0.5 ms", "2 s". Throws Error{invalid_input} on a missing unit, a negative value or above 1000 s.
Picoseconds parse_duration(std::string_view text);
std::string to_string(Picoseconds time);  // "1 us", re-parses to the same value

}  // namespace banyan
