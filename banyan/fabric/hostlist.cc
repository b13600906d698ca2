#include "banyan/fabric/hostlist.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>

#include "banyan/base/error.h"
#include "banyan/base/text.h"

namespace banyan::fabric {
namespace {

Error bad(std::string_view text, const std::string& why) { return invalid("list " + in_quotes(text) + " " + why); }

// At commas that stand outside of brackets.
std::vector<std::string_view> items_of(std::string_view text) {
  std::vector<std::string_view> items;
  bool is_inside = false;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[' || c == ']') {
      if (is_inside == (c == '[')) throw bad(text, "has brackets that do not fit");
      is_inside = c == '[';
    }
    if (c != ',' || (is_inside && i < text.size())) continue;
    items.push_back(trim(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  if (is_inside) throw bad(text, "has a '[' without a ']'");
  return items;
}

uint64_t number(std::string_view digits, std::string_view list) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || end != digits.data() + digits.size() || digits.size() > 18) {
    throw bad(list, "has " + in_quotes(digits) + " where a number should be");
  }
  return value;
}

// "0-3", "007-012", "12": numbers with so many digits at least.
struct NumberRange {
  uint64_t first = 0, last = 0;
  size_t digits = 0;
};

// What stands before a bracket, and what is in it; no ranges at the end of a name.
struct Part {
  std::string_view text;
  std::vector<NumberRange> ranges = {};
};

NumberRange range_of(std::string_view text, std::string_view list) {
  const size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  NumberRange range{.first = number(first, list), .digits = first.size()};
  range.last = dash == std::string_view::npos ? range.first : number(text.substr(dash + 1), list);
  if (range.last < range.first) throw bad(list, "has a range that runs backwards: " + std::string(text.substr(0, 40)));
  return range;
}

std::vector<Part> parts_of(std::string_view item, std::string_view list) {
  if (item.empty()) throw bad(list, "has an empty name");
  std::vector<Part> parts;
  while (!item.empty()) {
    const size_t bracket = std::min(item.find('['), item.size());
    Part& part = parts.emplace_back(Part{.text = item.substr(0, bracket)});
    item.remove_prefix(bracket);
    if (item.empty()) break;
    const size_t end = item.find(']');  // there is one
    for (const std::string_view range : split(item.substr(1, end - 1), ',')) {
      part.ranges.push_back(range_of(trim(range), list));
    }
    item.remove_prefix(end + 1);
  }
  return parts;
}

uint64_t at_most_64_bits(unsigned __int128 value) {
  return static_cast<uint64_t>(std::min<unsigned __int128>(value, UINT64_MAX));
}

// Of one item of a list.
HostlistSize size_of(const std::vector<Part>& parts) {
  HostlistSize size{.names = 1};
  for (const Part& part : parts) {
    size.most_bytes += part.text.size();
    if (part.ranges.empty()) continue;
    unsigned __int128 numbers = 0;
    size_t most_digits = 0;
    for (const NumberRange& range : part.ranges) {
      numbers += range.last - range.first + 1;
      most_digits = std::max({most_digits, range.digits, std::to_string(range.last).size()});
    }
    size.names = at_most_64_bits(at_most_64_bits(numbers) * static_cast<unsigned __int128>(size.names));
    size.most_bytes += most_digits;
  }
  return size;
}

void expand_item(const std::vector<Part>& parts, std::vector<std::string>& names) {
  std::vector<std::string> grown = {""};
  for (const Part& part : parts) {
    for (std::string& name : grown) name += part.text;
    if (part.ranges.empty()) break;
    std::vector<std::string> longer;
    for (const std::string& name : grown) {
      for (const NumberRange& range : part.ranges) {
        for (uint64_t i = range.first; i <= range.last; ++i) {
          const std::string digits = std::to_string(i);
          const size_t zeros = range.digits - std::min(range.digits, digits.size());
          longer.push_back(name + std::string(zeros, '0') + digits);
        }
      }
    }
    grown = std::move(longer);
  }
  names.insert(names.end(), std::make_move_iterator(grown.begin()), std::make_move_iterator(grown.end()));
}

}  // namespace

HostlistSize measure_hostlist(std::string_view text) {
  HostlistSize size;
  for (const std::string_view item : items_of(text)) {
    const HostlistSize more = size_of(parts_of(item, text));
    size.names = at_most_64_bits(static_cast<unsigned __int128>(size.names) + more.names);
    size.most_bytes = std::max(size.most_bytes, more.most_bytes);
  }
  return size;
}

std::vector<std::string> expand_hostlist(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string_view item : items_of(text)) expand_item(parts_of(item, text), names);
  return names;
}

}  // namespace banyan::fabric
