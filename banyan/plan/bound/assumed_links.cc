#include "banyan/plan/bound/assumed_links.h"

#include <algorithm>
#include <set>
#include <utility>

#include "banyan/plan/bound/cuts_witness.h"
#include "banyan/plan/bound/narrowest_cut.h"

namespace banyan::plan {
namespace {

constexpr size_t kMostPairsTold = 2;

// What the proof rests on.
struct LinksOf {
  const Fabric& fabric;
  const Collective& collective;

  std::vector<LinkId> operator()(const CutWitness& proof) const { return links_of_cut(proof, fabric, collective); }
  std::vector<LinkId> operator()(const CutsWitness& proof) const { return links_of_cuts(proof, fabric, collective); }
  std::vector<LinkId> operator()(const LinkLengths& proof) const {
    std::vector<LinkId> links;
    for (uint32_t number = 0; number < proof.length.size(); ++number) {
      if (proof.length[number] > 0) links.push_back(LinkId{number});
    }
    return links;
  }
};

}  // namespace

std::vector<LinkId> assumed_links(const Witness& witness, const Fabric& fabric, const Collective& collective) {
  const bool any = std::ranges::any_of(fabric.links(), [](const Link& link) { return link.assumed; });
  if (!any) return {};
  std::vector<LinkId> links = std::visit(LinksOf{fabric, collective}, witness);
  std::erase_if(links, [&](LinkId id) { return !fabric.link(id).assumed; });
  std::ranges::sort(links);
  return links;
}

std::string describe_assumed(const std::vector<LinkId>& links, const Fabric& fabric) {
  std::set<std::pair<NodeId, NodeId>> pairs;
  std::string text;
  for (const LinkId id : links) {
    const Link& link = fabric.link(id);
    if (!pairs.insert(std::minmax(link.from, link.to)).second || pairs.size() > kMostPairsTold) continue;
    const auto [a, b] = std::minmax(link.from, link.to);
    text +=
        (text.empty() ? "" : ", ") + fabric.name(a) + "-" + fabric.name(b) + " (" + link.bandwidth.to_string() + ")";
  }
  if (pairs.size() > kMostPairsTold) text += " and " + std::to_string(pairs.size() - kMostPairsTold) + " more";
  return text;
}

}  // namespace banyan::plan
