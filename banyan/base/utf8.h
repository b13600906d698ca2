// UTF-8, and what of it a terminal or a log does not obey.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace banyan {

// The length of the character at the front, 1 to 4 bytes; 0 where the text is empty or is no well-formed UTF-8 there.
size_t utf8_character(std::string_view text);
bool is_utf8(std::string_view text);

// A text of a stranger as one line to show: control characters (also C1, as which terminals may take single bytes),
// marks that turn the direction of writing, and what is no UTF-8 become '?'. O(bytes).
std::string harmless(std::string_view text);

}  // namespace banyan
