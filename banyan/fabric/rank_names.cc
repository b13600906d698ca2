#include "banyan/fabric/rank_names.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/base/split_list.h"

namespace banyan::fabric {
namespace {

std::optional<uint64_t> as_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The position among the fabric's ranks that `text` names, if it names one.
std::optional<size_t> position(std::string_view text, const Fabric& fabric) {
  const auto ranks = fabric.ranks();
  if (const std::optional<NodeId> id = fabric.find(text); id && fabric.is_rank(*id)) {
    return static_cast<size_t>(std::lower_bound(ranks.begin(), ranks.end(), *id) - ranks.begin());
  }
  const std::optional<uint64_t> number = as_number(text);
  if (!number || *number >= ranks.size()) return std::nullopt;
  return static_cast<size_t>(*number);
}

Error unknown(std::string_view text, const Fabric& fabric, std::string_view where) {
  if (as_number(text)) {
    return Error(ErrorCode::not_found,
                 "there is no rank " + std::string(text.substr(0, 60)) + "; the fabric has ranks 0 to " +
                     std::to_string(fabric.ranks().size() - 1),
                 std::string(where));
  }
  if (fabric.find(text)) {
    return invalid("node '" + std::string(text) + "' is a switch; name a rank").within(std::string(where));
  }
  NearestName meant(text);
  for (const NodeId rank : fabric.ranks()) meant.offer(fabric.name(rank));
  const std::string message = "rank '" + std::string(text.substr(0, 60)) + "' does not exist" + meant.hint();
  return Error(ErrorCode::not_found, message, std::string(where));
}

struct Range {
  size_t first, last;
};

// Names may hold dashes themselves ("node-0-gpu-1"), so every dash is tried.
std::optional<Range> as_range(std::string_view text, const Fabric& fabric) {
  for (size_t dash = text.find('-'); dash != std::string_view::npos; dash = text.find('-', dash + 1)) {
    const auto first = position(text.substr(0, dash), fabric), last = position(text.substr(dash + 1), fabric);
    if (first && last) return Range{*first, *last};
  }
  return std::nullopt;
}

}  // namespace

NodeId parse_rank(std::string_view text, const Fabric& fabric, std::string_view where) {
  const std::optional<size_t> at = position(text, fabric);
  if (!at) throw unknown(text, fabric, where);
  return fabric.ranks()[*at];
}

std::vector<NodeId> parse_ranks(std::string_view text, const Fabric& fabric, std::string_view where) {
  std::vector<NodeId> result;
  for (const std::string& item : split_list(text, where)) {
    const std::optional<size_t> one = position(item, fabric);
    const std::optional<Range> range = one ? Range{*one, *one} : as_range(item, fabric);
    if (!range) {
      // Of a numeric range the end that does not exist is the culprit, not the range.
      const size_t dash = item.find('-');
      const bool numeric =
          dash != std::string::npos && as_number(item.substr(0, dash)) && as_number(item.substr(dash + 1));
      const std::string culprit = !numeric                                 ? item
                                  : position(item.substr(0, dash), fabric) ? item.substr(dash + 1)
                                                                           : item.substr(0, dash);
      throw unknown(culprit, fabric, where);
    }
    if (range->first > range->last) {
      throw invalid("range '" + item + "' runs backwards; write the lower end first").within(std::string(where));
    }
    for (size_t i = range->first; i <= range->last; ++i) result.push_back(fabric.ranks()[i]);
  }
  return result;
}

}  // namespace banyan::fabric
