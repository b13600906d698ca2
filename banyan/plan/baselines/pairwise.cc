#include "banyan/plan/baselines/pairwise.h"

#include <map>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/fabric/routing.h"

namespace banyan::plan {
namespace {

// Ways through ranks are spread like those of a network that picks one by the ends of a flow.
constexpr uint64_t kSalt = 0;

class PairwisePlanner {
 public:
  PairwisePlanner(const Fabric& fabric, const Collective& collective)
      : fabric_(fabric), routing_(fabric), takes_part_(fabric.nodes().size(), false), builder_(fabric, collective) {
    for (const NodeId id : collective.participants()) takes_part_[index(id)] = true;
  }

  void add(NodeId from, NodeId to, uint64_t units) {
    way_.clear();
    if (!routing_.find_first(from, to, way_)) routing_.find(from, to, kSalt, way_);
    hops_.clear();
    for (size_t begin = 0, end = 0; begin < way_.size(); begin = end) {
      do ++end;
      while (!fabric_.is_rank(fabric_.link(way_[end - 1]).to));
      const NodeId stop = fabric_.link(way_[end - 1]).to;
      if (!takes_part_[index(stop)]) {
        throw Error(ErrorCode::unsupported, "the shortest way from " + fabric_.name(from) + " to " + fabric_.name(to) +
                                                " passes through " + fabric_.name(stop) + ", which does not take part");
      }
      hops_.push_back(route(std::span(way_).subspan(begin, end - begin)));
    }
    builder_.add_chunk({.root = from, .units = units, .out_tree = hops_});
  }
  Schedule finish() && { return std::move(builder_).build(); }

 private:
  RouteId route(std::span<const LinkId> links) {
    const auto [known, is_new] = routes_.try_emplace(std::vector<LinkId>(links.begin(), links.end()));
    if (is_new) known->second = builder_.add_route(links);
    return known->second;
  }

  const Fabric& fabric_;
  fabric::Routing routing_;
  std::vector<bool> takes_part_;
  Schedule::Builder builder_;
  std::map<std::vector<LinkId>, RouteId> routes_;
  std::vector<LinkId> way_;
  std::vector<RouteId> hops_;
};

}  // namespace

Schedule plan_pairwise(const Fabric& fabric, const Collective& collective) {
  CHECK(collective.is_personal()) << to_string(collective.kind());
  PairwisePlanner planner(fabric, collective);
  const auto ranks = collective.participants();
  for (size_t distance = 1; distance < ranks.size(); ++distance) {
    for (size_t from = 0; from < ranks.size(); ++from) {
      const size_t to = (from + distance) % ranks.size();
      if (collective.traffic(from, to) > 0) planner.add(ranks[from], ranks[to], collective.traffic(from, to));
    }
  }
  return std::move(planner).finish();
}

}  // namespace banyan::plan
