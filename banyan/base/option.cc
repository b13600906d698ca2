#include "banyan/base/option.h"

#include <charconv>

namespace banyan {

uint64_t parse_count(std::string_view text, std::string_view option, CountRange range) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < range.least || value > range.most) {
    throw Error(ErrorCode::invalid_input,
                "'" + std::string(text.substr(0, 60)) + "' is not a whole number from " + std::to_string(range.least) +
                    " to " + std::to_string(range.most),
                std::string(option));
  }
  return value;
}

}  // namespace banyan
