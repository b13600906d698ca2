// The lines of a text, one after the other, for readers of files that are not read again. Private to this folder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace banyan::fabric {

// Calls see(line, number), counting from 1, until it returns false.
template <typename See>
void for_each_line(std::string_view text, See see) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (!see(text.substr(0, end), number)) return;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace banyan::fabric
