// The symmetries that a fabric declares, as they act on a network: what they make alike.
//
// A fabric may declare generators of a group of automorphisms that keeps no rank in place (Fabric::symmetries). If the
// group keeps the participants, terminals and arcs fall into orbits; those of terminals are all as large as the group.
// Whatever is planned for one terminal of an orbit stands for its images, one for each element of the group, and these
// load every arc of an orbit alike: a load x of an arc becomes x * order() / (size of the arc's orbit) on each.
//
// The group is never listed: orbits follow from generators. O(generators * (vertices + arcs)).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/fabric/fabric.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

class NetworkSymmetry {
 public:
  // Without generators: everything is alike to itself only.
  explicit NetworkSymmetry(const Network& network);
  // Nothing when the fabric declares no symmetry, or the group does not keep the participants and arcs. The network is
  // of this fabric.
  static std::optional<NetworkSymmetry> of(const Network& network, const Fabric& fabric);

  size_t generators() const { return vertices_.size(); }
  int64_t order() const { return order_; }  // elements of the group
  uint32_t vertex(size_t generator, uint32_t v) const { return vertices_[generator][v]; }
  uint32_t arc(size_t generator, uint32_t a) const { return arcs_[generator][a]; }

  // The orbit of each arc, and by orbit how many elements of the group take one arc of it to another.
  uint32_t arc_orbit(uint32_t a) const { return arc_orbit_[a]; }
  std::span<const int64_t> arc_orbit_weights() const { return arc_orbit_weight_; }

  // A terminal of an orbit is the image, by a generator, of the terminal visited as number `from`; kFirst for the first
  // one, which is the image of none.
  static constexpr size_t kFirst = SIZE_MAX;
  // Calls visit(terminal, from, generator) for the terminals of the orbit of `first`, beginning with itself.
  template <typename Visit>
  void for_orbit(uint32_t first, const Visit& visit) const {
    std::vector<uint8_t> seen(terminal_count_, 0);
    std::vector<uint32_t> orbit{first};
    seen[first] = 1;
    visit(first, kFirst, size_t{0});
    for (size_t i = 0; i < orbit.size(); ++i) {
      for (size_t g = 0; g < generators(); ++g) {
        const uint32_t next = vertex(g, orbit[i]);
        if (seen[next]) continue;
        seen[next] = 1;
        orbit.push_back(next);
        visit(next, i, g);
      }
    }
  }
  // The first terminal of every orbit.
  std::vector<uint32_t> representatives() const;

 private:
  void find_orbits(size_t arcs);

  uint32_t terminal_count_ = 0;
  std::vector<std::vector<uint32_t>> vertices_, arcs_;  // by generator
  std::vector<uint32_t> arc_orbit_;
  std::vector<int64_t> arc_orbit_weight_;
  int64_t order_ = 1;
};

}  // namespace banyan::plan
