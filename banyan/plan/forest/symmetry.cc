#include "banyan/plan/forest/symmetry.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace banyan::plan {
namespace {

// Where an arc is to be found. Parallel arcs are told apart by their ordinal in the order of bandwidth, so that every
// element maps them one to one.
struct Places {
  std::unordered_map<uint64_t, uint32_t> arc_at;
  std::vector<uint32_t> ordinal;
};

uint64_t place(uint32_t tail, uint32_t head, uint32_t ordinal) {
  return (uint64_t{tail} << 44) ^ (uint64_t{head} << 24) ^ ordinal;  // at most 10^6 nodes, below 2^20
}

Places arc_places(const Network& network) {
  Places places{.arc_at = {}, .ordinal = std::vector<uint32_t>(network.arcs().size())};
  std::vector<uint32_t> by_bandwidth(network.arcs().size());
  std::iota(by_bandwidth.begin(), by_bandwidth.end(), 0u);
  std::stable_sort(by_bandwidth.begin(), by_bandwidth.end(),
                   [&](uint32_t a, uint32_t b) { return network.bandwidths()[a] < network.bandwidths()[b]; });
  for (const uint32_t a : by_bandwidth) {
    const Arc& arc = network.arcs()[a];
    while (!places.arc_at.try_emplace(place(arc.tail, arc.head, places.ordinal[a]), a).second) ++places.ordinal[a];
  }
  return places;
}

}  // namespace

std::optional<Symmetry> Symmetry::of(const Network& network, const Fabric& fabric, std::span<const int64_t> capacity,
                                     std::span<const int64_t> supply) {
  if (fabric.symmetries().empty()) return std::nullopt;
  Symmetry symmetry;
  symmetry.vertices_ = network.vertex_count();
  if (!symmetry.add_generators(network, fabric) || !symmetry.fits(network, capacity, supply)) return std::nullopt;
  symmetry.find_elements(network.participant_count());
  symmetry.find_classes(network.arcs().size());
  return symmetry;
}

bool Symmetry::add_generators(const Network& network, const Fabric& fabric) {
  std::vector<uint32_t> vertex_of(fabric.nodes().size(), kNone);
  for (uint32_t v = 0; v < vertices_; ++v) vertex_of[index(network.node_of(v))] = v;
  const Places places = arc_places(network);
  for (const fabric::Permutation& generator : fabric.symmetries()) {
    std::vector<uint32_t> image, inverse(vertices_ + network.arcs().size());
    image.reserve(inverse.size());
    for (uint32_t v = 0; v < vertices_; ++v) {
      image.push_back(vertex_of[index(generator[index(network.node_of(v))])]);
      if (image.back() == kNone) return false;
    }
    for (uint32_t a = 0; a < network.arcs().size(); ++a) {
      const Arc& arc = network.arcs()[a];
      const auto at = places.arc_at.find(place(image[arc.tail], image[arc.head], places.ordinal[a]));
      if (at == places.arc_at.end()) return false;
      image.push_back(point_of_arc(at->second));
    }
    for (uint32_t point = 0; point < image.size(); ++point) inverse[image[point]] = point;
    image_.push_back(std::move(image));
    inverse_.push_back(std::move(inverse));
  }
  return true;
}

bool Symmetry::fits(const Network& network, std::span<const int64_t> capacity, std::span<const int64_t> supply) const {
  return std::ranges::all_of(image_, [&](const std::vector<uint32_t>& image) {
    for (uint32_t t = 0; t < network.terminal_count(); ++t) {
      if (!network.is_terminal(image[t]) || supply[image[t]] != supply[t]) return false;
    }
    for (uint32_t a = 0; a < capacity.size(); ++a) {
      if (capacity[arc_of_point(image[point_of_arc(a)])] != capacity[a]) return false;
    }
    return true;
  });
}

void Symmetry::find_elements(uint32_t participants) {
  element_of_.assign(participants, kNone);
  std::vector<uint32_t> orbit{0};
  from_.assign(1, 0);
  by_.assign(1, 0);
  element_of_[0] = 0;
  for (uint32_t e = 0; e < orbit.size(); ++e) {
    for (uint32_t g = 0; g < image_.size(); ++g) {
      const uint32_t next = image_[g][orbit[e]];
      if (element_of_[next] != kNone) continue;
      element_of_[next] = static_cast<uint32_t>(orbit.size());
      orbit.push_back(next);
      from_.push_back(e);
      by_.push_back(g);
    }
  }
  for (uint32_t t = 0; t < participants; ++t) {
    if (t > 0 && element_of_[t] != kNone) continue;
    representatives_.push_back(t);
    orbit.assign(order(), t);
    for (uint32_t e = 0; e < order(); ++e) {
      if (e > 0) orbit[e] = image_[by_[e]][orbit[from_[e]]];
      element_of_[orbit[e]] = e;
    }
  }
  std::vector<uint32_t> behind(order(), 1);
  leads_to_.resize(order());
  for (uint32_t e = static_cast<uint32_t>(order()) - 1; e > 0; --e) {
    behind[from_[e]] += behind[e];
    leads_to_[from_[e]].push_back(e);
  }
  for (std::vector<uint32_t>& next : leads_to_) {
    std::sort(next.begin(), next.end(),
              [&](uint32_t a, uint32_t b) { return behind[a] != behind[b] ? behind[a] < behind[b] : a < b; });
  }
}

void Symmetry::find_classes(size_t arcs) {
  std::vector<uint32_t> orbit;
  classes_.of.assign(arcs, kNone);
  for (uint32_t start = 0; start < arcs; ++start) {
    if (classes_.of[start] != kNone) continue;
    const uint32_t id = static_cast<uint32_t>(classes_.weight.size());
    classes_.of[start] = id;
    orbit.assign(1, start);
    for (size_t i = 0; i < orbit.size(); ++i) {
      for (const std::vector<uint32_t>& image : image_) {
        const uint32_t next = arc_of_point(image[point_of_arc(orbit[i])]);
        if (classes_.of[next] == kNone) orbit.push_back(next);
        classes_.of[next] = id;
      }
    }
    classes_.weight.push_back(static_cast<int64_t>(order() / orbit.size()));
  }
}

void Symmetry::for_orbit(uint32_t participant, const std::function<void(uint32_t image)>& visit) const {
  const uint32_t points[] = {point_of_vertex(participant)};
  walk(points, [&](Points images) { visit(images[0]); });
}

void Symmetry::walk(Points points, const std::function<void(Points images)>& visit) const {
  std::vector<uint32_t> images(points.begin(), points.end());
  descend(0, images, visit);
}

// Depth first. The images of the element that is led to last take the place of its own, so that those kept meanwhile
// are of elements each of which has at least twice as many behind it as the next: about log2(order()) of them.
void Symmetry::descend(uint32_t element, std::vector<uint32_t>& images,
                       const std::function<void(Points)>& visit) const {
  for (;;) {
    visit(images);
    const std::vector<uint32_t>& next = leads_to_[element];
    if (next.empty()) return;
    for (size_t i = 0; i + 1 < next.size(); ++i) {
      std::vector<uint32_t> moved(images.size());
      const std::vector<uint32_t>& image = image_[by_[next[i]]];
      std::ranges::transform(images, moved.begin(), [&](uint32_t point) { return image[point]; });
      descend(next[i], moved, visit);
    }
    element = next.back();
    const std::vector<uint32_t>& image = image_[by_[element]];
    for (uint32_t& point : images) point = image[point];
  }
}

void Symmetry::bring_home(uint32_t participant, std::vector<uint32_t>& arcs) const {
  for (uint32_t e = element_of_[participant]; e != 0; e = from_[e]) {
    for (uint32_t& a : arcs) a = arc_of_point(inverse_[by_[e]][point_of_arc(a)]);
  }
}

}  // namespace banyan::plan
