#include "banyan/base/utf8.h"

namespace banyan {
namespace {

unsigned char byte(std::string_view text, size_t place) { return static_cast<unsigned char>(text[place]); }

bool is_obeyed(std::string_view character) {
  const unsigned char first = byte(character, 0);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  const unsigned char second = byte(character, 1);
  if (first == 0xc2) return second < 0xa0;  // U+0080 to U+009F
  if (first != 0xe2) return false;
  const unsigned char third = byte(character, 2);
  if (second == 0x80) return third == 0x8e || third == 0x8f || (third >= 0xa8 && third <= 0xae);  // U+200E to U+202E
  return second == 0x81 && third >= 0xa6 && third <= 0xa9;                                        // U+2066 to U+2069
}

}  // namespace

size_t utf8_character(std::string_view text) {
  if (text.empty()) return 0;
  const unsigned char first = byte(text, 0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(text, i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and code points above 10FFFF show in the second byte.
  const unsigned char second = length > 1 ? byte(text, 1) : 0;
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
  if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
  return length;
}

bool is_utf8(std::string_view text) {
  for (size_t length; (length = utf8_character(text)) > 0;) text.remove_prefix(length);
  return text.empty();
}

std::string harmless(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_character(text);
    if (length == 0 || is_obeyed(text.substr(0, length))) {
      shown += '?';
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return shown;
}

}  // namespace banyan
