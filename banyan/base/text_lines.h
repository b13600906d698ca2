// The lines of a text, one after the other, and a reader that says in its errors at which of them it is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "banyan/base/error.h"

namespace banyan {

// Calls see(line, number), counting from 1, until it returns false.
template <typename See>
void for_each_line(std::string_view text, See see) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (!see(text.substr(0, end), number)) return;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// A reader that knows where it is, for its errors.
class LineReader {
 protected:
  // An Error{invalid_input} about the line.
  Error bad(const std::string& message) const {
    return Error(ErrorCode::invalid_input, message, line_ == 0 ? "" : "line " + std::to_string(line_));
  }

  size_t line_ = 0;  // 0: no line in particular
};

}  // namespace banyan
