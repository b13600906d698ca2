#include "banyan/design/clos_choice.h"

#include <algorithm>
#include <map>
#include <set>

namespace banyan::design {
namespace {

constexpr uint64_t kMaxWork = 40'000'000;  // cables looked at: some seconds

// Sums of losses differ by how they are added up.
constexpr double kRounding = 1e-12;

struct Item {
  double loss = 0;
  uint64_t ways = 0;
  uint32_t cable = 0;
};

// The best by loss for each way first; what costs no way comes before all.
void sort_for_knapsack(std::vector<Item>& items) {
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.loss * static_cast<double>(b.ways) > b.loss * static_cast<double>(a.ways);
  });
}

// The most loss within a budget of ways, if the last item may be taken in part. Items are sorted.
double fractional_knapsack(std::span<const Item> items, uint64_t budget) {
  double loss = 0;
  // The last item that fits only in part is taken in part: no choice of whole ones is better.
  for (const Item& item : items) {
    if (item.ways > budget) return loss + item.loss * static_cast<double>(budget) / static_cast<double>(item.ways);
    loss += item.loss;
    budget -= item.ways;
  }
  return loss;
}

class Knapsack {
 public:
  Knapsack(std::vector<Item> items, uint64_t& work) : items_(std::move(items)), work_(work) {
    sort_for_knapsack(items_);
  }

  double solve(uint64_t budget) {
    best_ = -1;
    taken_.clear();
    branch(0, budget, 0);
    return best_;
  }
  const std::vector<uint32_t>& chosen() const { return chosen_; }

 private:
  void branch(size_t at, uint64_t budget, double loss) {
    if (loss > best_) {
      best_ = loss;
      chosen_ = taken_;
    }
    if (at == items_.size() || work_ > kMaxWork) return;
    work_ += items_.size() - at;
    // The fractional knapsack of the rest bounds what may still come.
    if (loss + fractional_knapsack(std::span(items_).subspan(at), budget) <= best_ + kRounding * best_) return;
    if (items_[at].ways <= budget) {
      taken_.push_back(items_[at].cable);
      branch(at + 1, budget - items_[at].ways, loss + items_[at].loss);
      taken_.pop_back();
    }
    // Leaving it out is no better than leaving out a later one that loses less and costs the same.
    size_t next = at + 1;
    while (next < items_.size() && items_[next].ways == items_[at].ways && items_[next].loss == items_[at].loss) ++next;
    branch(next, budget, loss);
  }

  std::vector<Item> items_;
  uint64_t& work_;
  double best_ = -1;
  std::vector<uint32_t> taken_, chosen_;
};

// A rank for all that have the same ways up, and the cables above it that may be disabled.
struct Constraint {
  NodeId rank{};
  uint64_t needed = 0;
  std::vector<uint32_t> above = {};  // candidates, by place
};

struct Candidate {
  uint32_t cable = 0;
  double loss = 0;
  std::vector<uint32_t> below = {};  // constraints, by place
};

class Chooser {
 public:
  Chooser(const Fabric& fabric, UpPaths& paths, std::span<const LossyCable> lossy, const Fraction& share)
      : fabric_(fabric), paths_(paths), share_(share) {
    for (const LossyCable& cable : lossy) {
      if (may_disable(paths, cable.cable, share)) candidates_.push_back({.cable = cable.cable, .loss = cable.loss});
    }
    place_.assign(fabric.links().size(), kNone);
    for (uint32_t i = 0; i < candidates_.size(); ++i) place_[candidates_[i].cable] = i;
  }

  Choice choose() {
    // Cables that cannot conflict are settled first. The rest falls into parts that share no rank, each with a search
    // of its own.
    find_constraints();
    settle_what_binds_nothing();
    for (const std::vector<uint32_t>& part : parts()) solve(part);
    std::ranges::sort(choice_.disabled);
    choice_.is_exact = choice_.most <= choice_.loss * (1 + kRounding);
    if (choice_.is_exact) choice_.most = choice_.loss;
    return std::move(choice_);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  bool is_candidate(uint32_t cable) const { return place_[cable] != kNone; }
  uint64_t needed(NodeId rank) const { return ways_needed(paths_.paths_at_first(rank), share_); }
  bool holds(const Constraint& constraint) const { return paths_.paths(constraint.rank) >= constraint.needed; }

  // Ranks that hang on the same switches by cables that are no candidates are one constraint.
  void find_constraints() {
    std::set<std::vector<uint32_t>> known;
    for (const NodeId rank : fabric_.ranks()) {
      std::vector<uint32_t> key;
      for (const uint32_t c : paths_.cables_up(rank)) {
        if (is_candidate(c)) key.insert(key.end(), {kNone, index(rank)});
        key.push_back(index(paths_.ends(c).upper));
      }
      std::ranges::sort(key);
      // A candidate at the rank itself makes its paths its own: the key names the rank then.
      if (!known.insert(key).second) continue;
      Constraint constraint{.rank = rank, .needed = needed(rank)};
      // All candidates above the rank, breadth first.
      std::vector<NodeId> queue{rank};
      std::set<uint32_t> seen;
      for (size_t i = 0; i < queue.size(); ++i) {
        for (const uint32_t c : paths_.cables_up(queue[i])) {
          const NodeId upper = paths_.ends(c).upper;
          if (is_candidate(c)) constraint.above.push_back(place_[c]);
          if (seen.insert(index(upper)).second) queue.push_back(upper);
        }
      }
      for (const uint32_t i : constraint.above)
        candidates_[i].below.push_back(static_cast<uint32_t>(constraints_.size()));
      constraints_.push_back(std::move(constraint));
    }
  }

  void disable_for_good(uint32_t candidate) {
    choice_.disabled.push_back(candidates_[candidate].cable);
    choice_.loss += candidates_[candidate].loss;
    choice_.most += candidates_[candidate].loss;
  }

  // With all candidates disabled, who lacks ways? Cables above nobody else are disabled for good.
  void settle_what_binds_nothing() {
    for (const Candidate& candidate : candidates_) paths_.disable(candidate.cable);
    binds_.clear();
    for (const Constraint& constraint : constraints_) binds_.push_back(!holds(constraint));
    for (const Candidate& candidate : candidates_) paths_.enable(candidate.cable);
    for (uint32_t i = 0; i < candidates_.size(); ++i) {
      // Constraints that hold even then bind nothing.
      std::erase_if(candidates_[i].below, [&](uint32_t c) { return !binds_[c]; });
      if (candidates_[i].below.empty()) disable_for_good(i);
    }
    for (const Candidate& candidate : candidates_) {
      if (candidate.below.empty()) paths_.disable(candidate.cable);
    }
  }

  // Candidates that share constraints, directly or through others.
  std::vector<std::vector<uint32_t>> parts() const {
    std::vector<std::vector<uint32_t>> parts;
    std::vector<uint8_t> seen(candidates_.size(), 0);
    for (uint32_t i = 0; i < candidates_.size(); ++i) {
      if (seen[i] || candidates_[i].below.empty()) continue;
      std::vector<uint32_t> part{i};
      seen[i] = 1;
      for (size_t at = 0; at < part.size(); ++at) {
        for (const uint32_t c : candidates_[part[at]].below) {
          for (const uint32_t other : constraints_[c].above) {
            if (seen[other] || candidates_[other].below.empty()) continue;
            seen[other] = 1;
            part.push_back(other);
          }
        }
      }
      std::ranges::sort(part);
      parts.push_back(std::move(part));
    }
    return parts;
  }

  void solve(const std::vector<uint32_t>& part);

  const Fabric& fabric_;
  UpPaths& paths_;
  const Fraction share_;
  std::vector<Candidate> candidates_;
  std::vector<uint32_t> place_;  // by cable
  std::vector<Constraint> constraints_;
  std::vector<uint8_t> binds_;  // by constraint
  Choice choice_;
  uint64_t work_ = 0;

  friend class PartSearch;
};

// Branch and bound over one part.
class PartSearch {
 public:
  PartSearch(Chooser& all, const std::vector<uint32_t>& part) : all_(all), paths_(all.paths_) {
    // Each constraint of the part gets its knapsack; candidates in none are branched on.
    std::set<uint32_t> constraints;
    for (const uint32_t i : part) constraints.insert(candidate(i).below.begin(), candidate(i).below.end());
    for (const uint32_t c : constraints) {
      bound_by_.push_back(c);
      divide(c, part);
    }
    for (const uint32_t i : part) {
      if (!lower_.contains(i)) branching_.push_back(i);
    }
    for (const uint32_t i : branching_) class_[i] = class_of(i);
    // Highest first; from one switch, what can stand for each other together, the most loss first.
    std::ranges::stable_sort(branching_, [&](uint32_t a, uint32_t b) {
      const auto key = [&](uint32_t i) {
        const UpPaths::Ends ends = paths_.ends(candidate(i).cable);
        return std::tuple(~paths_.tier(ends.lower), ends.lower, class_.at(i), -candidate(i).loss);
      };
      return key(a) < key(b);
    });
    take_greedily(part);
  }

  void search() { branch(0, 0); }

  const std::vector<uint32_t>& best() const { return best_; }  // candidates
  double best_loss() const { return best_loss_; }
  // What is not excluded.
  double most() const { return std::max(best_loss_, unexplored_); }

 private:
  const Candidate& candidate(uint32_t i) const { return all_.candidates_[i]; }
  const Constraint& constraint(uint32_t c) const { return all_.constraints_[c]; }

  // Of the candidates above a constraint: those of the lowest tier that are above no other are its knapsack.
  void divide(uint32_t c, const std::vector<uint32_t>& part) {
    uint32_t lowest = UINT32_MAX;
    for (const uint32_t i : part) {
      if (is_above(i, c)) lowest = std::min(lowest, paths_.tier(paths_.ends(candidate(i).cable).lower));
    }
    // How many ways lead from the rank up to a node of the lowest tier: nothing below can be disabled any more.
    std::map<NodeId, uint64_t> ways{{constraint(c).rank, 1}};
    for (uint32_t tier = 0; tier < lowest; ++tier) {
      // Ways are summed up tier by tier.
      std::map<NodeId, uint64_t> above;
      for (const auto& [node, count] : ways) {
        for (const uint32_t cable : paths_.cables_up(node)) {
          if (paths_.is_enabled(cable)) above[paths_.ends(cable).upper] += count;
        }
      }
      ways = std::move(above);
    }
    std::vector<std::pair<uint32_t, uint64_t>>& knapsack = knapsacks_.emplace_back();
    for (const uint32_t i : part) {
      // A candidate above other constraints, too, is branched on.
      if (candidate(i).below != std::vector<uint32_t>{c}) continue;
      const auto lower = ways.find(paths_.ends(candidate(i).cable).lower);
      if (lower == ways.end()) continue;
      knapsack.emplace_back(i, lower->second);
      lower_.insert(i);
    }
  }

  bool is_above(uint32_t i, uint32_t c) const { return std::ranges::binary_search(candidate(i).below, c); }

  // Cables with the same lower end and class can stand for each other: their upper ends have equally many ways, which
  // no candidate changes. Others have a class of their own.
  uint64_t class_of(uint32_t i) const {
    const NodeId upper = paths_.ends(candidate(i).cable).upper;
    std::vector<NodeId> queue{upper};
    std::set<NodeId> seen{upper};
    for (size_t at = 0; at < queue.size(); ++at) {
      for (const uint32_t c : paths_.cables_up(queue[at])) {
        if (all_.is_candidate(c)) return UINT64_MAX - i;
        if (seen.insert(paths_.ends(c).upper).second) queue.push_back(paths_.ends(c).upper);
      }
    }
    return paths_.paths(upper);
  }
  bool stand_for_each_other(uint32_t a, uint32_t b) const {
    return paths_.ends(candidate(a).cable).lower == paths_.ends(candidate(b).cable).lower &&
           class_.at(a) == class_.at(b);
  }

  // What is found without any search: the most loss first, whatever fits.
  void take_greedily(const std::vector<uint32_t>& part) {
    std::vector<uint32_t> order = part;
    std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return candidate(a).loss > candidate(b).loss; });
    for (const uint32_t i : order) {
      if (!may_disable(paths_, candidate(i).cable, all_.share_)) continue;
      paths_.disable(candidate(i).cable);
      best_.push_back(i);
      best_loss_ += candidate(i).loss;
    }
    for (const uint32_t i : best_) paths_.enable(candidate(i).cable);
  }

  bool all_hold() const {
    return std::ranges::all_of(bound_by_, [&](uint32_t c) { return all_.holds(constraint(c)); });
  }

  std::vector<Item> items(size_t place) const {
    std::vector<Item> result;
    for (const auto& [i, ways] : knapsacks_[place])
      result.push_back(
          {.loss = candidate(i).loss, .ways = ways * paths_.paths(paths_.ends(candidate(i).cable).upper), .cable = i});
    all_.work_ += result.size();
    return result;
  }
  uint64_t budget(size_t place) const {
    const Constraint& bound = constraint(bound_by_[place]);
    return paths_.paths(bound.rank) - bound.needed;
  }

  // The most loss that can still be disabled. A way crosses one cable of each tier, so that of the cables of one tier
  // each takes all its ways, as they are now, whatever is disabled in other tiers. So each tier by itself can take no
  // more than the budget of a constraint. The undecided cables are bounded by the constraint that allows least.
  double bound(size_t at) const {
    // Knapsacks below the undecided cables count with the paths as they are now.
    double lower = 0, undecided = 0;
    for (size_t k = 0; k < bound_by_.size(); ++k) {
      std::vector<Item> list = items(k);
      sort_for_knapsack(list);
      lower += fractional_knapsack(list, budget(k));
    }
    for (size_t i = at; i < branching_.size(); ++i) undecided += candidate(branching_[i]).loss;
    double least = undecided;
    for (size_t k = 0; k < bound_by_.size(); ++k) {
      std::map<uint32_t, std::vector<Item>> by_tier;
      double above = 0, most = 0;
      for (size_t b = at; b < branching_.size(); ++b) {
        const uint32_t i = branching_[b];
        ++all_.work_;
        if (!is_above(i, bound_by_[k])) continue;
        const UpPaths::Ends ends = paths_.ends(candidate(i).cable);
        // The rank has at least one way up to the lower end: what is decided lies above it.
        by_tier[paths_.tier(ends.lower)].push_back(
            {.loss = candidate(i).loss, .ways = paths_.paths(ends.upper), .cable = i});
        above += candidate(i).loss;
      }
      for (auto& [tier, list] : by_tier) {
        sort_for_knapsack(list);
        most += fractional_knapsack(list, budget(k));
      }
      least = std::min(least, undecided - above + most);
    }
    return lower + least;
  }

  void branch(size_t at, double loss) {
    ++all_.work_;
    // Disabling more never gives paths back, so what fails now fails below, too.
    if (!all_hold()) return;
    const double most = loss + bound(at);
    if (most <= best_loss_ + kRounding * best_loss_) return;
    // The search is given up here. It is told how much more there might have been.
    if (all_.work_ > kMaxWork) {
      unexplored_ = std::max(unexplored_, most);
      return;
    }
    if (at == branching_.size()) return finish(loss, most);
    const uint32_t i = branching_[at];
    paths_.disable(candidate(i).cable);
    taken_.push_back(i);
    branch(at + 1, loss + candidate(i).loss);
    taken_.pop_back();
    paths_.enable(candidate(i).cable);
    // Where it stays, so do those that lose less and can stand for it.
    size_t next = at + 1;
    while (next < branching_.size() && stand_for_each_other(i, branching_[next])) ++next;
    branch(next, loss);
  }

  void finish(double loss, double most) {
    // All above is decided. Knapsacks take paths away independently of each other, so each is solved by itself.
    std::vector<uint32_t> found = taken_;
    for (size_t k = 0; k < bound_by_.size(); ++k) {
      Knapsack knapsack(items(k), all_.work_);
      loss += knapsack.solve(budget(k));
      found.insert(found.end(), knapsack.chosen().begin(), knapsack.chosen().end());
    }
    if (all_.work_ > kMaxWork) unexplored_ = std::max(unexplored_, most);
    if (loss <= best_loss_) return;
    best_loss_ = loss;
    best_ = std::move(found);
  }

  Chooser& all_;
  UpPaths& paths_;
  std::vector<uint32_t> bound_by_;                                     // constraints of this part
  std::vector<std::vector<std::pair<uint32_t, uint64_t>>> knapsacks_;  // by place in bound_by_: candidates, ways below
  std::set<uint32_t> lower_;                                           // candidates in knapsacks
  std::map<uint32_t, uint64_t> class_;                                 // of those to branch on
  std::vector<uint32_t> branching_, taken_, best_;
  double best_loss_ = 0, unexplored_ = 0;
};

void Chooser::solve(const std::vector<uint32_t>& part) {
  PartSearch search(*this, part);
  search.search();
  for (const uint32_t i : search.best()) choice_.disabled.push_back(candidates_[i].cable);
  choice_.loss += search.best_loss();
  choice_.most += search.most();
}

}  // namespace

uint64_t ways_needed(uint64_t at_first, const Fraction& share) {
  const int128 product = int128{static_cast<int64_t>(at_first)} * share.numerator();
  return static_cast<uint64_t>((product + share.denominator() - 1) / share.denominator());
}

bool may_disable(UpPaths& paths, uint32_t cable, const Fraction& share) {
  paths.disable(cable);
  const bool may = std::ranges::all_of(paths.touched_ranks(), [&](NodeId rank) {
    return paths.paths(rank) >= ways_needed(paths.paths_at_first(rank), share);
  });
  paths.enable(cable);
  return may;
}

Choice choose_cables(const Fabric& fabric, UpPaths& paths, std::span<const LossyCable> lossy, const Fraction& share) {
  Choice choice = Chooser(fabric, paths, lossy, share).choose();
  for (const LossyCable& cable : lossy) {
    if (!paths.is_enabled(cable.cable)) paths.enable(cable.cable);
  }
  return choice;
}

}  // namespace banyan::design
