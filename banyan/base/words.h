// Figures as people read them: times, rates, parts of a whole. Sizes in bytes and bandwidths of links are worded by
// their types (units.h), counts of things by text.h.
//
// A measured or predicted figure has three digits at least, zeros at its end included, in the unit that leaves at least
// one digit before the point. So figures that stand below each other have the same weight, and 2.20 is no 2.2.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "banyan/base/units.h"

namespace banyan {

std::string format_decimals(double value, int decimals);  // "2.90"
std::string format_percent(double ratio);                 // "98.4 %"; never "100.0 %" for less than all
std::string rough_percent(double ratio);                  // "93 %", below a tenth "4.2 %"

std::string format_seconds(double seconds);  // "450 ns", "1.23 ms", "20.0 ms", "61.50 s"
std::string format_seconds(Picoseconds time);
// The length of a wait, or the time since something: "1.2 ms", "4.2 s", "5 min 3 s", "2 h 1 min".
std::string format_duration(int64_t nanoseconds);
std::string format_timeout(std::chrono::milliseconds time);  // as it was set: "30 s", "1500 ms"

std::string format_gibibytes(double bytes);  // "97.3", without the unit, which the head of a table says

// GB are 10^9 bytes. Two decimals at least; GB/s down to a hundredth of one, since people compare: "457.14 GB/s",
// "0.0512 GB/s", "5.00 MB/s".
std::string format_rate(double bytes_per_second);
std::string format_bit_rate(double bytes_per_second);  // "40.0 Mb/s", "100 Gb/s": in bits, as cables are sold

}  // namespace banyan
