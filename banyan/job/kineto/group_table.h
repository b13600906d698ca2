// Process groups as PyTorch lists them: pg_config of distributedInfo, and the text of "## process_group:init ##" nodes,
// also in the older spelling as a Python literal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace banyan::job::kineto {

struct ProcessGroup {
  std::string name;
  std::vector<uint32_t> ranks;  // global, in the group's order; empty: all
  uint32_t size = 0;            // 0: not said
};

// Reads a list of groups. A row that is no group, or names a rank twice, is left out; a text that is no list has none.
// Throws Error{unsupported} where lists that the writer shortened ("[0, 1, ..., 63]") stand for more than
// kMostShortened ranks in all, which no run has. Complexity O(length of the text + ranks log ranks).
std::vector<ProcessGroup> read_group_table(std::string_view text);

constexpr size_t kMostShortened = size_t{1} << 22;

}  // namespace banyan::job::kineto
