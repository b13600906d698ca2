#include "banyan/fabric/shortest_paths.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "banyan/fabric/cables.h"

namespace banyan::fabric {

void ShortestPaths::search(NodeId to, Rules rules) {
  for (const NodeId node : found_) hops_[index(node)] = kFar;
  rules_ = std::move(rules);
  found_.assign(1, to);
  hops_[index(to)] = 0;
  for (size_t i = 0; i < found_.size(); ++i) {
    const NodeId node = found_[i];
    if (hops_[index(node)] >= rules_.most_hops) return;
    if (!may_pass(node)) continue;
    for (const LinkId link : fabric_.in_links(node)) {
      const NodeId before = fabric_.link(link).from;
      if (hops_[index(before)] != kFar || (rules_.crosses && !rules_.crosses(link))) continue;
      hops_[index(before)] = hops_[index(node)] + 1;
      found_.push_back(before);
      if (rules_.ends_search && rules_.ends_search(before)) return;
    }
  }
}

bool ShortestPaths::leads_on(LinkId link) const {
  const Link& ends = fabric_.link(link);
  const uint32_t after = hops_[index(ends.to)];
  return after != kFar && after + 1 == hops_[index(ends.from)] && may_pass(ends.to) &&
         (!rules_.crosses || rules_.crosses(link));
}

std::vector<std::vector<LinkId>> ShortestPaths::links_from(NodeId from) const {
  std::vector<std::vector<LinkId>> links;
  if (hops(from) == kFar) return links;
  std::set<NodeId> level{from};
  while (*level.begin() != found_.front()) {
    std::vector<LinkId>& crossed = links.emplace_back();
    for (const NodeId node : std::exchange(level, {})) {
      for (const LinkId link : fabric_.out_links(node)) {
        if (!leads_on(link)) continue;
        crossed.push_back(link);
        level.insert(fabric_.link(link).to);
      }
    }
  }
  return links;
}

PathLinks links_between(const Fabric& fabric, const std::string& from, const std::string& to,
                        const std::vector<uint32_t>& cables) {
  PathLinks path;
  const std::optional<NodeId> start = fabric.find(from), end = fabric.find(to);
  if (!start || !end) return path;
  const Cables known(fabric);
  const auto crosses = [&](LinkId link) {
    return cables.empty() || std::find(cables.begin(), cables.end(), known.of(link)) != cables.end();
  };
  ShortestPaths paths(fabric);
  for (const bool through_ranks : {false, true}) {
    paths.search(*end, {.through_ranks = through_ranks, .crosses = crosses});
    if (paths.hops(*start) != ShortestPaths::kFar) break;
  }
  for (const std::vector<LinkId>& crossed : paths.links_from(*start)) {
    path.is_whole &= crossed.size() == 1;
    if (crossed.size() == 1) path.links.push_back(index(crossed.front()));
  }
  return path;
}

std::vector<LinkAmong> links_among(const Fabric& fabric, const std::vector<std::string>& ranks) {
  std::map<uint32_t, std::pair<std::set<uint32_t>, std::set<uint32_t>>> ends;  // by link
  ShortestPaths by_switches(fabric), by_ranks(fabric);
  for (uint32_t to = 0; to < ranks.size(); ++to) {
    const std::optional<NodeId> end = fabric.find(ranks[to]);
    if (!end) continue;
    by_switches.search(*end, {});
    bool knows_by_ranks = false;
    for (uint32_t from = 0; from < ranks.size(); ++from) {
      const std::optional<NodeId> start = fabric.find(ranks[from]);
      if (!start || *start == *end) continue;
      const bool through_ranks = by_switches.hops(*start) == ShortestPaths::kFar;
      if (through_ranks && !std::exchange(knows_by_ranks, true)) by_ranks.search(*end, {.through_ranks = true});
      for (const std::vector<LinkId>& crossed : (through_ranks ? by_ranks : by_switches).links_from(*start)) {
        for (const LinkId link : crossed) {
          ends[index(link)].first.insert(from);
          ends[index(link)].second.insert(to);
        }
      }
    }
  }
  std::vector<LinkAmong> among;
  for (const auto& [link, both] : ends) {
    among.push_back(
        {.link = link, .from = {both.first.begin(), both.first.end()}, .to = {both.second.begin(), both.second.end()}});
  }
  return among;
}

}  // namespace banyan::fabric
