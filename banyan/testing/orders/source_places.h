// Where in the source a call stands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace banyan::testing::orders {

// For addresses that calls return to: "byte_ring.cc:62", the innermost function that is of this project, and no helper
// around an atomic access (shared_word.h). By addr2line(1) of binutils, which comes with every compiler of Debian.
std::vector<std::string> source_places(const std::vector<uintptr_t>& calls);

}  // namespace banyan::testing::orders
