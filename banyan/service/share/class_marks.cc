#include "banyan/service/share/class_marks.h"

#include <charconv>
#include <optional>
#include <set>
#include <string>

#include "banyan/base/error.h"
#include "banyan/run/system/ds_field.h"

namespace banyan::service {
namespace {

// Its digits, each within its bounds: "CS4", "AF41".
std::optional<uint8_t> named(std::string_view name) {
  const auto digit = [&](size_t place, int least, int most) {
    const int value = name[place] - '0';
    return value >= least && value <= most ? std::optional(value) : std::nullopt;
  };
  if (name == "EF") return 46;
  if (name == "VA") return 44;
  if (name == "LE") return 1;
  if (name.size() == 3 && name.starts_with("CS")) {
    if (const auto level = digit(2, 0, 7)) return static_cast<uint8_t>(8 * *level);
  }
  if (name.size() == 4 && name.starts_with("AF")) {
    const auto level = digit(2, 1, 4), drop = digit(3, 1, 3);
    if (level && drop) return static_cast<uint8_t>(8 * *level + 2 * *drop);
  }
  return std::nullopt;
}

uint8_t code_point(std::string_view text) {
  if (const auto known = named(text)) return *known;
  uint8_t number = 0;
  const auto [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = trouble == std::errc() && end == text.data() + text.size();
  if (is_number && number <= run::kMostDscp) return number;
  throw invalid(
      in_quotes(std::string(text)) +
      " is no code point of the DS field; give CS0 to CS7, AF11 to AF43, EF, VA, LE or a number from 0 to 63");
}

}  // namespace

ClassMarks ClassMarks::parse(std::string_view text) {
  ClassMarks marks;
  std::set<ShareClass> seen;
  for (size_t at = 0; at <= text.size();) {
    const std::string_view item = text.substr(at, text.find(',', at) - at);
    at += item.size() + 1;
    const size_t sign = item.find('=');
    if (sign == std::string_view::npos) {
      throw invalid(in_quotes(std::string(item)) + " is not like high=CS4: a class, = and its code point");
    }
    const std::string_view name = item.substr(0, sign);
    const ShareClass share_class = parse_share_class(name);
    if (!seen.insert(share_class).second) throw invalid("class " + std::string(name) + " has two code points");
    marks.dscp.at(static_cast<size_t>(share_class)) = code_point(item.substr(sign + 1));
  }
  return marks;
}

}  // namespace banyan::service
