// Ranks as a person would list them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace banyan {

// Ascending ranks in words: "rank 3", "ranks 0, 1, 2", "ranks 0, 4-9 and 300 more"; "no rank" for none.
std::string list_ranks(const std::vector<uint32_t>& ranks);
// "wait" for several, "waits" for one: the first for many ranks, the second for a single one.
const char* agree(const std::vector<uint32_t>& ranks, const char* many, const char* one);

}  // namespace banyan
