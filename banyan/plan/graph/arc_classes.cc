#include "banyan/plan/graph/arc_classes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "banyan/fabric/disjoint_sets.h"
#include "banyan/plan/graph/network_symmetry.h"

namespace banyan::plan {
namespace {

// Numbers the sets in the order of their first members.
void number(fabric::DisjointSets<> sets, size_t count, std::vector<uint32_t>& of, std::vector<int64_t>& sizes) {
  constexpr uint32_t kNew = UINT32_MAX;
  std::vector<uint32_t> number_of(count, kNew);
  for (uint32_t v = 0; v < count; ++v) {
    uint32_t& id = number_of[sets.find(v)];
    if (id == kNew) {
      id = static_cast<uint32_t>(sizes.size());
      sizes.push_back(0);
    }
    of.push_back(id);
    ++sizes[id];
  }
}

// Parallel arcs of one bandwidth, by their ends.
using Bundle = std::tuple<uint32_t, uint32_t, int64_t>;
using Bundles = std::map<Bundle, std::vector<uint32_t>>;

Bundles bundles_of(const Network& network) {
  Bundles bundles;
  for (uint32_t a = 0; a < network.arcs().size(); ++a) {
    bundles[{network.arcs()[a].tail, network.arcs()[a].head, network.bandwidths()[a]}].push_back(a);
  }
  return bundles;
}

}  // namespace

ArcClasses::ArcClasses(const Network& network, const Fabric& fabric) {
  const Bundles bundles = bundles_of(network);
  fabric::DisjointSets<> arcs(network.arcs().size()), vertices(network.vertex_count());
  bool symmetric = std::ranges::all_of(fabric.nodes(), [](const Node& node) { return node.multicast == node.reduce; });
  for (const auto& [bundle, members] : bundles) {
    for (const uint32_t a : members) arcs.join(a, members.front());
    const auto back = bundles.find({std::get<1>(bundle), std::get<0>(bundle), std::get<2>(bundle)});
    symmetric = symmetric && back != bundles.end() && back->second.size() == members.size();
  }
  const std::optional<NetworkSymmetry> declared = NetworkSymmetry::of(network, fabric);
  for (size_t g = 0; declared && g < declared->generators(); ++g) {
    for (uint32_t v = 0; v < network.vertex_count(); ++v) vertices.join(v, declared->vertex(g, v));
    for (uint32_t a = 0; a < network.arcs().size(); ++a) arcs.join(a, declared->arc(g, a));
  }
  number(std::move(arcs), network.arcs().size(), of_arc_, arc_sizes_);
  number(std::move(vertices), network.vertex_count(), of_vertex_, vertex_sizes_);
  if (!symmetric) return;
  opposite_.resize(arc_sizes_.size());
  opposite_arc_.resize(of_arc_.size());
  for (const auto& [bundle, members] : bundles) {
    const auto& [tail, head, bandwidth] = bundle;
    const std::vector<uint32_t>& back = bundles.at({head, tail, bandwidth});
    for (size_t i = 0; i < members.size(); ++i) opposite_arc_[members[i]] = back[i];
    opposite_[of_arc_[members.front()]] = of_arc_[back.front()];
  }
}

ArcClasses ArcClasses::alone(const Network& network) {
  ArcClasses classes;
  classes.of_arc_.resize(network.arcs().size());
  classes.of_vertex_.resize(network.vertex_count());
  std::iota(classes.of_arc_.begin(), classes.of_arc_.end(), 0u);
  std::iota(classes.of_vertex_.begin(), classes.of_vertex_.end(), 0u);
  classes.arc_sizes_.assign(network.arcs().size(), 1);
  classes.vertex_sizes_.assign(network.vertex_count(), 1);
  return classes;
}

}  // namespace banyan::plan
