// Lists of names as Slurm writes them: "tux[0-3,12,18-20]", "r[1-2]n[01-16],login". Slurm calls them hostlists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace banyan::fabric {

struct HostlistSize {
  uint64_t names = 0;     // UINT64_MAX where there are more
  size_t most_bytes = 0;  // of the longest name
};

// The size of a list once expanded. A few bytes can name billions, so this is asked before the names are made. Throws
// Error{invalid_input} for brackets that do not fit and ranges that run backwards. Complexity O(bytes of the list).
HostlistSize measure_hostlist(std::string_view text);

// All names, in the order of the list. Numbers keep the zeros in front of the first of their range. Throws as
// measure_hostlist does.
std::vector<std::string> expand_hostlist(std::string_view text);

}  // namespace banyan::fabric
