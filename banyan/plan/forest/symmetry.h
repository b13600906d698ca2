// Symmetry: the group of automorphisms that a fabric declares (graph/network_symmetry.h), as it acts on a packing
// problem, element by element.
//
// The group is never listed: it is known by its generators. No element but the identity keeps a participant in place
// (Fabric::Builder::add_symmetry), so an element is known by where it takes any one participant, and there are as many
// elements as participants in an orbit. Switches may be kept in place by some.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "banyan/fabric/fabric.h"
#include "banyan/plan/forest/growing_tree.h"
#include "banyan/plan/graph/network.h"
#include "banyan/plan/graph/network_symmetry.h"

namespace banyan::plan {

class Symmetry {
 public:
  // Nothing where the fabric declares none, or the participants, capacities or supplies do not share all of it.
  static std::optional<Symmetry> of(const Network& network, const Fabric& fabric, std::span<const int64_t> capacity,
                                    std::span<const int64_t> supply);

  size_t order() const { return from_.size(); }  // elements of the group
  // The images of an arc; crossing it takes of each as often as elements map it there.
  const GrowingTree::ArcClasses& classes() const { return classes_; }
  // One participant of every orbit of these, the first.
  std::span<const uint32_t> representatives() const { return representatives_; }
  // Calls visit(image) for every participant of an orbit.
  void for_orbit(uint32_t participant, const std::function<void(uint32_t image)>& visit) const;

  // A vertex or an arc, as one number.
  uint32_t point_of_vertex(uint32_t vertex) const { return vertex; }
  uint32_t point_of_arc(uint32_t arc) const { return vertices_ + arc; }
  uint32_t arc_of_point(uint32_t point) const { return point - vertices_; }

  // Calls visit(images) for every element, the identity first, always in the same order: the image of points[i] is
  // images[i]. Cost: elements times points; memory: a few times the points.
  using Points = std::span<const uint32_t>;
  void walk(Points points, const std::function<void(Points images)>& visit) const;

  // Takes the arcs back by the element that takes the representative of the participant's orbit to the participant.
  // Cost: arcs times generators that this element is made of.
  void bring_home(uint32_t participant, std::vector<uint32_t>& arcs) const;

 private:
  void take_generators(const NetworkSymmetry& declared, size_t arcs);
  bool fits(const Network& network, std::span<const int64_t> capacity, std::span<const int64_t> supply) const;
  void find_elements(uint32_t participants);
  void descend(uint32_t element, std::vector<uint32_t>& images, const std::function<void(Points)>& visit) const;

  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t vertices_ = 0;
  std::vector<std::vector<uint32_t>> image_, inverse_;  // by generator and point
  // Elements, numbered breadth first: each but the identity is a generator after the element that it comes from.
  std::vector<uint32_t> from_, by_;                     // by element
  std::vector<std::vector<uint32_t>> leads_to_;         // by element, the one with most elements behind it last
  std::vector<uint32_t> representatives_, element_of_;  // element_of_ by participant: takes its representative to it
  GrowingTree::ArcClasses classes_;
};

}  // namespace banyan::plan
