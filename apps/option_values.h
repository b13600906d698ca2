// Setters of options whose text is read at once (syntax.h): the command has values, and no texts that it reads later.
// The parser puts the name of the option in front of the Error that a reader throws.
#pragma once

#include <cstdint>
#include <string>

#include "apps/syntax.h"
#include "banyan/base/error.h"
#include "banyan/base/option.h"
#include "banyan/base/units.h"

namespace banyan::app {

// The target, which outlives the command, gets read(text).
template <typename Target, typename Read>
OptionSyntax::Setter into(Target& target, Read read) {
  return [&target, read](const std::string& text) { target = read(text); };
}

// A whole number within the range, which ends below 2^32.
template <typename Number>
OptionSyntax::Setter count_into(Number& target, CountRange range) {
  return into(target, [range](const std::string& text) { return static_cast<uint32_t>(parse_count(text, "", range)); });
}

// More than zero bytes.
inline Bytes parse_size(const std::string& text) {
  const Bytes size = Bytes::parse(text);
  if (size.count() > 0) return size;
  throw invalid(in_quotes(text) + " is zero bytes; give a size such as 64MiB");
}

}  // namespace banyan::app
