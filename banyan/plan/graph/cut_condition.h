// The cut condition: whether the trees that are still owed can be packed into the capacity that is left.
//
// Every terminal t still owes supply(t) trees rooted at it, and one tree that is being grown, with multiplicity
// batch.units, owes the terminals outside its members. With D the sum of all that is owed, the packing exists exactly
// when every vertex set X that holds a terminal satisfies
//
//     capacity entering X  +  supply in X  +  (batch.units if the batch has a member in X)   >=   D
//
// (Edmonds 1973 for one set of roots; Bérczi and Frank 2010 for growing batches; Bang-Jensen, Frank, Jackson 1995 for
// switches, whose entering capacity must equal their leaving capacity). Max-flow finds X for each terminal as a minimum
// cut from a source that feeds the supplies and the batch.
//
// One call costs a flow per terminal, but terminals that have passed become sources for the later ones: a cut through
// them has been excluded already, so later searches end a hop or two away. Flows stop at D.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "banyan/plan/graph/network.h"

namespace banyan::plan {

using VertexSet = std::vector<uint8_t>;  // membership by vertex, 0 or 1

class CutCondition {
 public:
  struct State {
    std::span<const int64_t> capacity;  // by arc, >= 0
    std::span<const int64_t> supply;    // by terminal, >= 0
    struct Batch {
      std::span<const uint8_t> members;  // by vertex, only terminals are looked at
      int64_t units = 0;
    };
    std::optional<Batch> batch = {};
  };

  explicit CutCondition(const Network& network) : CutCondition(network, network.arcs()) {}
  // The vertices of `network` with these arcs instead of its own.
  CutCondition(const Network& network, std::span<const Arc> arcs);

  // A set X that violates the condition, or nothing when it holds. `on_tight`, when given, hears of sets met on the way
  // that hold with equality: no tree may ever enter one of them more often than it must.
  std::optional<VertexSet> find_violated(const State& state,
                                         const std::function<void(const VertexSet&)>& on_tight = {});

  // For every one of these terminals whose flow falls short a violated set that holds it. Terminals that pass are not
  // looked behind, as above; `batch` is left out.
  void each_violated(const State& state, std::span<const uint32_t> sinks,
                     const std::function<void(const VertexSet&)>& violated);

  uint64_t work() const { return work_; }  // arcs looked at so far, over all calls

  // Newton's walk: calls `violated(X)` for sets that violate the condition until it holds for all. The callback must
  // raise the capacities or lower the demand behind `state` so that X is satisfied, and may only ever relax the
  // condition.
  void repair(const State& state, const std::function<void(const VertexSet&)>& violated);

 private:
  struct HalfArc {  // one way of using an arc when walking from a sink backwards
    uint32_t arc;
    uint32_t to;
    bool forward;  // enters the vertex: uses capacity left; else gives back flow
  };

  void load(const State& state);
  bool reaches(uint32_t sink, int64_t demand);  // leaves level_ >= 0 on the vertices that can still reach the sink
  bool label(uint32_t sink);
  int64_t draw(uint32_t vertex, int64_t want);
  int64_t pull(uint32_t vertex, int64_t want);
  int64_t pull_greedily(uint32_t vertex, int64_t want, uint32_t depth);
  int64_t residual(const HalfArc& half) const;
  VertexSet sink_side() const;

  const Network& network_;
  size_t arc_count_;
  uint32_t batch_vertex_;
  std::vector<uint32_t> half_start_;
  std::vector<HalfArc> halves_;
  std::vector<int64_t> capacity_, flow_, supply_, drawn_;
  std::vector<uint8_t> is_source_;
  std::vector<int32_t> level_;
  std::vector<uint32_t> next_, queue_, touched_, drawn_from_;
  std::vector<uint64_t> visited_;
  uint64_t stamp_ = 0, work_ = 0;
  bool searched_ = false;  // whether the last reaches() needed a flow at all
};

}  // namespace banyan::plan
