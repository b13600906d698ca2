// WireType: the type of a call's elements, and their form on the wire: themselves, or float32 in a code.
//
// One byte, for records that processes share and for the C interface, whose banyan_type_t has the same numbers: those
// of element::DataType, then two for each code, to nearest and stochastic.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "banyan/codec/codec.h"
#include "banyan/element/data_type.h"

namespace banyan::codec {

class WireType {
 public:
  static constexpr size_t kCount = element::kDataTypes + 2 * kValueCodes;

  constexpr WireType() = default;
  constexpr WireType(element::DataType type) : number_(static_cast<uint8_t>(type)) {}
  // float32 in this code.
  constexpr explicit WireType(const Codec& codec)
      : number_(static_cast<uint8_t>(element::kDataTypes + 2 * static_cast<size_t>(codec.code) +
                                     (codec.is_stochastic ? 1 : 0))) {}
  // True if a number stands for a type: codes that do not round are never stochastic.
  static constexpr bool is_known(uint64_t number) {
    if (number < element::kDataTypes) return true;
    if (number >= kCount) return false;
    return kCodeRows[(number - element::kDataTypes) / 2].rounds || (number - element::kDataTypes) % 2 == 0;
  }
  // `number` is known.
  static constexpr WireType of_number(uint8_t number) {
    WireType type;
    type.number_ = number;
    return type;
  }

  constexpr uint8_t number() const { return number_; }
  constexpr bool is_coded() const { return number_ >= element::kDataTypes; }
  // The type in memory.
  constexpr element::DataType element() const {
    return is_coded() ? element::DataType::float32 : static_cast<element::DataType>(number_);
  }
  constexpr std::optional<Codec> codec() const {
    if (!is_coded()) return std::nullopt;
    const size_t number = number_ - element::kDataTypes;
    return Codec{.code = static_cast<ValueCode>(number / 2), .is_stochastic = number % 2 == 1};
  }
  // The bytes of so many elements on the wire, in one piece.
  size_t bytes(size_t elements) const;
  friend auto operator<=>(WireType, WireType) = default;

 private:
  uint8_t number_ = static_cast<uint8_t>(element::DataType::uint8);
};

// "float32", "float32 as int8". The reader throws Error{invalid_input}.
std::string to_string(WireType type);
WireType parse_wire_type(std::string_view text);

}  // namespace banyan::codec
