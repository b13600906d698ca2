// Numbers in the headers of coded bytes: in this machine's order, which is little-endian.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace banyan::tensor {

// The bytes are long enough.
template <typename T>
T number_at(std::span<const std::byte> bytes, size_t at) {
  T number{};
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

template <typename T>
void append_number(std::vector<std::byte>& bytes, const T& number) {
  const auto* const first = reinterpret_cast<const std::byte*>(&number);
  bytes.insert(bytes.end(), first, first + sizeof number);
}

}  // namespace banyan::tensor
