#include "banyan/plan/forest/sure_tree.h"

#include <algorithm>
#include <optional>

#include "banyan/base/check.h"
#include "banyan/base/fraction.h"
#include "banyan/plan/graph/cut_condition.h"

namespace banyan::plan {
namespace {

// The path without the loops it makes through switches; the capacity of a loop stays with those to come.
std::vector<uint32_t> without_loops(const Network& network, const std::vector<uint32_t>& path) {
  std::vector<uint32_t> result;
  for (const uint32_t a : path) {
    result.push_back(a);
    const uint32_t head = network.arcs()[a].head;
    const auto first = std::find_if(result.begin(), result.end(),
                                    [&](uint32_t earlier) { return network.arcs()[earlier].head == head; });
    result.erase(first + 1, result.end());
  }
  return result;
}

// An arc of the graph that is being split: one of the network, or several of them bound together.
struct BoundArc {
  Arc ends;
  int64_t capacity = 0;  // without what the tree takes
  bool in_tree = false;
  std::vector<uint32_t> path;
};

// One claim holds throughout, and check() tests it: the graph as it is split now satisfies the cut condition for all
// trees that are owed and for this one, a batch of units_ whose members have joined so far. extend() goes over the arcs
// out of members: it leads each on through switches until it ends at a terminal, and lets it join if the claim still
// holds. The header says why one of them can. Each call adds a member; a call ends because binding replaces an arc by
// one that ends at another vertex, takes units off both, and loses whatever comes back to its start.
class SureGrower {
 public:
  SureGrower(const Network& network, std::span<const int64_t> left, std::span<const int64_t> supply, uint32_t root)
      : network_(network), supply_(supply.begin(), supply.end()), root_(root), units_(supply[root]) {
    for (uint32_t a = 0; a < network.arcs().size(); ++a) {
      if (left[a] > 0) add({.ends = network.arcs()[a], .capacity = left[a], .path = {a}});
    }
    members_.assign(network.vertex_count(), 0);
    depth_.assign(network.vertex_count(), 0);
    members_[root] = 1;
    joined_.push_back(root);
  }

  SureTree grow() {
    while (joined_.size() < network_.terminal_count()) {
      // An arc that would cost more than half of the units is taken only where no other is to be had.
      const bool extended = extend(units_ / 2 + units_ % 2) || extend(1);
      CHECK(extended) << "a feasible tree of root " << root_ << " has no extension after " << joined_.size() - 1
                      << " edges";
    }
    tree_.units = units_;
    return std::move(tree_);
  }

 private:
  void add(BoundArc arc) {
    out_.resize(network_.vertex_count());
    out_[arc.ends.tail].push_back(static_cast<uint32_t>(arcs_.size()));
    arcs_.push_back(std::move(arc));
    stale_ = true;
  }

  // What would violate the condition if `units` units of the tree were committed.
  std::optional<VertexSet> check(int64_t units) {
    if (stale_) {
      // The graph changes with every binding, so the condition is set up anew for it.
      std::vector<Arc> ends;
      for (const BoundArc& arc : arcs_) ends.push_back(arc.ends);
      condition_.emplace(network_, ends);
      stale_ = false;
    }
    // This asks the claim, with `units` of the tree taken off its arcs and off what the root owes.
    capacity_.resize(arcs_.size());
    for (size_t a = 0; a < arcs_.size(); ++a) capacity_[a] = arcs_[a].capacity - (arcs_[a].in_tree ? units : 0);
    owed_ = supply_;
    owed_[root_] -= units;
    ++tree_.checks;
    return condition_->find_violated({.capacity = capacity_,
                                      .supply = owed_,
                                      .batch = CutCondition::State::Batch{.members = members_, .units = units}});
  }

  // How much the condition leaves over at a cut when `units` units of the tree are committed.
  int128 slack(const VertexSet& cut, int64_t units) const {
    int128 slack = 0;
    bool has_member = false;
    for (uint32_t t = 0; t < network_.terminal_count(); ++t) {
      if (!cut[t]) slack -= supply_[t] - (t == root_ ? units : 0);
      has_member |= cut[t] && members_[t];
    }
    if (!has_member) slack -= units;
    for (const BoundArc& arc : arcs_) {
      if (cut[arc.ends.head] && !cut[arc.ends.tail]) slack += arc.capacity - (arc.in_tree ? units : 0);
    }
    return slack;
  }

  // Adds one edge to the tree, of at least `least` units; false when no arc as the graph is split now allows it.
  bool extend(int64_t least) {
    for (size_t m = 0; m < joined_.size(); ++m) {
      const uint32_t member = joined_[m];
      // Splitting appends to this row: what is bound is looked at in its turn.
      for (size_t i = 0; i < out_[member].size(); ++i) {
        const uint32_t a = out_[member][i];
        const uint32_t head = arcs_[a].ends.head;
        if (!network_.is_terminal(head)) {
          lead_on(a);
        } else if (!members_[head] && join(a, least)) {
          return true;
        }
      }
    }
    return false;
  }

  // Lets the arc join the tree if the tree can keep `least` units then. What a cut leaves over falls evenly with the
  // units, so the cut that is violated says how many it bears; each cut that follows bears fewer.
  bool join(uint32_t a, int64_t least) {
    // The arc joins on trial.
    BoundArc& arc = arcs_[a];
    int64_t units = std::min(units_, arc.capacity);
    arc.in_tree = true;
    members_[arc.ends.head] = 1;
    while (units >= least) {
      const auto violated = check(units);
      if (!violated) break;
      const int128 whole = slack(*violated, 0), overdraft = (whole - slack(*violated, units)) / units;
      CHECK(whole >= 0 && overdraft > 0);
      units = static_cast<int64_t>(whole / overdraft);
    }
    // The cut condition does not bear enough units: the arc stays out, and the claim holds as before.
    if (units < least) {
      arc.in_tree = false;
      members_[arc.ends.head] = 0;
      return false;
    }
    units_ = units;
    depth_[arc.ends.head] = depth_[arc.ends.tail] + 1;
    tree_.height = std::max(tree_.height, depth_[arc.ends.head]);
    tree_.paths.push_back(without_loops(network_, arc.path));
    joined_.push_back(arc.ends.head);
    return true;
  }

  // Binds the whole arc, which ends at a switch, to arcs out of that switch. The splitting-off theorem (Bang-Jensen,
  // Frank, Jackson 1995) says that some arc out of it can take each unit, as the switch gives out what it takes in.
  void lead_on(uint32_t a) {
    const Arc ends = arcs_[a].ends;
    // Arcs to terminals outside first, then to switches: short paths.
    std::vector<uint32_t> onward = out_[ends.head];
    std::stable_partition(onward.begin(), onward.end(), [&](uint32_t b) {
      const uint32_t to = arcs_[b].ends.head;
      return network_.is_terminal(to) && !members_[to];
    });
    for (const uint32_t b : onward) {
      if (arcs_[a].capacity == 0) return;
      if (arcs_[b].capacity == 0) continue;
      bind(a, b);
    }
    CHECK_EQ(arcs_[a].capacity, 0) << "an arc into switch " << ends.head << " cannot be split off";
  }

  // As many units of both as the condition allows become units of one arc: all at first, then Newton's walk down. A
  // violated cut has the two arcs pass through it, so every unit that is given back gains it one.
  void bind(uint32_t a, uint32_t b) {
    const Arc ends{.tail = arcs_[a].ends.tail, .head = arcs_[b].ends.head};
    const bool loop = ends.tail == ends.head;  // what comes back to where it started is of no use to anybody
    if (!loop) {
      std::vector<uint32_t> path = arcs_[a].path;
      path.insert(path.end(), arcs_[b].path.begin(), arcs_[b].path.end());
      add({.ends = ends, .capacity = 0, .path = std::move(path)});
    }
    const auto move = [&](int64_t units) {
      arcs_[a].capacity -= units;
      arcs_[b].capacity -= units;
      if (!loop) arcs_.back().capacity += units;
    };
    int64_t units = std::min(arcs_[a].capacity, arcs_[b].capacity);
    move(units);
    while (units > 0) {
      const auto violated = check(units_);
      if (!violated) break;
      // Every cut loses as much as is bound, or nothing.
      const int64_t back = static_cast<int64_t>(std::min<int128>(units, -slack(*violated, units_)));
      CHECK(back > 0);
      move(-back);
      units -= back;
    }
    // Nothing could be bound: the new arc goes again, so that rows do not fill with empty ones.
    if (units > 0 || loop) return;
    out_[ends.tail].pop_back();
    arcs_.pop_back();
    stale_ = true;
  }

  const Network& network_;
  const std::vector<int64_t> supply_;
  const uint32_t root_;
  int64_t units_;
  std::vector<BoundArc> arcs_;
  std::vector<std::vector<uint32_t>> out_;  // by vertex: the arcs that leave it
  std::vector<uint8_t> members_;            // by vertex
  std::vector<uint32_t> depth_, joined_;    // joined_: members in their order
  std::optional<CutCondition> condition_;   // of arcs_, unless stale_
  bool stale_ = true;
  std::vector<int64_t> capacity_, owed_;
  SureTree tree_;
};

}  // namespace

SureTree grow_surely(const Network& network, std::span<const int64_t> left, std::span<const int64_t> supply,
                     uint32_t root) {
  return SureGrower(network, left, supply, root).grow();
}

}  // namespace banyan::plan
