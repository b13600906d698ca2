#include "banyan/fabric/node_names.h"

#include <algorithm>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/fabric/hostlist.h"

namespace banyan::fabric {

NodeNames::NodeNames(std::vector<std::string_view> known) : known_(std::move(known)) { std::ranges::sort(known_); }

bool NodeNames::contains(std::string_view name) const { return std::ranges::binary_search(known_, name); }

std::vector<std::string_view> NodeNames::named(std::string_view text) const {
  // A few bytes can name billions, so they are counted before they are made.
  const bool is_one = contains(text) || !is_list_of_names(text);
  if (!is_one && measure_hostlist(text).names > known_.size()) {
    throw invalid("list " + in_quotes(text) + " names more nodes than the " + std::to_string(known_.size()) +
                  " that there are");
  }
  std::vector<std::string_view> named;
  for (const std::string& name : is_one ? std::vector{std::string(text)} : expand_hostlist(text)) {
    const bool is_pattern = name.ends_with('*') && !contains(name);
    const std::string_view begin = std::string_view(name).substr(0, name.size() - (is_pattern ? 1 : 0));
    auto next = std::ranges::lower_bound(known_, begin);
    const auto fits = [&] { return next != known_.end() && (is_pattern ? next->starts_with(begin) : *next == begin); };
    if (!fits()) {
      if (is_pattern) throw Error(ErrorCode::not_found, "no node has a name like " + in_quotes(name));
      NearestName nearest(name);
      for (const std::string_view known : known_) nearest.offer(known);
      throw Error(ErrorCode::not_found, "node " + in_quotes(name) + " is not declared" + nearest.hint());
    }
    for (; fits(); ++next) named.push_back(*next);
  }
  return named;
}

std::set<std::string, std::less<>> NodeNames::removed(std::span<const std::string> texts) const {
  std::set<std::string, std::less<>> names;
  for (const std::string& text : texts) {
    try {
      for (const std::string_view name : named(text)) names.emplace(name);
    } catch (const Error& error) {
      throw error.within("--remove " + text.substr(0, 200));
    }
  }
  return names;
}

}  // namespace banyan::fabric
