// Lists as people write them in one word: "0-3,8", "1MiB,64MiB".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/text.h"

namespace banyan {

// The pieces between commas. Throws Error{invalid_input} for an empty piece ("1,,2"), with `where` ("--ranks") in
// front.
inline std::vector<std::string> split_list(std::string_view text, std::string_view where) {
  std::vector<std::string> pieces;
  for (const std::string_view piece : split(text, ',')) {
    if (piece.empty()) {
      throw Error(ErrorCode::invalid_input,
                  "'" + std::string(text.substr(0, 60)) + "' has an empty item between its commas", std::string(where));
    }
    pieces.emplace_back(piece);
  }
  return pieces;
}

}  // namespace banyan
