// Names of links in reports: those of fabric/links.h with blanks, "gpu0 -> nvsw0", or "link 7" without a fabric.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/fabric/links.h"

namespace banyan::predict::report {

class LinkNames {
 public:
  // O(links log links); `fabric` may be null.
  explicit LinkNames(const Fabric* fabric) {
    if (fabric != nullptr) names_ = fabric::link_names(*fabric, " -> ");
  }
  std::string name(uint32_t link) const { return names_.empty() ? "link " + std::to_string(link) : names_.at(link); }

 private:
  std::vector<std::string> names_;
};

}  // namespace banyan::predict::report
