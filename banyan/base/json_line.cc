#include "banyan/base/json_line.h"

#include <array>
#include <cstdio>

namespace banyan {
namespace {

// How many bytes the first character takes; 0 when they are no UTF-8.
size_t character_size(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (first < 0xc2 || size == 0) return 0;
  // Neither longer than need be, nor half of a pair, nor beyond the last character.
  const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < least || byte(1) > most) return 0;
  for (size_t i = 2; i < size; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return size;
}

}  // namespace

void JsonLine::begin(std::string_view key) {
  text_ += text_.empty() ? "{" : ",";
  append(key);
  text_ += ':';
}

void JsonLine::append(std::string_view value) {
  text_ += '"';
  while (!value.empty()) {
    const size_t size = character_size(value);
    const char first = value.front();
    if (size == 0) {
      text_ += "\xef\xbf\xbd";
    } else if (first == '"' || first == '\\') {
      text_ += '\\';
      text_ += first;
    } else if (size == 1 && static_cast<unsigned char>(first) < 0x20) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(first));
      text_ += code.data();
    } else {
      text_ += value.substr(0, size);
    }
    value.remove_prefix(size == 0 ? 1 : size);
  }
  text_ += '"';
}

}  // namespace banyan
