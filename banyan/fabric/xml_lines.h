// In which line of an XML file an element stands. Private to this folder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace banyan::fabric {

// Where elements stand, from the offsets that pugixml keeps.
class XmlLines {
 public:
  explicit XmlLines(std::string_view text) {
    for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) ends_.push_back(at);
  }
  size_t of(ptrdiff_t offset) const {
    if (offset < 0) return 1;
    return static_cast<size_t>(std::lower_bound(ends_.begin(), ends_.end(), static_cast<size_t>(offset)) -
                               ends_.begin()) +
           1;
  }

 private:
  std::vector<size_t> ends_;
};

}  // namespace banyan::fabric
