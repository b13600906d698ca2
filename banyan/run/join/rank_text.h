// Ranks as a person would list them: "rank 3", "ranks 0, 2-5".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace banyan {

// Ascending. At most eight ranges are shown, then how many ranks more; "no rank" for none.
std::string rank_text(const std::vector<uint32_t>& ranks);

}  // namespace banyan
