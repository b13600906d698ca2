// What tests of readers ask of a fabric.
#pragma once

#include <string>
#include <vector>

#include "banyan/base/file.h"
#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

// A file of the corpus: "slurm/tree.conf".
inline std::string corpus_file(const std::string& name) {
  return read_file(std::string(BANYAN_SOURCE_DIR) + "/banyan/fabric/corpus/" + name);
}

// GB/s from one node to another, 0 when they are not joined.
inline double rate_between(const Fabric& fabric, const std::string& from, const std::string& to) {
  double sum = 0;
  for (const LinkId id : fabric.out_links(fabric.at(from))) {
    if (fabric.name(fabric.link(id).to) == to) {
      sum += static_cast<double>(fabric.link(id).bandwidth.bytes_per_second()) / 1e9;
    }
  }
  return sum;
}

// In the order of their numbers.
inline std::vector<std::string> names_of(const Fabric& fabric, NodeKind kind) {
  std::vector<std::string> names;
  for (const Node& node : fabric.nodes()) {
    if (node.kind == kind) names.push_back(node.name);
  }
  return names;
}

}  // namespace banyan::fabric
