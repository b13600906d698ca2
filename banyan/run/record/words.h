// Numbers as a person would say them in a report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace banyan {

// Of ascending ranks: "rank 3", "ranks 0, 1, 2", "ranks 0, 4-9 and 300 more"; "no rank" for none.
std::string list_ranks(const std::vector<uint32_t>& ranks);
// "wait" for several, "waits" for one: the first for many ranks, the second for a single one.
const char* agree(const std::vector<uint32_t>& ranks, const char* many, const char* one);
// "1.2 ms", "4.2 s", "5 min 3 s".
std::string duration_words(int64_t nanoseconds);
std::string thousands(uint64_t number);   // "1,000"
std::string percent_words(double share);  // "93 %"

}  // namespace banyan
