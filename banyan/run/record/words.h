// Numbers as a person would say them in a report.
#pragma once

#include <cstdint>
#include <string>

namespace banyan::run {

// "1.2 ms", "4.2 s", "5 min 3 s".
std::string duration_words(int64_t nanoseconds);
std::string thousands(uint64_t number);   // "1,000"
std::string percent_words(double share);  // "93 %"

}  // namespace banyan::run
