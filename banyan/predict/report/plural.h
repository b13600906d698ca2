// Counts as people read them.
#pragma once

#include <string>
#include <string_view>

namespace banyan::predict::report {

inline std::string with_thousands(size_t count) {
  std::string digits = std::to_string(count);
  for (size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, ",");
  return digits;
}

// "1 rank", "1,024 ranks", "3 switches".
inline std::string plural(size_t count, std::string_view noun) {
  const bool hisses = noun.ends_with("ch") || noun.ends_with("x");
  return with_thousands(count) + " " + std::string(noun) + (count == 1 ? "" : hisses ? "es" : "s");
}

}  // namespace banyan::predict::report
