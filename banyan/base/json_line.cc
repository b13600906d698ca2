#include "banyan/base/json_line.h"

#include <array>
#include <cstdio>

#include "banyan/base/utf8.h"

namespace banyan {
void JsonLine::begin(std::string_view key) {
  text_ += text_.empty() ? "{" : ",";
  append(key);
  text_ += ':';
}

void JsonLine::append(std::string_view value) {
  text_ += '"';
  while (!value.empty()) {
    const size_t size = utf8_character(value);
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
