#include "banyan/plan/repair/link_match.h"

#include <algorithm>
#include <map>
#include <utility>

namespace banyan::plan {
namespace {

using Ends = std::pair<std::string, std::string>;

std::map<Ends, std::vector<LinkId>> links_by_ends(const Fabric& fabric) {
  std::map<Ends, std::vector<LinkId>> result;
  for (uint32_t l = 0; l < fabric.links().size(); ++l) {
    const Link& link = fabric.link(LinkId{l});
    result[{fabric.name(link.from), fabric.name(link.to)}].push_back(LinkId{l});
  }
  return result;
}

// Matches the links from one node to another. What is left in `news` afterwards has no counterpart.
void match_parallel(const Fabric& before, const Fabric& after, const std::vector<LinkId>& olds,
                    std::vector<LinkId>& news, LinkMatch& match) {
  const auto take = [&](LinkId old, auto place) {
    match.now[index(old)] = *place;
    news.erase(place);
  };
  // Links of equal bandwidth are the same ones, in the order of their numbers.
  for (const LinkId old : olds) {
    const auto equal = std::ranges::find_if(
        news, [&](LinkId link) { return after.link(link).bandwidth == before.link(old).bandwidth; });
    if (equal != news.end()) take(old, equal);
  }
  // The rest became slower or faster.
  for (const LinkId old : olds) {
    if (!match.now[index(old)] && !news.empty()) take(old, news.begin());
  }
}

}  // namespace

LinkMatch match_links(const Fabric& before, const Fabric& after) {
  LinkMatch match{.now = std::vector<std::optional<LinkId>>(before.links().size()), .changes = {}};
  // Links are matched by the names of their ends. Those of the new fabric that find no match have been added.
  auto news = links_by_ends(after);
  for (const auto& [ends, olds] : links_by_ends(before)) match_parallel(before, after, olds, news[ends], match);
  const auto change = [&](const Fabric& fabric, LinkId id) {
    const Link& link = fabric.link(id);
    return LinkChange{.from = fabric.name(link.from), .to = fabric.name(link.to)};
  };
  for (uint32_t l = 0; l < match.now.size(); ++l) {
    const Bandwidth was = before.link(LinkId{l}).bandwidth;
    const std::optional<LinkId> now = match.now[l];
    if (now && after.link(*now).bandwidth == was) continue;
    match.changes.push_back(change(before, LinkId{l}));
    match.changes.back().before = was;
    if (now) match.changes.back().after = after.link(*now).bandwidth;
  }
  std::vector<LinkId> added;
  for (const auto& [ends, left] : news) added.insert(added.end(), left.begin(), left.end());
  std::ranges::sort(added);
  for (const LinkId id : added) {
    match.changes.push_back(change(after, id));
    match.changes.back().after = after.link(id).bandwidth;
  }
  return match;
}

}  // namespace banyan::plan
