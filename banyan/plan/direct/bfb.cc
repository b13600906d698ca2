#include "banyan/plan/direct/bfb.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/plan/direct/receivers.h"

namespace banyan::plan {
namespace {

// 1 GiB of tree edges: 16,384 ranks that all root a tree.
constexpr uint64_t kMaxTreeEdges = uint64_t{1} << 28;
constexpr int kBitsOfUnits = 62;  // of all units of a schedule
constexpr int kBitsOfRoundedShares = 32;

Error unsupported_bfb(const std::string& message) { return Error(ErrorCode::unsupported, message); }

Network network_without_switches(const Fabric& fabric, const Collective& collective, bool reversed,
                                 PlanObserver* observer) {
  if (collective.is_rooted()) {
    throw unsupported_bfb("breadth-first broadcasts are for allgather, reduce-scatter and allreduce");
  }
  Network network(fabric, collective, reversed, observer);
  if (network.vertex_count() > network.terminal_count()) {
    throw unsupported_bfb("breadth-first broadcasts need ranks that are joined directly, and " +
                          fabric.name(network.node_of(network.terminal_count())) + " is a switch");
  }
  return network;
}

// A symmetry of the fabric as it acts on the network.
struct Motion {
  std::vector<uint32_t> vertex, arc;  // images
};

// Nothing where it moves participants to others, or to shards of another weight.
std::optional<Motion> motion_of(const fabric::Permutation& symmetry, const Network& network,
                                std::span<const uint64_t> weights) {
  std::vector<uint32_t> vertex_of(symmetry.size(), UINT32_MAX);
  for (uint32_t v = 0; v < network.vertex_count(); ++v) vertex_of[index(network.node_of(v))] = v;
  Motion motion;
  for (uint32_t v = 0; v < network.vertex_count(); ++v) {
    const uint32_t image = vertex_of[index(symmetry[index(network.node_of(v))])];
    if (image == UINT32_MAX || weights[image] != weights[v]) return std::nullopt;
    motion.vertex.push_back(image);
  }
  // The i-th arc between two vertices, by bandwidth, goes to the i-th between their images.
  const std::span<const Arc> arcs = network.arcs();
  std::vector<uint32_t> from(arcs.size()), to;
  std::iota(from.begin(), from.end(), 0);
  to = from;
  const auto key = [&](uint32_t a, uint32_t tail, uint32_t head) {
    return std::tuple(tail, head, network.bandwidths()[a], a);
  };
  std::ranges::sort(to, {}, [&](uint32_t a) { return key(a, arcs[a].tail, arcs[a].head); });
  std::ranges::sort(from, {},
                    [&](uint32_t a) { return key(a, motion.vertex[arcs[a].tail], motion.vertex[arcs[a].head]); });
  motion.arc.resize(arcs.size());
  for (size_t i = 0; i < arcs.size(); ++i) motion.arc[from[i]] = to[i];
  return motion;
}

// One way of spreading, all roots to all receivers; gathering is spreading in the network turned round.
class Spreading {
 public:
  Spreading(const Fabric& fabric, const Collective& collective, bool reversed, PlanObserver* observer)
      : network_(network_without_switches(fabric, collective, reversed, observer)), weights_(collective.weights()) {
    for (const fabric::Permutation& symmetry : fabric.symmetries()) {
      std::optional<Motion> motion = motion_of(symmetry, network_, weights_);
      if (motion) motions_.push_back(std::move(*motion));
    }
    find_orbits();
  }

  const Network& network() const { return network_; }

  // Of every step, the load of the most loaded arc. Fills in the rows of all receivers if they are wanted.
  std::vector<Fraction> solve(const Fabric& fabric, bool with_rows) {
    std::vector<Fraction> most;
    ReceiverSolver solver(network_, weights_);
    if (with_rows) rows_.resize(network_.vertex_count());
    for (const Member& member : members_) {
      if (member.motion != kFirst) {
        if (with_rows) carry_over(member);
        continue;
      }
      const auto loads = solver.solve(member.vertex, with_rows ? &rows_[member.vertex] : nullptr);
      if (!loads) {
        throw unsupported_bfb("rank " + fabric.name(network_.node_of(member.vertex)) +
                              " cannot be reached from all others without passing through ranks that do not take part");
      }
      most.resize(std::max(most.size(), loads->size()));
      for (size_t t = 0; t < loads->size(); ++t) most[t] = std::max(most[t], (*loads)[t]);
    }
    return most;
  }

  // The least common multiple of `units` and of what the cuts of shards need; 0 where it is above `limit`.
  uint64_t unit_of_cuts(uint64_t units, uint64_t limit) const {
    int128 common = units;
    for (const ReceiverRow& row : rows_) {
      for (const auto& [source, pieces] : row.pieces) {
        for (const ShardPiece& piece : pieces) {
          common *= Fraction(common, Fraction(piece.end, piece.unit).denominator()).denominator();
          if (common > int128{limit}) return 0;
        }
      }
    }
    return static_cast<uint64_t>(common);
  }

  // Where the shard of `root` is cut, in 1/units of the unit of weight, by receivers that take it in pieces.
  void collect_cuts(uint32_t root, uint64_t units, std::vector<uint64_t>& cuts) const {
    for (const ReceiverRow& row : rows_) {
      if (row.arc[root] != ReceiverRow::kInPieces) continue;
      for (const ShardPiece& piece : pieces_of(row, root)) cuts.push_back(place_of(piece, units));
    }
  }

  struct Edge {
    uint32_t arc = 0, step = 0;
  };
  // The tree of a root for the part of its shard that begins at `begin`, from the root on.
  void tree(uint32_t root, uint64_t begin, uint64_t units, std::vector<Edge>& edges) {
    edges.clear();
    for (const uint32_t v : order_from(root)) {
      if (v == root) continue;
      uint32_t arc = rows_[v].arc[root];
      if (arc == ReceiverRow::kInPieces) {
        for (const ShardPiece& piece : pieces_of(rows_[v], root)) {
          arc = piece.arc;
          if (place_of(piece, units) > begin) break;
        }
      }
      edges.push_back({.arc = arc, .step = distance_[v]});
    }
  }

 private:
  static constexpr uint32_t kFirst = UINT32_MAX;
  struct Member {
    uint32_t vertex = 0;
    uint32_t from = 0, motion = kFirst;  // which motion brought it here from which vertex
  };

  void find_orbits() {
    std::vector<bool> seen(network_.vertex_count(), false);
    for (uint32_t first = 0; first < network_.vertex_count(); ++first) {
      if (seen[first]) continue;
      seen[first] = true;
      size_t next = members_.size();
      members_.push_back({.vertex = first});
      for (; next < members_.size(); ++next) {
        const uint32_t v = members_[next].vertex;
        for (uint32_t m = 0; m < motions_.size(); ++m) {
          const uint32_t image = motions_[m].vertex[v];
          if (seen[image]) continue;
          seen[image] = true;
          members_.push_back({.vertex = image, .from = v, .motion = m});
        }
      }
    }
  }

  void carry_over(const Member& member) {
    const Motion& motion = motions_[member.motion];
    const ReceiverRow& from = rows_[member.from];
    ReceiverRow& row = rows_[member.vertex];
    row.arc.resize(from.arc.size());
    for (uint32_t source = 0; source < from.arc.size(); ++source) {
      const uint32_t arc = from.arc[source];
      row.arc[motion.vertex[source]] = arc >= ReceiverRow::kNone ? arc : motion.arc[arc];
    }
    for (const auto& [source, pieces] : from.pieces) {
      row.pieces.emplace_back(motion.vertex[source], pieces);
      for (ShardPiece& piece : row.pieces.back().second) piece.arc = motion.arc[piece.arc];
    }
    std::ranges::sort(row.pieces, {}, [](const auto& a) { return a.first; });
  }

  static const ShardPieces& pieces_of(const ReceiverRow& row, uint32_t root) {
    return std::ranges::lower_bound(row.pieces, root, {}, [](const auto& entry) { return entry.first; })->second;
  }

  // To the nearest unit.
  static uint64_t place_of(const ShardPiece& piece, uint64_t units) {
    const int128 whole = piece.end / piece.unit, rest = piece.end % piece.unit;
    const Fraction part(rest, piece.unit);
    return static_cast<uint64_t>(whole * units +
                                 (2 * part.numerator() * units + part.denominator()) / (2 * part.denominator()));
  }

  // All vertices by their distance from the root, which is left in distance_.
  std::span<const uint32_t> order_from(uint32_t root) {
    if (!order_.empty() && order_.front() == root) return order_;
    distance_.assign(network_.vertex_count(), UINT32_MAX);
    distance_[root] = 0;
    order_.assign(1, root);
    for (size_t i = 0; i < order_.size(); ++i) {
      for (const uint32_t a : network_.out_arcs(order_[i])) {
        const uint32_t w = network_.arcs()[a].head;
        if (distance_[w] != UINT32_MAX) continue;
        distance_[w] = distance_[order_[i]] + 1;
        order_.push_back(w);
      }
    }
    return order_;
  }

  Network network_;
  std::span<const uint64_t> weights_;
  std::vector<Motion> motions_;
  std::vector<Member> members_;  // orbit by orbit, each after the one that it comes from
  std::vector<ReceiverRow> rows_;
  std::vector<uint32_t> order_, distance_;
};

class BfbPlanner {
 public:
  BfbPlanner(const Fabric& fabric, const Collective& collective, PlanObserver* observer)
      : fabric_(fabric), collective_(collective) {
    if (collective.reduces()) gathering_.emplace(fabric, collective, true, observer);
    if (collective.spreads()) spreading_.emplace(fabric, collective, false, observer);
  }

  BfbCost solve(bool with_rows) {
    BfbCost cost;
    if (gathering_) {
      add_steps(*gathering_, gathering_->solve(fabric_, with_rows), cost);
      std::ranges::reverse(cost.steps);
    }
    gathering_steps_ = static_cast<uint32_t>(cost.steps.size());
    if (spreading_) add_steps(*spreading_, spreading_->solve(fabric_, with_rows), cost);
    return cost;
  }

  // After solve() with rows.
  BfbPlan plan(BfbCost cost) && {
    const bool exact = choose_units();
    std::vector<std::vector<uint64_t>> cuts(collective_.participants().size());
    uint64_t chunks = 0;
    for (uint32_t root = 0; root < cuts.size(); ++root) {
      cuts[root] = cuts_of(root);
      chunks += cuts[root].empty() ? 0 : cuts[root].size() - 1;
    }
    const uint64_t edges = chunks * (cuts.size() - 1) * (gathering_ && spreading_ ? 2 : 1);
    if (edges > kMaxTreeEdges) {
      throw unsupported_bfb(std::to_string(cuts.size()) + " ranks need " + std::to_string(edges) +
                            " tree edges, the limit is " + std::to_string(kMaxTreeEdges));
    }
    Schedule::Builder builder(fabric_, collective_);
    for (const Arc& arc : network().arcs()) builder.add_route(std::span(&arc.link, 1));
    for (uint32_t root = 0; root < cuts.size(); ++root) add_chunks(root, cuts[root], builder);
    return {.schedule = std::move(builder).build(), .cost = std::move(cost), .exact = exact};
  }

 private:
  const Network& network() const { return gathering_ ? gathering_->network() : spreading_->network(); }

  void add_steps(const Spreading& spreading, const std::vector<Fraction>& loads, BfbCost& cost) const {
    const Fraction unit(
        1, static_cast<int128>(spreading.network().unit()) * static_cast<int128>(collective_.total_weight()));
    for (const Fraction& load : loads) cost.steps.push_back(load * unit);
  }

  // How many parts of a unit of weight are counted; whether that is exact.
  bool choose_units() {
    const uint64_t weight = collective_.total_weight(), limit = (uint64_t{1} << kBitsOfUnits) / weight;
    units_ = 1;
    for (const auto* spreading : {&gathering_, &spreading_}) {
      if (*spreading && units_ > 0) units_ = (*spreading)->unit_of_cuts(units_, limit);
    }
    if (units_ > 0) return true;
    units_ = uint64_t{1} << std::min(kBitsOfRoundedShares, static_cast<int>(std::bit_width(limit)) - 1);
    return false;
  }

  // From 0 to the end of the root's shard; empty for an empty one.
  std::vector<uint64_t> cuts_of(uint32_t root) const {
    const uint64_t weight = collective_.weights()[root];
    if (weight == 0) return {};
    std::vector<uint64_t> cuts = {0, weight * units_};
    if (gathering_) gathering_->collect_cuts(root, units_, cuts);
    if (spreading_) spreading_->collect_cuts(root, units_, cuts);
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    return cuts;
  }

  void add_chunks(uint32_t root, std::span<const uint64_t> cuts, Schedule::Builder& builder) {
    std::vector<Spreading::Edge> edges;
    std::vector<RouteId> in_tree, out_tree;
    std::vector<uint32_t> in_steps, out_steps;
    for (size_t i = 1; i < cuts.size(); ++i) {
      in_tree.clear(), out_tree.clear(), in_steps.clear(), out_steps.clear();
      if (gathering_) {
        gathering_->tree(root, cuts[i - 1], units_, edges);
        for (auto edge = edges.rbegin(); edge != edges.rend(); ++edge) {
          in_tree.push_back(RouteId{edge->arc});
          in_steps.push_back(gathering_steps_ + 1 - edge->step);
        }
      }
      if (spreading_) {
        spreading_->tree(root, cuts[i - 1], units_, edges);
        for (const Spreading::Edge& edge : edges) {
          out_tree.push_back(RouteId{edge.arc});
          out_steps.push_back(gathering_steps_ + edge.step);
        }
      }
      builder.add_chunk({.root = collective_.participants()[root],
                         .units = cuts[i] - cuts[i - 1],
                         .in_tree = in_tree,
                         .out_tree = out_tree,
                         .in_steps = in_steps,
                         .out_steps = out_steps});
    }
  }

  const Fabric& fabric_;
  const Collective& collective_;
  std::optional<Spreading> gathering_, spreading_;  // arcs of both have the same numbers
  uint32_t gathering_steps_ = 0;
  uint64_t units_ = 1;
};

}  // namespace

Fraction BfbCost::seconds_per_byte() const { return std::accumulate(steps.begin(), steps.end(), Fraction(0)); }

BfbPlan plan_bfb(const Fabric& fabric, const Collective& collective, PlanObserver* observer) {
  BfbPlanner planner(fabric, collective, observer);
  BfbCost cost = planner.solve(true);
  return std::move(planner).plan(std::move(cost));
}

BfbCost bfb_cost(const Fabric& fabric, const Collective& collective, PlanObserver* observer) {
  return BfbPlanner(fabric, collective, observer).solve(false);
}

}  // namespace banyan::plan
