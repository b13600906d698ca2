// Names of ranks as people write them, on the command line and in Python.
//
//   3          the rank with number 3, counting the fabric's ranks from 0 in their order
//   gpu3       the rank of that name; a name wins over a number where a rank is called "3"
//   0-3        all ranks from number 0 to 3, both included
//   gpu0-gpu3  the same by names
//   0-3,8      a list; the order is kept, for it is the order of the shards
#pragma once

#include <string_view>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

// Throws Error{not_found} with the nearest name, or Error{invalid_input}; `where` ("--root") is put in front of it.
NodeId parse_rank(std::string_view text, const Fabric& fabric, std::string_view where);
std::vector<NodeId> parse_ranks(std::string_view text, const Fabric& fabric, std::string_view where);

}  // namespace banyan::fabric
