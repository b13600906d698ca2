#include "banyan/plan/graph/network_symmetry.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace banyan::plan {
namespace {

constexpr uint32_t kNowhere = UINT32_MAX;

// Parallel arcs are told apart by their ordinal in the order of bandwidth, so that every element of the group maps them
// one to one.
struct ArcPlaces {
  explicit ArcPlaces(const Network& network) : ordinal(network.arcs().size(), 0) {
    std::vector<uint32_t> by_bandwidth(network.arcs().size());
    std::iota(by_bandwidth.begin(), by_bandwidth.end(), 0u);
    std::ranges::stable_sort(by_bandwidth, {}, [&](uint32_t a) { return network.bandwidths()[a]; });
    for (const uint32_t a : by_bandwidth) {
      const Arc& arc = network.arcs()[a];
      while (!arc_at.try_emplace(key(arc.tail, arc.head, ordinal[a]), a).second) ++ordinal[a];
    }
  }

  static uint64_t key(uint32_t tail, uint32_t head, uint32_t ordinal) {
    return (uint64_t{tail} << 44) ^ (uint64_t{head} << 24) ^ ordinal;  // at most 10^6 nodes, below 2^20
  }

  std::unordered_map<uint64_t, uint32_t> arc_at;
  std::vector<uint32_t> ordinal;
};

}  // namespace

NetworkSymmetry::NetworkSymmetry(const Network& network) : terminal_count_(network.participant_count()) {
  find_orbits(network.arcs().size());
}

std::optional<NetworkSymmetry> NetworkSymmetry::of(const Network& network, const Fabric& fabric) {
  if (fabric.symmetries().empty()) return std::nullopt;
  NetworkSymmetry symmetry(network);
  std::vector<uint32_t> vertex_of(fabric.nodes().size(), kNowhere);
  for (uint32_t v = 0; v < network.vertex_count(); ++v) vertex_of[index(network.node_of(v))] = v;
  const ArcPlaces places(network);
  for (const fabric::Permutation& generator : fabric.symmetries()) {
    std::vector<uint32_t> vertices, arcs;
    for (uint32_t v = 0; v < network.vertex_count(); ++v) {
      vertices.push_back(vertex_of[index(generator[index(network.node_of(v))])]);
      if (vertices.back() == kNowhere) return std::nullopt;
    }
    for (uint32_t a = 0; a < network.arcs().size(); ++a) {
      const Arc& arc = network.arcs()[a];
      const auto at = places.arc_at.find(ArcPlaces::key(vertices[arc.tail], vertices[arc.head], places.ordinal[a]));
      if (at == places.arc_at.end()) return std::nullopt;
      arcs.push_back(at->second);
    }
    symmetry.vertices_.push_back(std::move(vertices));
    symmetry.arcs_.push_back(std::move(arcs));
  }
  symmetry.find_orbits(network.arcs().size());
  return symmetry;
}

void NetworkSymmetry::find_orbits(size_t arcs) {
  order_ = 0;
  for_orbit(0, [&](uint32_t, size_t, size_t) { ++order_; });  // as many as there are images of any terminal
  arc_orbit_.assign(arcs, kNowhere);
  arc_orbit_weight_.clear();
  std::vector<uint32_t> orbit;
  for (uint32_t start = 0; start < arcs; ++start) {
    if (arc_orbit_[start] != kNowhere) continue;
    const uint32_t id = static_cast<uint32_t>(arc_orbit_weight_.size());
    arc_orbit_[start] = id;
    orbit.assign(1, start);
    for (size_t i = 0; i < orbit.size(); ++i) {
      for (const auto& image : arcs_) {
        uint32_t& of = arc_orbit_[image[orbit[i]]];
        if (of == kNowhere) orbit.push_back(image[orbit[i]]);
        of = id;
      }
    }
    arc_orbit_weight_.push_back(order_ / static_cast<int64_t>(orbit.size()));
  }
}

std::vector<uint32_t> NetworkSymmetry::representatives() const {
  std::vector<uint32_t> firsts;
  std::vector<uint8_t> known(terminal_count_, 0);
  for (uint32_t t = 0; t < terminal_count_; ++t) {
    if (known[t]) continue;
    firsts.push_back(t);
    for_orbit(t, [&](uint32_t image, size_t, size_t) { known[image] = 1; });
  }
  return firsts;
}

}  // namespace banyan::plan
