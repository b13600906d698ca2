// Options as a table that the command line, files and Python read: each has a name, a help and a reader of its values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/base/option.h"
#include "banyan/base/units.h"

namespace banyan {

// The value of an option as it is given: a truth, a number (a count, bytes or picoseconds), a text in the words of the
// command line, or several texts.
using OptionValue = std::variant<bool, uint64_t, std::string, std::vector<std::string>>;

// Each throws Error{invalid_input} that quotes the value.
bool read_truth(const OptionValue& value);  // a truth, or the text "true" or "false"
uint64_t read_count(const OptionValue& value, CountRange range);
Bytes read_bytes(const OptionValue& value);                    // a text such as "64KiB"
Picoseconds read_duration(const OptionValue& value);           // a text such as "5us"
std::string read_text(const OptionValue& value);               // the digits of a number
std::vector<std::string> read_list(const OptionValue& value);  // of a text, the pieces between its commas

// The value by kRead, which takes an OptionValue or its text.
template <auto kRead>
auto read_by(const OptionValue& value) {
  if constexpr (std::is_invocable_v<decltype(kRead), const OptionValue&>) {
    return kRead(value);
  } else {
    return kRead(read_text(value));
  }
}

// A member of the options, or else of the part of them that part_of(options) returns.
template <auto kMember, typename Options>
auto& member_of(Options& options) {
  if constexpr (std::is_invocable_v<decltype(kMember), Options&>) {
    return options.*kMember;
  } else {
    return part_of(options).*kMember;
  }
}

// A reader for rows, into a member, and the member of a flag.
template <auto kMember, auto kRead, typename Options>
void read_into(Options& options, const OptionValue& value) {
  member_of<kMember>(options) = read_by<kRead>(value);
}
template <auto kMember, typename Options>
bool& flag_in(Options& options) {
  return member_of<kMember>(options);
}

// A row of the table: a flag, an option that repeats, or one with a value.
template <typename Options>
struct OptionRow {
  std::string_view group;  // heading under which a help shows it
  std::string_view name;   // "global-batch"
  std::string_view value;  // what stands for the value in a help; empty of a flag
  std::string_view help;
  // One of read, flag and texts is not null.
  void (*read)(Options& options, const OptionValue& value) = nullptr;  // throws Error
  bool& (*flag)(Options&) = nullptr;
  std::vector<std::string> (*values)() = nullptr;  // those that it can have, where they are few
  std::vector<std::string>& (*texts)(Options&) = nullptr;
  bool names_files = false;  // although its value is not "FILE"

  bool is_flag() const { return flag != nullptr; }

  // Sets this option; each text of one that repeats adds to those before. Throws Error that quotes the value.
  void set(Options& options, const OptionValue& given) const {
    CHECK((read != nullptr) + (flag != nullptr) + (texts != nullptr) == 1) << name;
    if (read != nullptr) return read(options, given);
    if (flag != nullptr) {
      flag(options) = read_truth(given);
    } else if (const auto* const several = std::get_if<std::vector<std::string>>(&given)) {
      texts(options) = *several;
    } else {
      texts(options).push_back(read_text(given));
    }
  }
};

// Null for a name that no row has. O(rows).
template <typename Options>
const OptionRow<Options>* find_option(std::span<const OptionRow<Options>> rows, std::string_view name) {
  for (const OptionRow<Options>& row : rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// Sets the option of this name, which a row has. Throws Error that begins with it ("--tp: ...").
template <typename Options>
void set_option(Options& options, std::span<const OptionRow<Options>> rows, std::string_view name,
                const OptionValue& value) {
  const OptionRow<Options>* const row = find_option(rows, name);
  CHECK(row != nullptr) << "no option " << name;
  parse_option("--" + std::string(name), [&] { row->set(options, value); });
}

}  // namespace banyan
