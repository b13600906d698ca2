// Options of programs that run ranks again and again.
#pragma once

#include <map>
#include <string>

namespace banyan::c {

// The values of an enumeration, which begins with 0, by their names.
template <typename Enum, size_t kCount>
std::map<std::string, Enum> by_name(const char* const (&names)[kCount]) {
  std::map<std::string, Enum> values;
  for (size_t i = 0; i < kCount; ++i) values[names[i]] = static_cast<Enum>(i);
  return values;
}

}  // namespace banyan::c
