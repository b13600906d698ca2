#include "banyan/fabric/hostlist.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

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

// "0-3", "007-012", "12": the numbers with the zeros in front.
void expand_range(std::string_view range, std::string_view list, size_t limit, std::vector<std::string>& numbers) {
  const size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const uint64_t begin = number(first, list);
  const uint64_t end = dash == std::string_view::npos ? begin : number(range.substr(dash + 1), list);
  if (end < begin) throw bad(list, "has a range that runs backwards: " + std::string(range.substr(0, 40)));
  if (end - begin >= limit) throw bad(list, "has more than " + std::to_string(limit) + " names");
  for (uint64_t i = begin; i <= end; ++i) {
    std::string digits = std::to_string(i);
    if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
    numbers.push_back(std::move(digits));
  }
}

void expand_item(std::string_view item, std::string_view list, size_t limit, std::vector<std::string>& names) {
  std::vector<std::string> grown = {""};
  while (!item.empty()) {
    const size_t bracket = std::min(item.find('['), item.size());
    for (std::string& name : grown) name += item.substr(0, bracket);
    item.remove_prefix(bracket);
    if (item.empty()) break;
    const size_t end = item.find(']');  // there is one
    std::vector<std::string> numbers;
    for (const std::string_view range : split(item.substr(1, end - 1), ',')) {
      expand_range(trim(range), list, limit, numbers);
    }
    if (numbers.size() * grown.size() > limit) throw bad(list, "has more than " + std::to_string(limit) + " names");
    std::vector<std::string> longer;
    for (const std::string& name : grown) {
      for (const std::string& digits : numbers) longer.push_back(name + digits);
    }
    grown = std::move(longer);
    item.remove_prefix(end + 1);
  }
  if (names.size() + grown.size() > limit) throw bad(list, "has more than " + std::to_string(limit) + " names");
  names.insert(names.end(), grown.begin(), grown.end());
}

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view text, size_t limit) {
  std::vector<std::string> names;
  for (const std::string_view item : items_of(text)) {
    if (item.empty()) throw bad(text, "has an empty name");
    expand_item(item, text, limit, names);
  }
  return names;
}

}  // namespace banyan::fabric
