// One hash for keys and colours. It is no protection against chosen keys, and its values may be stored nowhere.
#pragma once

#include <cstdint>
#include <string_view>

namespace banyan {

// The finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection in which every bit of the input moves
// every bit of the output.
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The hash of two numbers, in this order. For a fixed `a`, different `b` give different values.
constexpr uint64_t mix(uint64_t a, uint64_t b) { return mix(a * 0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019); }

// The hash of a text: equal in all processes of one build.
constexpr uint64_t mix(std::string_view text) {
  uint64_t hash = text.size();
  for (const char letter : text) hash = mix(hash, static_cast<unsigned char>(letter));
  return hash;
}

}  // namespace banyan
