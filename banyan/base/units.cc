#include "banyan/base/units.h"

#include <array>
#include <cstdio>
#include <span>

#include "banyan/base/error.h"

namespace banyan {
namespace {
struct Unit {
  std::string_view name;
  int128 numerator;  // how many base units one of it is, as a fraction
  int128 denominator;
};

constexpr int128 kKilo = 1000, kMega = 1'000'000, kGiga = 1'000'000'000, kTera = 1'000'000'000'000;

constexpr std::array<Unit, 10> kByteUnits = {{{"", 1, 1},
                                              {"B", 1, 1},
                                              {"kB", kKilo, 1},
                                              {"MB", kMega, 1},
                                              {"GB", kGiga, 1},
                                              {"TB", kTera, 1},
                                              {"KiB", 1 << 10, 1},
                                              {"MiB", 1 << 20, 1},
                                              {"GiB", 1 << 30, 1},
                                              {"TiB", int128{1} << 40, 1}}};
// As nccl-tests and the tools of GNU take them, which is by 1024.
constexpr std::array<Unit, 9> kShortByteUnits = {{{"K", 1 << 10, 1},
                                                  {"M", 1 << 20, 1},
                                                  {"G", 1 << 30, 1},
                                                  {"T", int128{1} << 40, 1},
                                                  {"k", 1 << 10, 1},
                                                  {"m", 1 << 20, 1},
                                                  {"g", 1 << 30, 1},
                                                  {"t", int128{1} << 40, 1},
                                                  {"KB", kKilo, 1}}};  // a common spelling of kB
constexpr size_t kLastDecimal = 5;                                     // TB
constexpr std::array<Unit, 10> kBandwidthUnits = {{{"B/s", 1, 1},
                                                   {"kB/s", kKilo, 1},
                                                   {"MB/s", kMega, 1},
                                                   {"GB/s", kGiga, 1},
                                                   {"TB/s", kTera, 1},
                                                   {"b/s", 1, 8},
                                                   {"kb/s", kKilo, 8},
                                                   {"Mb/s", kMega, 8},
                                                   {"Gb/s", kGiga, 8},
                                                   {"Tb/s", kTera, 8}}};
// As data sheets of network cards have them.
constexpr std::array<Unit, 11> kShortBandwidthUnits = {{{"bps", 1, 8},
                                                        {"KB/s", kKilo, 1},
                                                        {"kbps", kKilo, 8},
                                                        {"Mbps", kMega, 8},
                                                        {"Gbps", kGiga, 8},
                                                        {"Tbps", kTera, 8},
                                                        {"bit/s", 1, 8},
                                                        {"kbit/s", kKilo, 8},
                                                        {"Mbit/s", kMega, 8},
                                                        {"Gbit/s", kGiga, 8},
                                                        {"Tbit/s", kTera, 8}}};
constexpr std::array<Unit, 5> kTimeUnits = {
    {{"ps", 1, 1}, {"ns", kKilo, 1}, {"us", kMega, 1}, {"ms", kGiga, 1}, {"s", kTera, 1}}};

template <size_t kCount>
std::string names_of(const std::array<Unit, kCount>& units) {
  std::string text;
  for (const Unit& unit : units) {
    if (unit.name.empty()) continue;
    if (!text.empty()) text += ", ";
    text += unit.name;
  }
  return text;
}

// Reads "12.5 GB/s" exactly: the digits as an integer over a power of ten, times the unit. `what` names the quantity;
// units of `others` are read and never written or named.
template <size_t kCount>
Fraction parse_quantity(std::string_view text, const std::array<Unit, kCount>& units, std::span<const Unit> others,
                        const std::string& what, const std::string& example) {
  size_t at = 0;
  while (at < text.size() && text[at] == ' ') ++at;
  if (at < text.size() && text[at] == '-')
    throw Error(ErrorCode::invalid_input, what + " " + in_quotes(text) + " is negative");
  int128 digits = 0, scale = 1;
  int significant = 0;
  bool point = false, any = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !point) {
      point = true;
    } else if (c >= '0' && c <= '9') {
      any = true;
      if (++significant > 24)
        throw Error(ErrorCode::invalid_input, what + " " + in_quotes(text) + " has too many digits");
      digits = digits * 10 + (c - '0');
      if (point) scale *= 10;
    } else {
      break;
    }
  }
  if (!any)
    throw Error(ErrorCode::invalid_input,
                what + " " + in_quotes(text) + " is not a number with a unit, such as " + example);
  while (at < text.size() && text[at] == ' ') ++at;
  std::string_view name = text.substr(at);
  while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
  for (const Unit& unit : units) {
    if (unit.name == name) return Fraction(digits, scale) * Fraction(unit.numerator, unit.denominator);
  }
  for (const Unit& unit : others) {
    if (unit.name == name) return Fraction(digits, scale) * Fraction(unit.numerator, unit.denominator);
  }
  if (name.empty())
    throw Error(ErrorCode::invalid_input, what + " " + in_quotes(text) + " has no unit; write it as in " + example);
  throw Error(ErrorCode::invalid_input, what + " " + in_quotes(text) + " has unknown unit " + in_quotes(name) +
                                            " (known: " + names_of(units) + ")");
}

// The largest unit that leaves a number a person can read; the decimals written are exact.
template <size_t kCount>
std::string format_exact(uint64_t value, const std::array<Unit, kCount>& units, size_t first, size_t last) {
  size_t best = first;
  for (size_t i = first; i <= last; ++i) {
    if (static_cast<int128>(value) >= units[i].numerator) best = i;
  }
  const uint64_t unit = static_cast<uint64_t>(units[best].numerator);
  std::string text = std::to_string(value / unit);
  if (uint64_t rest = value % unit; rest != 0) {
    text += '.';
    for (uint64_t place = unit / 10; rest != 0; place /= 10) {
      text += static_cast<char>('0' + rest / place);
      rest %= place;
    }
  }
  return text + " " + std::string(units[best].name);
}

}  // namespace

Bytes Bytes::parse(std::string_view text) {
  const Fraction value = parse_quantity(text, kByteUnits, kShortByteUnits, "size", "64MiB");
  if (value.denominator() != 1)
    throw Error(ErrorCode::invalid_input, "size " + in_quotes(text) + " is not a whole number of bytes");
  if (value > Fraction(INT64_MAX))
    throw Error(ErrorCode::invalid_input, "size " + in_quotes(text) + " is above 2^63 bytes");
  return Bytes(static_cast<uint64_t>(value.numerator()));
}

// In the unit, decimal or binary, that leaves the fewest of it without a rest; else rounded in a decimal one.
std::string Bytes::to_string() const {
  size_t best = 1, largest = 1;
  for (size_t i = 1; i < kByteUnits.size(); ++i) {
    const uint64_t unit = static_cast<uint64_t>(kByteUnits[i].numerator);
    if (count_ >= unit && count_ % unit == 0 && unit > static_cast<uint64_t>(kByteUnits[best].numerator)) best = i;
    if (count_ >= unit && i <= kLastDecimal) largest = i;
  }
  const uint64_t exact = count_ / static_cast<uint64_t>(kByteUnits[best].numerator);
  if (exact < 10000) return std::to_string(exact) + " " + std::string(kByteUnits[best].name);
  char text[64];
  const double rounded = static_cast<double>(count_) / static_cast<double>(kByteUnits[largest].numerator);
  std::snprintf(text, sizeof text, rounded < 9999.5 ? "%.4g %s" : "%.0f %s", rounded,
                std::string(kByteUnits[largest].name).c_str());
  return text;
}

Bandwidth Bandwidth::parse(std::string_view text) {
  const Fraction value =
      parse_quantity(text, kBandwidthUnits, kShortBandwidthUnits, "bandwidth", "300 GB/s or 400 Gb/s");
  if (value == Fraction(0))
    throw Error(ErrorCode::invalid_input, "bandwidth " + in_quotes(text) + " is zero; leave the link out instead");
  if (value > Fraction(kMaxBytesPerSecond))
    throw Error(ErrorCode::invalid_input, "bandwidth " + in_quotes(text) + " is above 1 PB/s; check its unit");
  if (value.denominator() != 1) {
    throw Error(ErrorCode::invalid_input,
                "bandwidth " + in_quotes(text) + " is not a whole number of bytes per second");
  }
  return Bandwidth(static_cast<uint64_t>(value.numerator()));
}

std::string Bandwidth::to_string() const { return format_exact(bytes_per_second_, kBandwidthUnits, 0, 4); }

Fraction operator/(Bytes bytes, Bandwidth bandwidth) {
  return Fraction(static_cast<int128>(bytes.count()), static_cast<int128>(bandwidth.bytes_per_second()));
}

Picoseconds parse_duration(std::string_view text) {
  const Fraction value = parse_quantity(text, kTimeUnits, {}, "time", "1 us");
  if (value > Fraction(static_cast<int64_t>(1000 * kTera)))
    throw Error(ErrorCode::invalid_input, "time " + in_quotes(text) + " is above 1000 s");
  return Picoseconds(static_cast<int64_t>(value.numerator() / value.denominator()));
}

std::string to_string(Picoseconds time) { return format_exact(static_cast<uint64_t>(time.count()), kTimeUnits, 0, 4); }

}  // namespace banyan
