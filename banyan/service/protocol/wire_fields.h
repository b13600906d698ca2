// The fields of messages: a row for each message, from which it is written and read in one order (run/join/wire.h).
//
//   template <>
//   inline constexpr auto kWireFields<RankGone> = std::tuple{&RankGone::session, &RankGone::rank};
//
// A new field is a member of its struct and stands in its row. Fields may be unsigned numbers, enumerators (as their
// numbers), true and false, doubles, texts, errors, lists, arrays, and structs that have rows. A reader throws
// Error{invalid_input} for bytes that are none of these. That numbers make sense, its caller sees to.
//
// Pure functions, for any thread.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/join/wire.h"

namespace banyan::service {

template <typename Message>
inline constexpr auto kWireFields = nullptr;

// Calls visit(field) for each field of a message.
template <typename Message, typename Visit>
void each_wire_field(Message& message, const Visit& visit) {
  std::apply([&](const auto... members) { (visit(message.*members), ...); }, kWireFields<std::remove_const_t<Message>>);
}

// ---- Writing.

// Lists are declared first, since messages have them.
template <typename Value, size_t kSize>
void put(run::WireWriter& writer, const std::array<Value, kSize>& values);
template <typename Value>
void put(run::WireWriter& writer, const std::vector<Value>& list);

template <typename Number>
requires std::is_arithmetic_v<Number> || std::is_enum_v<Number>
void put(run::WireWriter& writer, Number value) {
  if constexpr (std::is_same_v<Number, bool>) {
    writer.number(static_cast<uint8_t>(value));
  } else if constexpr (std::is_same_v<Number, double>) {
    writer.number(std::bit_cast<uint64_t>(value));
  } else if constexpr (std::is_enum_v<Number>) {
    writer.number(static_cast<std::underlying_type_t<Number>>(value));
  } else {
    writer.number(value);
  }
}
inline void put(run::WireWriter& writer, const std::string& text) { writer.text(text); }
inline void put(run::WireWriter& writer, const Error& error) {
  writer.number(static_cast<uint8_t>(error.code())).text(error.message()).text(error.where());
}
template <typename Message>
requires std::is_class_v<Message>
void put(run::WireWriter& writer, const Message& message) {
  each_wire_field(message, [&](const auto& field) { put(writer, field); });
}
template <typename Value, size_t kSize>
void put(run::WireWriter& writer, const std::array<Value, kSize>& values) {
  for (const Value& each : values) put(writer, each);
}
template <typename Value>
void put(run::WireWriter& writer, const std::vector<Value>& list) {
  writer.number(static_cast<uint32_t>(list.size()));
  for (const Value& each : list) put(writer, each);
}

// ---- Reading.

// The bytes that a value takes at least.
template <typename Value>
constexpr size_t least_bytes() {
  if constexpr (std::is_class_v<Value> && !std::is_null_pointer_v<std::remove_const_t<decltype(kWireFields<Value>)>>) {
    const auto of_member = []<typename Member>(Member Value::*) { return least_bytes<Member>(); };
    return std::apply([&](const auto... members) { return (size_t{0} + ... + of_member(members)); },
                      kWireFields<Value>);
  } else {
    return std::is_class_v<Value> ? sizeof(uint32_t) : sizeof(Value);  // a text or a list has its length in front
  }
}

template <typename Value, size_t kSize>
void take(run::WireReader& reader, std::array<Value, kSize>& values);
template <typename Value>
void take(run::WireReader& reader, std::vector<Value>& list);

template <typename Number>
requires std::is_arithmetic_v<Number> || std::is_enum_v<Number>
void take(run::WireReader& reader, Number& value) {
  if constexpr (std::is_same_v<Number, bool>) {
    const auto flag = reader.number<uint8_t>();
    if (flag > 1) throw invalid("a message has a flag that is neither 0 nor 1");
    value = flag == 1;
  } else if constexpr (std::is_same_v<Number, double>) {
    value = std::bit_cast<double>(reader.number<uint64_t>());
  } else if constexpr (std::is_enum_v<Number>) {
    value = static_cast<Number>(reader.number<std::underlying_type_t<Number>>());
  } else {
    value = reader.number<Number>();
  }
}
inline void take(run::WireReader& reader, std::string& text) { text = reader.text(); }
inline void take(run::WireReader& reader, Error& error) {
  const auto code = reader.number<uint8_t>();
  if (code > static_cast<uint8_t>(ErrorCode::invalid_usage)) throw invalid("a message has an error of an unknown kind");
  std::string message = reader.text();
  error = Error(static_cast<ErrorCode>(code), std::move(message), reader.text());
}
template <typename Message>
requires std::is_class_v<Message>
void take(run::WireReader& reader, Message& message) {
  each_wire_field(message, [&](auto& field) { take(reader, field); });
}
template <typename Value, size_t kSize>
void take(run::WireReader& reader, std::array<Value, kSize>& values) {
  for (Value& each : values) take(reader, each);
}
template <typename Value>
void take(run::WireReader& reader, std::vector<Value>& list) {
  list.resize(reader.count(least_bytes<Value>()));
  for (Value& each : list) take(reader, each);
}

// ---- One of several messages: the first byte is its place in the variant.

template <typename Variant>
std::string encode_one_of(const Variant& message) {
  run::WireWriter writer;
  writer.number(static_cast<uint8_t>(message.index()));
  std::visit([&](const auto& each) { put(writer, each); }, message);
  return writer.take();
}

template <typename Variant>
Variant decode_one_of(std::string_view bytes) {
  run::WireReader reader(bytes);
  const auto kind = reader.number<uint8_t>();
  Variant message;
  const auto take_if = [&]<size_t kPlace>(std::integral_constant<size_t, kPlace>) {
    if (kind != kPlace) return false;
    take(reader, message.template emplace<kPlace>());
    return true;
  };
  const bool is_known = [&]<size_t... kPlaces>(std::index_sequence<kPlaces...>) {
    return (take_if(std::integral_constant<size_t, kPlaces>()) || ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
  if (!is_known) throw invalid("a message of an unknown kind, number " + std::to_string(kind));
  reader.end();
  return message;
}

}  // namespace banyan::service
