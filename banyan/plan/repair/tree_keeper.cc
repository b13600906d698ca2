#include "banyan/plan/repair/tree_keeper.h"

#include <algorithm>

#include "banyan/base/check.h"

namespace banyan::plan {
namespace {

// Trees that were dropped are tried again up to this many: each try is a check.
constexpr int kMaxTriedAgain = 256;

}  // namespace

int64_t ArcCapacities::at(uint32_t arc, const Fraction& time) const {
  const Fraction exact = time * Fraction(rates[arc]);
  return static_cast<int64_t>(std::min<int128>(exact.numerator() / exact.denominator(), most));
}

std::vector<int64_t> ArcCapacities::at(const Fraction& time) const {
  std::vector<int64_t> result(rates.size());
  for (uint32_t a = 0; a < result.size(); ++a) result[a] = at(a, time);
  return result;
}

TreeKeeper::TreeKeeper(const Network& network, const ArcCapacities& capacities, std::span<const int64_t> supply,
                       std::span<const Tree> trees)
    : network_(network),
      capacities_(capacities),
      trees_(trees),
      condition_(network),
      stays_(trees.size(), 0),
      load_(network.arcs().size(), 0),
      supply_left_(supply.begin(), supply.end()) {}

void TreeKeeper::put(size_t tree, bool stays) {
  if ((stays_[tree] != 0) == stays) return;
  const int64_t units = stays ? trees_[tree].units : -trees_[tree].units;
  for (const uint32_t a : trees_[tree].arcs) load_[a] += units;
  supply_left_[trees_[tree].root] -= units;
  stays_[tree] = stays ? 1 : 0;
}

void TreeKeeper::drop_all() {
  for (size_t i = 0; i < trees_.size(); ++i) put(i, false);
}

Fraction TreeKeeper::least_time_of_none(const Fraction& start) {
  drop_all();
  return least_time(start);
}

void TreeKeeper::choose(const Fraction& most_time) {
  // All that can stay do so at first. Arcs alone tell of most trees that are too many, without a check.
  const std::vector<int64_t> capacity = capacities_.at(most_time);
  for (size_t i = 0; i < trees_.size(); ++i) put(i, trees_[i].can_stay);
  drop_from_overloaded_arcs(capacity);
  while (const auto violated = find_violated(capacity)) drop_from(*violated, capacity);
  try_again(capacity);
}

std::optional<VertexSet> TreeKeeper::find_violated(const std::vector<int64_t>& capacity) {
  // The others must be packable into what the trees that stay leave.
  std::vector<int64_t> left(capacity.size());
  for (uint32_t a = 0; a < left.size(); ++a) left[a] = capacity[a] - load_[a];
  return condition_.find_violated({.capacity = left, .supply = supply_left_});
}

// Arc by arc, the trees that relieve the most overloaded arcs at once.
void TreeKeeper::drop_from_overloaded_arcs(const std::vector<int64_t>& capacity) {
  std::vector<std::vector<uint32_t>> crossing(capacity.size());
  for (uint32_t i = 0; i < trees_.size(); ++i) {
    if (!stays_[i]) continue;
    for (const uint32_t a : trees_[i].arcs) {
      if (crossing[a].empty() || crossing[a].back() != i) crossing[a].push_back(i);
    }
  }
  // A tree relieves all overloaded arcs that it crosses, each by no more than it is overloaded.
  const auto relief = [&](uint32_t tree) {
    int128 sum = 0;
    for (const uint32_t a : trees_[tree].arcs)
      sum += std::clamp<int64_t>(load_[a] - capacity[a], 0, trees_[tree].units);
    return sum;
  };
  for (uint32_t a = 0; a < capacity.size(); ++a) {
    // Only trees that cross the arc can relieve it.
    while (load_[a] > capacity[a]) {
      std::optional<uint32_t> best;
      int128 most = 0;
      for (const uint32_t i : crossing[a]) {
        if (!stays_[i]) continue;
        const int128 relieved = relief(i);
        // The first of equal ones goes, so that the choice is the same everywhere.
        if (best && relieved <= most) continue;
        best = i;
        most = relieved;
      }
      CHECK(best.has_value()) << "an arc is overloaded by no tree";
      put(*best, false);
    }
  }
}

// How often a tree enters a cut beyond what it owes it.
int64_t TreeKeeper::overdraft(const Tree& tree, const VertexSet& cut) const {
  int64_t entered = cut[tree.root] ? 0 : -1;
  for (const uint32_t a : tree.arcs) entered += enters(a, cut);
  return entered;
}

int64_t TreeKeeper::supply_outside(const VertexSet& cut) const {
  int64_t sum = 0;
  for (uint32_t t = 0; t < network_.terminal_count(); ++t) sum += cut[t] ? 0 : supply_left_[t];
  return sum;
}

// Drops the tree that is just enough for the cut, or else the one that relieves it most, until the cut holds.
void TreeKeeper::drop_from(const VertexSet& cut, const std::vector<int64_t>& capacity) {
  int64_t shortage = supply_outside(cut);
  for (uint32_t a = 0; a < capacity.size(); ++a) shortage -= enters(a, cut) ? capacity[a] - load_[a] : 0;
  while (shortage > 0) {
    std::optional<size_t> best;
    int64_t best_gain = 0;
    for (size_t i = 0; i < trees_.size(); ++i) {
      if (!stays_[i]) continue;
      const int64_t gain = overdraft(trees_[i], cut) * trees_[i].units;
      if (gain <= 0) continue;
      // If some tree is enough by itself, the smallest such one; else the one that gains most.
      const bool better = best_gain >= shortage ? gain >= shortage && gain < best_gain : gain > best_gain;
      if (best && !better) continue;
      best = i;
      best_gain = gain;
    }
    CHECK(best.has_value()) << "a cut is violated without any tree that stays";
    put(*best, false);
    shortage -= best_gain;
  }
}

void TreeKeeper::try_again(const std::vector<int64_t>& capacity) {
  int tried = 0;
  for (size_t i = 0; i < trees_.size() && tried < kMaxTriedAgain; ++i) {
    if (stays_[i] || !trees_[i].can_stay) continue;
    // A tree may have been dropped before another one that relieved the same cut: it comes back if everything holds
    // with it.
    put(i, true);
    const bool has_room = std::ranges::all_of(trees_[i].arcs, [&](uint32_t a) { return load_[a] <= capacity[a]; });
    if (has_room) ++tried;
    if (!has_room || find_violated(capacity)) put(i, false);
  }
}

// The least time in which the cut holds.
Fraction TreeKeeper::time_for(const VertexSet& cut) const {
  // The cut must let in what others owe to its inside, and what the trees that stay take of its arcs.
  std::vector<uint32_t> entering;
  int128 needed = supply_outside(cut), rate = 0;
  for (uint32_t a = 0; a < load_.size(); ++a) {
    if (!enters(a, cut) || capacities_.rates[a] == 0) continue;
    entering.push_back(a);
    needed += load_[a];
    rate += capacities_.rates[a];
  }
  // Without floors this is the time; floors carry less, so it is a lower bound.
  CHECK(rate > 0) << "a cut that nothing enters";
  Fraction time(needed, rate);
  const auto carried = [&] {
    int128 sum = 0;
    for (const uint32_t a : entering) sum += capacities_.at(a, time);
    return sum;
  };
  // From here on by the steps of the floors.
  while (carried() < needed) {
    // The next time at which some arc of the cut carries one unit more.
    std::optional<Fraction> next;
    for (const uint32_t a : entering) {
      const int128 units = int128{capacities_.at(a, time)} + 1;
      if (units > capacities_.most) continue;
      const Fraction step(units, capacities_.rates[a]);
      if (step > time && (!next || step < *next)) next = step;
    }
    CHECK(next.has_value()) << "a cut that no time suffices for";
    time = *next;
  }
  return time;
}

Fraction TreeKeeper::least_time(const Fraction& start) {
  // First the arcs: each must carry the trees that stay on it.
  Fraction time = start;
  for (uint32_t a = 0; a < load_.size(); ++a) {
    if (load_[a] <= capacities_.at(a, time)) continue;
    CHECK(capacities_.rates[a] > 0) << "a tree stays on an arc that carries nothing";
    time = Fraction(load_[a], capacities_.rates[a]);
  }
  // Then Newton's iteration: each violated cut asks for a longer time, and the last cut proves that no less will do.
  while (const auto violated = find_violated(capacities_.at(time))) {
    const Fraction next = time_for(*violated);
    CHECK(next > time) << "a violated cut holds already";
    time = next;
  }
  return time;
}

std::vector<int64_t> TreeKeeper::capacity_left(const Fraction& time) const {
  std::vector<int64_t> left = capacities_.at(time);
  for (uint32_t a = 0; a < left.size(); ++a) left[a] -= load_[a];
  return left;
}

}  // namespace banyan::plan
