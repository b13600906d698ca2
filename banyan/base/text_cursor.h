// TextCursor: walks over a text and leaves word of how far it came, for readers that are told what was read but not
// where: nlohmann's SAX events do not say where they are.
//
//   const char* reached = begin;
//   nlohmann::json::sax_parse(TextCursor{begin, &reached}, TextCursor{end, &reached}, &handler);
//
// `reached` is one past the last character that was looked at, in every event.
#pragma once

#include <cstddef>
#include <iterator>

namespace banyan {

struct TextCursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** reached;

  reference operator*() const { return *at; }
  TextCursor& operator++() {
    *reached = ++at;
    return *this;
  }
  friend bool operator==(const TextCursor& a, const TextCursor& b) { return a.at == b.at; }
};

}  // namespace banyan
