// A file in which others describe a site: the text that a reader of a fabric is given.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "banyan/base/units.h"

namespace banyan::fabric {

struct SiteFile {
  std::string_view text;
  std::string name;                         // readers put it in front of what is wrong, with the line
  std::optional<Bandwidth> bandwidth = {};  // that stands behind the name, as in "topo.txt@48GB/s"
};

}  // namespace banyan::fabric
