// The integer graph that bounds and packings are computed on: the participants and switches of a fabric, nothing else.
//
// Vertices 0 .. participant_count()-1 are the participants in collective order, then the switches. Ranks that do not
// take part are gone with their links. Bandwidths are divided by their common divisor. With `reversed`, every arc is
// turned round, so that gathering on the fabric is spreading here; an arc still names the link that it came from.
//
// The terminals are what trees span: the participants, and after them the switches that are named as terminals. Trees
// may branch there, so they must have the power to multicast, or, reversed, to reduce.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/fabric/fabric.h"
#include "banyan/fabric/rows.h"
#include "banyan/plan/graph/plan_observer.h"
#include "banyan/schedule/collective.h"

namespace banyan::plan {

struct Arc {
  uint32_t tail = 0, head = 0;
  LinkId link{};
};

class Network {
 public:
  // `observer`, if any, hears works_on() before every flow in this network and its parts.
  Network(const Fabric& fabric, const Collective& collective, bool reversed, PlanObserver* observer = nullptr,
          std::span<const NodeId> switch_terminals = {});
  // The part of a network between some of its vertices, given in ascending order. Arcs keep their order.
  Network(const Network& whole, std::span<const uint32_t> vertices);
  // The same vertices with these bandwidths, by arc, whose unit counts as one byte per second; arcs of none are gone.
  Network with_bandwidths(std::span<const int64_t> bandwidths) const;

  uint32_t vertex_count() const { return static_cast<uint32_t>(node_of_.size()); }
  uint32_t terminal_count() const { return terminal_count_; }
  bool is_terminal(uint32_t vertex) const { return vertex < terminal_count_; }
  uint32_t participant_count() const { return participant_count_; }
  bool is_participant(uint32_t vertex) const { return vertex < participant_count_; }
  NodeId node_of(uint32_t vertex) const { return node_of_[vertex]; }

  std::span<const Arc> arcs() const { return arcs_; }
  std::span<const int64_t> bandwidths() const { return bandwidths_; }  // in units of unit()
  uint64_t unit() const { return unit_; }                              // bytes per second
  std::span<const uint32_t> out_arcs(uint32_t vertex) const { return out_arcs_[vertex]; }
  std::span<const uint32_t> in_arcs(uint32_t vertex) const { return in_arcs_[vertex]; }
  // Terminals in breadth-first order from the first: neighbours come soon after each other.
  std::span<const uint32_t> terminals_nearby() const { return nearby_; }

  // The vertices that paths from some of these lead to, these among them, by hops.
  std::vector<uint32_t> reached_from(std::vector<uint32_t> starts, bool backwards = false) const;

  void tell_observer() const {
    if (observer_) observer_->works_on();
  }

 private:
  void index_arcs();
  void order_terminals();

  uint32_t participant_count_ = 0, terminal_count_ = 0;
  uint64_t unit_ = 0;
  PlanObserver* observer_ = nullptr;
  std::vector<NodeId> node_of_;
  std::vector<Arc> arcs_;
  std::vector<int64_t> bandwidths_;
  fabric::Rows<uint32_t> out_arcs_, in_arcs_;  // by vertex
  std::vector<uint32_t> nearby_;
};

}  // namespace banyan::plan
