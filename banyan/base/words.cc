#include "banyan/base/words.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace banyan {
namespace {

// Three digits at least, zeros at the end kept: "2.20", "20.0", "200"; with two decimals at least where asked for.
std::string three_digits(double value, int least_decimals = 0) {
  // Rounding may add a digit in front: 9.996 is "10.0".
  int decimals = least_decimals;
  while (decimals < 12 && value > 0 && value < 99.95 && value * std::pow(10, decimals) < 99.95) ++decimals;
  return format_decimals(value, decimals);
}

}  // namespace

std::string format_decimals(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string format_percent(double ratio) {
  const double percent = ratio * 100;
  // Rounding must not turn "nearly" into "all".
  return format_decimals(ratio < 1 ? std::min(percent, 99.9) : percent, 1) + " %";
}

std::string rough_percent(double ratio) {
  return format_decimals(ratio * 100, ratio > 0 && ratio < 0.0995 ? 1 : 0) + " %";
}

std::string format_seconds(double seconds) {
  static constexpr std::pair<double, const char*> kUnits[] = {{1e9, " ns"}, {1e6, " us"}, {1e3, " ms"}};
  for (const auto& [scale, unit] : kUnits) {
    if (seconds * scale < 999.5) return three_digits(seconds * scale) + unit;
  }
  return three_digits(seconds, 2) + " s";
}

std::string format_seconds(Picoseconds time) { return format_seconds(std::chrono::duration<double>(time).count()); }

std::string format_duration(int64_t nanoseconds) {
  const double ns = static_cast<double>(nanoseconds);
  if (ns < 0) return "-" + format_duration(nanoseconds == INT64_MIN ? INT64_MAX : -nanoseconds);
  if (nanoseconds < 1'000) return std::to_string(nanoseconds) + " ns";
  if (ns < 999.95e3) return format_decimals(ns / 1e3, 1) + " us";
  if (ns < 999.95e6) return format_decimals(ns / 1e6, 1) + " ms";
  if (ns < 119.95e9) return format_decimals(ns / 1e9, 1) + " s";
  const int64_t seconds = nanoseconds / 1'000'000'000;
  if (seconds < 7200) return std::to_string(seconds / 60) + " min " + std::to_string(seconds % 60) + " s";
  return std::to_string(seconds / 3600) + " h " + std::to_string(seconds / 60 % 60) + " min";
}

std::string format_timeout(std::chrono::milliseconds time) {
  return time.count() % 1000 == 0 ? std::to_string(time.count() / 1000) + " s" : std::to_string(time.count()) + " ms";
}

std::string format_gibibytes(double bytes) { return format_decimals(bytes / (1 << 30), 1); }

std::string format_rate(double bytes_per_second) {
  double value = bytes_per_second / 1e9;
  if (value >= 0.00995 || value == 0) return three_digits(value, 2) + " GB/s";
  for (const char* unit : {" MB/s", " kB/s"}) {
    value *= 1e3;
    if (value >= 0.9995) return three_digits(value, 2) + unit;
  }
  return three_digits(value * 1e3, 2) + " B/s";
}

std::string format_bit_rate(double bytes_per_second) {
  const double bits = bytes_per_second * 8;
  return bits < 999.5e6 ? three_digits(bits * 1e-6) + " Mb/s" : three_digits(bits * 1e-9) + " Gb/s";
}

}  // namespace banyan
