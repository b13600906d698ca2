// lab.json: what a lab is made of, for programs and people. docs/lab.md describes it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "lab/lab.h"

namespace banyan::lab {

std::string format_lab_file(const Lab& lab);

// Facts that do not follow from the fabric.
struct LabFile {
  Scale scale;
  std::set<uint32_t> cut;
  std::vector<uint32_t> ranks_per_host = {};
  uint32_t classes = 1;
};
// Throws Error{invalid_input} naming the file when it does not belong to a lab of this network of hosts.
LabFile read_lab_file(const std::string& path, const Fabric& network);

}  // namespace banyan::lab
