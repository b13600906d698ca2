#include "banyan/base/option_table.h"

#include "banyan/base/split_list.h"

namespace banyan {
bool read_truth(const OptionValue& value) {
  if (const bool* const truth = std::get_if<bool>(&value)) return *truth;
  const std::string text = read_text(value);
  if (text != "true" && text != "false") throw invalid(in_quotes(text) + " is not true or false");
  return text == "true";
}

uint64_t read_count(const OptionValue& value, CountRange range) { return parse_count(read_text(value), "", range); }

Bytes read_bytes(const OptionValue& value) {
  const uint64_t* const bytes = std::get_if<uint64_t>(&value);
  return bytes != nullptr ? Bytes(*bytes) : Bytes::parse(read_text(value));
}

Picoseconds read_duration(const OptionValue& value) {
  if (!std::holds_alternative<uint64_t>(value)) return parse_duration(read_text(value));
  return Picoseconds(read_count(value, {0, uint64_t{1000} * 1'000'000'000'000}));
}

std::string read_text(const OptionValue& value) {
  if (const std::string* const text = std::get_if<std::string>(&value)) return *text;
  if (const uint64_t* const number = std::get_if<uint64_t>(&value)) return std::to_string(*number);
  if (const bool* const truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  throw invalid("is a list; give one value");
}

std::vector<std::string> read_list(const OptionValue& value) {
  const auto* const several = std::get_if<std::vector<std::string>>(&value);
  return several != nullptr ? *several : split_list(read_text(value), "");
}

}  // namespace banyan
