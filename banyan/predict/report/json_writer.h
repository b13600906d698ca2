// JsonWriter: JSON appended to a text as it comes, for documents with millions of numbers, where a tree of values in
// memory would be many times the text.
//
//   JsonWriter json(text);
//   json.open('{').field("time_ps", 12).key("names").open('[').text("gpu0").close().close();
//
// Commas are its business; whether keys stand in objects is the caller's (CHECKed where it is free). Texts are escaped
// by nlohmann-json; bytes that are not UTF-8 become U+FFFD. Doubles are written so that they read back as the same;
// what is not finite becomes null.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

namespace banyan::predict::report {

// Appends `text` with its quotes.
void append_json_text(std::string& out, std::string_view text);

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& open(char bracket);  // '{' or '['
  JsonWriter& close();
  JsonWriter& key(std::string_view name);
  JsonWriter& text(std::string_view value);
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  JsonWriter& number(std::integral auto value) { return append(value); }
  JsonWriter& number(double value);
  JsonWriter& number(float value);
  // A number, a time in picoseconds, bytes, a truth value or a text, as its type says; an optional without one is null.
  template <typename Value>
  JsonWriter& value(const Value& value) {
    if constexpr (std::same_as<Value, bool>) {
      return boolean(value);
    } else if constexpr (std::is_arithmetic_v<Value>) {
      return number(value);
    } else if constexpr (requires { value.count(); }) {
      return number(value.count());
    } else if constexpr (requires { value.has_value(); }) {
      return value ? this->value(*value) : null();
    } else {
      return text(value);
    }
  }
  JsonWriter& field(std::string_view name, const auto& value) { return key(name).value(value); }
  // A list under a key: what `each` makes of each of its members.
  template <typename List, typename Each = std::identity>
  JsonWriter& list(std::string_view name, const List& list, Each each = {}) {
    key(name).open('[');
    for (const auto& one : list) value(each(one));
    return close();
  }
  // JSON that somebody else has written.
  JsonWriter& raw(std::string_view json);
  // The next value begins a line, for files that people look into.
  JsonWriter& line();

 private:
  template <typename Number>
  JsonWriter& append(Number value) {
    separate();
    char digits[32];
    const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
    out_.append(digits, end);
    return *this;
  }
  void separate() {
    if (needs_comma_) out_ += ',';
    if (begins_line_) out_ += '\n';
    needs_comma_ = true;
    begins_line_ = false;
  }

  std::string& out_;
  std::string closers_;  // of the brackets that are open
  bool needs_comma_ = false;
  bool begins_line_ = false;
};

}  // namespace banyan::predict::report
