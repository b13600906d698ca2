#include "banyan/plan/forest/symmetry.h"

#include <algorithm>

namespace banyan::plan {

std::optional<Symmetry> Symmetry::of(const Network& network, const Fabric& fabric, std::span<const int64_t> capacity,
                                     std::span<const int64_t> supply) {
  const std::optional<NetworkSymmetry> declared = NetworkSymmetry::of(network, fabric);
  if (!declared) return std::nullopt;
  Symmetry symmetry;
  symmetry.vertices_ = network.vertex_count();
  symmetry.take_generators(*declared, network.arcs().size());
  // The problem must share all of the symmetry, or images of a tree would not be trees of it.
  if (!symmetry.fits(network, capacity, supply)) return std::nullopt;
  symmetry.find_elements(network.participant_count());
  const std::span<const int64_t> weights = declared->arc_orbit_weights();
  symmetry.classes_.weight.assign(weights.begin(), weights.end());
  for (uint32_t a = 0; a < network.arcs().size(); ++a) symmetry.classes_.of.push_back(declared->arc_orbit(a));
  return symmetry;
}

void Symmetry::take_generators(const NetworkSymmetry& declared, size_t arcs) {
  for (size_t g = 0; g < declared.generators(); ++g) {
    // A generator permutes all points, vertices and arcs. Its inverse serves bring_home().
    std::vector<uint32_t> image, inverse(vertices_ + arcs);
    image.reserve(inverse.size());
    for (uint32_t v = 0; v < vertices_; ++v) image.push_back(declared.vertex(g, v));
    for (uint32_t a = 0; a < arcs; ++a) image.push_back(point_of_arc(declared.arc(g, a)));
    for (uint32_t point = 0; point < image.size(); ++point) inverse[image[point]] = point;
    image_.push_back(std::move(image));
    inverse_.push_back(std::move(inverse));
  }
}

bool Symmetry::fits(const Network& network, std::span<const int64_t> capacity, std::span<const int64_t> supply) const {
  return std::ranges::all_of(image_, [&](const std::vector<uint32_t>& image) {
    // Generators are enough: a problem that all generators keep is kept by the whole group.
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
  // An element is known by where it takes participant 0, so the orbit of 0, found breadth first by generators, lists
  // them.
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
  // Other orbits follow the same elements, each image from that of the element it comes from. Participant 0 was done
  // above but for its place among the representatives.
  for (uint32_t t = 0; t < participants; ++t) {
    if (t > 0 && element_of_[t] != kNone) continue;
    representatives_.push_back(t);
    orbit.assign(order(), t);
    for (uint32_t e = 0; e < order(); ++e) {
      if (e > 0) orbit[e] = image_[by_[e]][orbit[from_[e]]];
      element_of_[orbit[e]] = e;
    }
  }
  // An element's successors, with the one that has most behind it last: descend() needs that for its memory.
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
  // An element is its generators in turn; their inverses undo it from the last one back.
  for (uint32_t e = element_of_[participant]; e != 0; e = from_[e]) {
    for (uint32_t& a : arcs) a = arc_of_point(inverse_[by_[e]][point_of_arc(a)]);
  }
}

}  // namespace banyan::plan
