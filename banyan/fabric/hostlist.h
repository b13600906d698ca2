// Lists of names as Slurm writes them: "tux[0-3,12,18-20]", "r[1-2]n[01-16],login". Slurm calls them hostlists.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace banyan::fabric {

// All names, in the order of the list. Numbers keep the zeros in front of the first of their range. Throws
// Error{invalid_input} for brackets that do not fit, ranges that run backwards, and more than `limit` names.
std::vector<std::string> expand_hostlist(std::string_view text, size_t limit);

}  // namespace banyan::fabric
