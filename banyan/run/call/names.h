// The values of an enumeration by their names, for readers of records.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"

namespace banyan::run {

// The value whose name is `text`; `names` are in the order of the values. Throws Error{invalid_input} that names the
// nearest one and lists all. `what` says what they are: "health".
template <typename T, size_t N>
T parse_name(std::string_view text, const std::string& what, const std::array<std::string_view, N>& names) {
  NearestName nearest(text);
  std::string known;
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == text) return static_cast<T>(i);
    nearest.offer(names[i]);
    known += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  throw Error(ErrorCode::invalid_input, "unknown " + what + " '" + std::string(text.substr(0, 60)) + "'" +
                                            nearest.hint() + "; known are " + known);
}

}  // namespace banyan::run
