// Names of links in reports: "gpu0 -> nvsw0", parallel links "gpu0 -> nvsw0 #2", "link 7" where no fabric is known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::predict::report {

class LinkNames {
 public:
  // O(links log links) once; `fabric` may be null and must live as long as this.
  explicit LinkNames(const Fabric* fabric);
  std::string name(uint32_t link) const;

 private:
  const Fabric* fabric_;
  std::vector<uint32_t> place_;  // by link: how many parallel ones come before it
};

}  // namespace banyan::predict::report
