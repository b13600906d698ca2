// Options that users give as texts: whole numbers, and errors that name the option.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "banyan/base/place.h"

namespace banyan {

struct CountRange {
  uint64_t least = 1, most = 0;
};
// A whole number within the range, or Error{invalid_input} that names the option.
uint64_t parse_count(std::string_view text, std::string_view option, CountRange range);

// Runs `parse` and puts the option's name in front of the Error it may throw.
template <typename Parse>
auto parse_option(const std::string& option, Parse parse) {
  return at_place(option, parse);
}

}  // namespace banyan
