// Chooses the trees of an old plan that stay, and the least time in which the rest can still be packed.
//
// Trees that stay take capacity away. The capacity that is left must satisfy the cut condition for what the others owe
// (plan/graph/cut_condition.h), and then they can be packed anew. If a cut is violated, one of the trees that stay
// enters it more often than it must, since the condition holds without any: such trees are dropped, those that relieve
// the cut best, until it holds. Trees that turn out to have been dropped in vain come back one by one, if they are not
// too many.
//
// The choice is greedy: all trees that can stay are there at first, and they are dropped as above, for the longest time
// that is allowed. More of them might stay by another choice. The least time for those chosen is exact: Newton's
// iteration, cut by cut. Cost: a check (a flow for each terminal) for each violated cut, and for each of up to 256
// dropped trees that are tried again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/plan/graph/cut_condition.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {

// The capacities of arcs in a time: floor(time * rate) units.
struct ArcCapacities {
  std::vector<int64_t> rates;  // by arc
  int64_t most = INT64_MAX;    // no arc ever carries more

  int64_t at(uint32_t arc, const Fraction& time) const;
  std::vector<int64_t> at(const Fraction& time) const;
};

class TreeKeeper {
 public:
  struct Tree {
    uint32_t root = 0;  // terminal
    int64_t units = 0;
    std::vector<uint32_t> arcs = {};  // every arc, as often as the tree crosses it
    bool can_stay = false;            // all of its links are there
  };

  // `supply`: what each terminal roots, trees that stay included. All of it outlives the keeper.
  TreeKeeper(const Network& network, const ArcCapacities& capacities, std::span<const int64_t> supply,
             std::span<const Tree> trees);

  // The least time in which everything can be packed, if no tree need stay. From `start` upwards.
  Fraction least_time_of_none(const Fraction& start);

  // Chooses trees that stay in `most_time`, which must be at least least_time_of_none().
  void choose(const Fraction& most_time);
  // The least time for those that were chosen, from `start` upwards.
  Fraction least_time(const Fraction& start);
  void drop_all();

  const std::vector<uint8_t>& stays() const { return stays_; }  // by tree
  // The capacity left for the other trees at `time`, and the units that they owe.
  std::vector<int64_t> capacity_left(const Fraction& time) const;
  const std::vector<int64_t>& supply_left() const { return supply_left_; }

 private:
  void put(size_t tree, bool stays);
  void drop_from_overloaded_arcs(const std::vector<int64_t>& capacity);
  void drop_from(const VertexSet& cut, const std::vector<int64_t>& capacity);
  void try_again(const std::vector<int64_t>& capacity);
  std::optional<VertexSet> find_violated(const std::vector<int64_t>& capacity);
  int64_t overdraft(const Tree& tree, const VertexSet& cut) const;
  bool enters(uint32_t arc, const VertexSet& cut) const {
    return cut[network_.arcs()[arc].head] && !cut[network_.arcs()[arc].tail];
  }
  int64_t supply_outside(const VertexSet& cut) const;
  Fraction time_for(const VertexSet& cut) const;

  const Network& network_;
  const ArcCapacities& capacities_;
  const std::span<const Tree> trees_;
  CutCondition condition_;
  std::vector<uint8_t> stays_;
  std::vector<int64_t> load_, supply_left_;  // load_: of the trees that stay, by arc
};

}  // namespace banyan::plan
