#include "banyan/predict/report/page_events.h"

#include <algorithm>
#include <map>
#include <utility>

#include "banyan/base/text.h"

namespace banyan::predict::report {
namespace {

LinkMark::Kind kind_of(const LinkEvent& event) {
  if (!event.bandwidth) return LinkMark::Kind::up;
  return *event.bandwidth == Bandwidth() ? LinkMark::Kind::down : LinkMark::Kind::bandwidth;
}

// Both directions of cables by one name, other links by theirs; at most `most`.
std::vector<std::string> names_of(const std::vector<uint32_t>& links, const Fabric* fabric, const LinkNames& names,
                                  size_t most) {
  std::vector<std::string> result;
  if (fabric == nullptr) {
    for (size_t i = 0; i < std::min(most, links.size()); ++i) result.push_back(names.name(links[i]));
    return result;
  }
  std::map<std::pair<NodeId, NodeId>, std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> by_ends;
  for (const uint32_t link : links) {
    const Link& ends = fabric->links()[link];
    auto& both = by_ends[{std::min(ends.from, ends.to), std::max(ends.from, ends.to)}];
    (ends.from < ends.to ? both.first : both.second).push_back(link);
  }
  for (const auto& [ends, both] : by_ends) {
    if (result.size() >= most) break;
    const auto& [forth, back] = both;
    if (forth.size() == back.size()) {
      result.push_back(fabric->name(ends.first) + " – " + fabric->name(ends.second) +
                       (forth.size() > 1 ? " (" + plural(forth.size(), "cable") + ")" : ""));
      continue;
    }
    for (const auto* side : {&forth, &back}) {
      for (const uint32_t link : *side) {
        if (result.size() < most) result.push_back(names.name(link));
      }
    }
  }
  return result;
}

}  // namespace

PageEvents::PageEvents(const ReportInput& input, const LinkNames& names, size_t most) : input_(input), names_(names) {
  make_marks(most);
  make_states();
}

void PageEvents::make_marks(size_t most) {
  const std::vector<LinkEvent>& events = input_.prediction.events;
  const Fabric* fabric = input_.fabric ? &*input_.fabric : nullptr;
  size_t all = 0;
  for (size_t begin = 0, end = 0; begin < events.size(); begin = end) {
    std::map<std::pair<LinkMark::Kind, Bandwidth>, std::vector<uint32_t>> alike;
    for (; end < events.size() && events[end].time == events[begin].time; ++end) {
      const Bandwidth bandwidth = events[end].bandwidth.value_or(Bandwidth());
      alike[{kind_of(events[end]), bandwidth}].push_back(index(events[end].link));
    }
    all += alike.size();
    for (const auto& [what, links] : alike) {
      if (marks_.size() == most) break;
      marks_.push_back({.time = events[begin].time,
                        .kind = what.first,
                        .bandwidth = what.second,
                        .links = links.size(),
                        .names = names_of(links, fabric, names_, kMostNames)});
    }
  }
  if (all > marks_.size()) {
    note_ =
        "Of " + plural(all, "change") + " of links the timeline marks the first " + with_thousands(marks_.size()) + ".";
  }
}

void PageEvents::make_states() {
  std::map<uint32_t, LinkState> open;
  const auto close = [&](uint32_t link, Picoseconds now) {
    const auto found = open.find(link);
    if (found == open.end()) return;
    found->second.end = now;
    if (found->second.end > found->second.begin) states_.emplace_back(link, found->second);
    open.erase(found);
  };
  for (const LinkEvent& event : input_.prediction.events) {
    close(index(event.link), event.time);
    if (event.bandwidth) open[index(event.link)] = {.begin = event.time, .end = {}, .bandwidth = *event.bandwidth};
  }
  while (!open.empty()) close(open.begin()->first, input_.prediction.time);
  std::ranges::sort(states_, {}, [](const auto& a) { return std::pair(a.first, a.second.begin); });
  for (const auto& [link, state] : states_) only_states_.push_back(state);
}

std::vector<uint32_t> PageEvents::changed_links() const {
  std::vector<uint32_t> links;
  for (const LinkEvent& event : input_.prediction.events) links.push_back(index(event.link));
  std::ranges::sort(links);
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

std::span<const LinkState> PageEvents::states(uint32_t link) const {
  const auto before = [](const auto& state, uint32_t of) { return state.first < of; };
  const auto after = [](uint32_t of, const auto& state) { return of < state.first; };
  const auto first = std::lower_bound(states_.begin(), states_.end(), link, before);
  const auto last = std::upper_bound(first, states_.end(), link, after);
  return std::span(only_states_)
      .subspan(static_cast<size_t>(first - states_.begin()), static_cast<size_t>(last - first));
}

std::vector<LinkState> PageEvents::down(std::span<const uint32_t> links) const {
  std::vector<LinkState> all, apart;
  for (const uint32_t link : links) {
    for (const LinkState& state : states(link)) {
      if (state.bandwidth == Bandwidth()) all.push_back(state);
    }
  }
  std::ranges::sort(all, {}, &LinkState::begin);
  for (const LinkState& state : all) {
    if (apart.empty() || apart.back().end < state.begin) {
      apart.push_back(state);
    } else {
      apart.back().end = std::max(apart.back().end, state.end);
    }
  }
  return apart;
}

}  // namespace banyan::predict::report
