// Small helpers for texts: what readers of lines and tables do to them, and counts as people read them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace banyan {

// In ASCII.
inline std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return result;
}

// Without the blanks, tabs and carriage returns at its ends.
inline std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// The parts between separators: one more than there are separators.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// The parts between blanks and line breaks, none of which is empty.
inline std::vector<std::string_view> split_words(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  std::vector<std::string_view> words;
  for (size_t at = 0; (at = text.find_first_not_of(kBlank, at)) != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlank, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

// Cells of a line of CSV without quotes, trimmed.
inline std::vector<std::string_view> split_cells(std::string_view line) {
  std::vector<std::string_view> cells = split(line, ',');
  for (std::string_view& cell : cells) cell = trim(cell);
  return cells;
}

// "1,024".
inline std::string with_thousands(size_t count) {
  std::string digits = std::to_string(count);
  for (size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, ",");
  return digits;
}

// "1 rank", "1,024 ranks", "3 switches".
inline std::string plural(size_t count, std::string_view noun) {
  const bool hisses = noun.ends_with("ch") || noun.ends_with("s") || noun.ends_with("x");
  return with_thousands(count) + " " + std::string(noun) + (count == 1 ? "" : hisses ? "es" : "s");
}

}  // namespace banyan
