#include "banyan/plan/repair/repair.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/plan/bound/overlap.h"
#include "banyan/plan/bound/wished_shares.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/plan/repair/direction.h"
#include "banyan/plan/repair/room.h"
#include "banyan/schedule/cost.h"

namespace banyan::plan {
namespace {

// Shares are cut finer where that reaches the bound: into up to so many parts, or else into powers of two of parts
// until no more than this part of most_cost is lost.
constexpr int64_t kMaxExactScale = 32;
constexpr int64_t kMaxScale = 1024;
constexpr int64_t kRoundingPart = 8;
// How far above its bound a plan was is rounded up to so many parts.
constexpr int64_t kFactorParts = 1000;
// How much of the time that may be lost is lost, where that lets an allreduce keep its roots.
const Fraction kPartForRoots(3, 4);

std::vector<NodeId> ranks_left(const Schedule& old, const Fabric& fabric, std::vector<std::string>& lost) {
  std::vector<NodeId> left;
  for (const NodeId id : old.collective().participants()) {
    const std::string& name = old.fabric().name(id);
    const auto now = fabric.find(name);
    if (now && fabric.is_rank(*now)) {
      left.push_back(*now);
    } else {
      lost.push_back(name);
    }
  }
  return left;
}

Collective collective_of(const Schedule& old, const Fabric& fabric, std::vector<std::string>& lost) {
  const Collective& asked = old.collective();
  Collective::Options options{.kind = asked.kind(), .ranks = ranks_left(old, fabric, lost)};
  if (options.ranks.size() < 2) {
    throw invalid("fewer than two ranks of the plan are left: '" + lost.front() +
                  "' is gone; plan anew for the others");
  }
  // A lost root cannot be replaced. Weights of the ranks that are left stay with them.
  if (asked.is_rooted()) {
    const std::string& root = old.fabric().name(asked.root());
    if (std::ranges::find(lost, root) != lost.end()) {
      throw invalid("the root '" + root + "' of the plan is gone; plan anew with another --root");
    }
    options.root = fabric.at(root);
  } else if (asked.fixes_roots()) {
    for (size_t i = 0; i < asked.participants().size(); ++i) {
      const auto now = fabric.find(old.fabric().name(asked.participants()[i]));
      if (now && fabric.is_rank(*now)) options.weights.push_back(asked.weights()[i]);
    }
  }
  return Collective::make(fabric, options);
}

OldPlan place_old_plan(const Schedule& old, const LinkMatch& links, const Fabric& fabric,
                       const Collective& collective) {
  OldPlan placed{.schedule = old,
                 .links = links,
                 .fabric = fabric,
                 .collective = collective,
                 .terminal_of = std::vector<uint32_t>(old.fabric().nodes().size(), OldPlan::kLost),
                 .chunks = {}};
  for (uint32_t t = 0; t < collective.participants().size(); ++t) {
    const auto before = old.fabric().find(fabric.name(collective.participants()[t]));
    placed.terminal_of[index(*before)] = t;
  }
  for (size_t c = 0; c < old.chunk_count(); ++c) {
    if (!placed.is_lost(old.chunk(c).root)) placed.chunks.push_back(c);
  }
  return placed;
}

std::vector<bool> directions_of(const Collective& collective) {
  if (!collective.spreads()) return {true};
  if (!collective.reduces()) return {false};
  return {true, false};
}

Fraction rounded_up(const Fraction& factor) {
  const Fraction parts = factor * Fraction(kFactorParts);
  return Fraction((parts.numerator() + parts.denominator() - 1) / parts.denominator(), kFactorParts);
}

// How many times the new bound may be taken.
Fraction allowed_factor(const Schedule& old, const RepairOptions& options) {
  const Fraction least = compute_bound(old.fabric(), old.collective(), options.observer).seconds_per_byte;
  const Fraction allowed = Fraction(1) + options.most_cost, before = seconds_per_byte(old);
  return before <= least * allowed ? allowed : rounded_up(before / least);
}

// Repairs what can be repaired of one plan, in this room.
class Repairer {
 public:
  Repairer(const OldPlan& old, const Rooms& rooms, const Fraction& most_cost, PlanObserver* observer)
      : old_(old), rooms_(rooms), most_cost_(most_cost) {
    for (const bool gathering : directions_of(old.collective)) directions_.emplace_back(old, gathering, observer);
    total_ = std::accumulate(directions_[0].supply().begin(), directions_[0].supply().end(), int64_t{0});
  }

  // False when nothing can be kept in `factor` times the time of the rooms.
  bool repair(const Fraction& factor) {
    if (!is_countable(1)) return false;
    // Units are cut as fine as it takes for the time of the rooms to suffice.
    set_scale(choose_scale());
    for (size_t d = 0; d < directions_.size(); ++d) {
      const ArcCapacities capacities = capacities_of(d, scale_);
      // Each direction keeps what it can in `factor` times its time. Capacities are rounded down, which may cost a
      // little more.
      const Fraction least = least_time(d, capacities);
      auto outcome = directions_[d].repair(capacities, least, std::max(least, time_at(d, scale_) * factor));
      if (!outcome) return false;
      outcomes_.push_back(std::move(*outcome));
    }
    return true;
  }

  void write(Repair& result) const;

 private:
  // Sums over arcs and trees stay below 2^61.
  bool is_countable(int64_t scale) const {
    int128 most = total_;
    for (const Direction& direction : directions_)
      most = std::max(most, int128{total_} * direction.network().arcs().size() *
                                (direction.network().terminal_count() + int64_t{1}));
    return most * scale <= int128{1} << 61;
  }

  void set_scale(int64_t scale) {
    for (Direction& direction : directions_) direction.set_scale(scale);
    scale_ = scale;
  }

  ArcCapacities capacities_of(size_t d, int64_t scale) const {
    return {.rates = rooms_.rooms[d].rates,
            .most = total_ * scale * (directions_[d].network().terminal_count() + int64_t{1})};
  }

  Fraction time_at(size_t d, int64_t scale) const { return rooms_.rooms[d].time * Fraction(scale); }

  // The scale at which the time of the rooms suffices exactly, or nearly.
  int64_t choose_scale() {
    // A scale suffices if everything could be packed anew in the time of the rooms, whatever stays.
    const auto suffices = [&](int64_t scale, const Fraction& factor) {
      for (size_t d = 0; d < directions_.size(); ++d) {
        if (!directions_[d].suffices(capacities_of(d, scale), time_at(d, scale) * factor, scale)) return false;
      }
      return true;
    };
    // 1. A small scale at which the time suffices exactly.
    for (int64_t scale = 1; scale <= kMaxExactScale && is_countable(scale); ++scale) {
      if (suffices(scale, Fraction(1))) return scale;
    }
    // 2. Else powers of two, until little is lost by rounding.
    const Fraction nearly = Fraction(1) + most_cost_ / Fraction(kRoundingPart);
    int64_t scale = 1;
    while (scale < kMaxScale && is_countable(2 * scale) && !suffices(scale, nearly)) scale *= 2;
    return scale;
  }

  // In which everything could be packed anew.
  Fraction least_time(size_t d, const ArcCapacities& capacities) const {
    const Direction& direction = directions_[d];
    TreeKeeper keeper(direction.network(), capacities, direction.supply(), direction.trees());
    return keeper.least_time_of_none(time_at(d, scale_));
  }

  const OldPlan& old_;
  const Rooms& rooms_;
  const Fraction most_cost_;
  std::vector<Direction> directions_;
  std::vector<Direction::Outcome> outcomes_;
  int64_t total_ = 0, scale_ = 1;  // old units of all chunks
};

// A piece of a chunk in one direction: some units of one tree, which the old plan had, if not all edges of it, or which
// is new.
struct Piece {
  int64_t units = 0;
  bool is_old = false;
  size_t tree = 0;  // the place of the chunk in OldPlan::chunks, or in the packing
  bool is_same_tree(const Piece& other) const { return is_old == other.is_old && tree == other.tree; }
};

// The trees of one direction, piece by piece, in the order of the old chunks: each tree that stays or is patched where
// it was, the new ones where others have been.
class Pieces {
 public:
  Pieces(const Direction& direction, const Direction::Outcome& outcome)
      : direction_(direction), outcome_(outcome), next_(direction.network().terminal_count(), 0) {
    const auto& trees = outcome.packing.trees;  // sorted by root
    for (uint32_t root = 0; root < next_.size(); ++root) {
      next_[root] = static_cast<size_t>(
          std::ranges::find_if(trees, [&](const PackedTree& tree) { return tree.root >= root; }) - trees.begin());
    }
    for (const PackedTree& tree : trees) left_.push_back(tree.units);
  }

  std::vector<Piece> of(size_t place) {
    const TreeKeeper::Tree& old = direction_.trees()[place];
    if (outcome_.fates[place] != Direction::Fate::moved) return {{.units = old.units, .is_old = true, .tree = place}};
    // A tree that moves is replaced by new trees of its root, in their order, of as many units.
    std::vector<Piece> pieces;
    size_t& next = next_[old.root];
    for (int64_t owed = old.units; owed > 0;) {
      CHECK(next < left_.size() && outcome_.packing.trees[next].root == old.root) << "new trees are missing";
      const int64_t units = std::min(owed, left_[next]);
      pieces.push_back({.units = units, .is_old = false, .tree = next});
      owed -= units;
      if ((left_[next] -= units) == 0) ++next;
    }
    return pieces;
  }

 private:
  const Direction& direction_;
  const Direction::Outcome& outcome_;
  std::vector<size_t> next_;  // by root: its first new tree that is not used up
  std::vector<int64_t> left_;
};

// A chunk of the repaired plan: an index by direction.
struct NewChunk {
  uint32_t root = 0;
  int64_t units = 0;
  std::vector<Piece> pieces;        // one for each direction
  std::optional<size_t> kept_from;  // chunk of the old plan
};

// Cuts the pieces of all directions of an old chunk at the same places.
std::vector<NewChunk> join(std::vector<std::vector<Piece>> by_direction) {
  std::vector<NewChunk> chunks;
  std::vector<size_t> at(by_direction.size(), 0);
  while (at[0] < by_direction[0].size()) {
    // A chunk lasts until some direction changes its tree.
    NewChunk chunk{.units = INT64_MAX, .pieces = {}, .kept_from = {}};
    for (size_t d = 0; d < at.size(); ++d) chunk.units = std::min(chunk.units, by_direction[d][at[d]].units);
    for (size_t d = 0; d < at.size(); ++d) {
      Piece& piece = by_direction[d][at[d]];
      chunk.pieces.push_back(piece);
      if ((piece.units -= chunk.units) == 0) ++at[d];
    }
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

// Puts old and new trees into a schedule, each route once.
class RepairWriter {
 public:
  RepairWriter(const OldPlan& old, const std::vector<Direction>& directions,
               const std::vector<Direction::Outcome>& outcomes)
      : old_(old), directions_(directions), outcomes_(outcomes), builder_(old.fabric, old.collective) {}

  void add(const NewChunk& chunk, uint64_t units) {
    std::vector<RouteId> trees[2];  // in, out
    std::vector<uint32_t> steps[2];
    for (size_t d = 0; d < directions_.size(); ++d) {
      const size_t side = directions_[d].gathering() ? 0 : 1;
      if (chunk.pieces[d].is_old) {
        write_old(d, chunk.pieces[d].tree, trees[side], steps[side]);
      } else {
        write_new(d, chunk.pieces[d].tree, trees[side]);
      }
    }
    builder_.add_chunk({.root = directions_[0].network().node_of(chunk.root),
                        .units = units,
                        .in_tree = trees[0],
                        .out_tree = trees[1],
                        .in_steps = steps[0],
                        .out_steps = steps[1]});
  }

  Schedule build() && { return std::move(builder_).build(); }

 private:
  RouteId route_along(const Direction& direction, std::span<const uint32_t> arcs) {
    std::vector<LinkId> links;
    for (const uint32_t arc : arcs) links.push_back(direction.network().arcs()[arc].link);
    if (direction.gathering()) std::reverse(links.begin(), links.end());
    // Routes of old and new trees that are the same are one.
    const auto [place, is_new] = routes_.try_emplace(links, RouteId{});
    if (is_new) place->second = builder_.add_route(links);
    return place->second;
  }

  void write_old(size_t d, size_t place, std::vector<RouteId>& tree, std::vector<uint32_t>& steps) {
    const Direction& direction = directions_[d];
    const bool stays = outcomes_[d].fates[place] == Direction::Fate::stays;
    const Chunk chunk = old_.schedule.chunk(old_.chunks[place]);
    const auto old_steps = direction.gathering() ? chunk.in_steps : chunk.out_steps;
    std::vector<PathEdge> edges = outcomes_[d].edges[place];
    // As they stood, where all edges are old ones.
    if (stays) std::ranges::sort(edges, {}, &PathEdge::origin);
    if (!stays && direction.gathering()) std::reverse(edges.begin(), edges.end());
    for (const PathEdge& edge : edges) {
      tree.push_back(route_along(direction, edge.arcs));
      // Steps of a schedule hold only for trees that stay as they were.
      if (stays && !old_steps.empty()) steps.push_back(old_steps[edge.origin]);
    }
  }

  void write_new(size_t d, size_t packed, std::vector<RouteId>& tree) {
    const Packing& packing = outcomes_[d].packing;
    const Direction& direction = directions_[d];
    for (const uint32_t path : packing.trees[packed].paths) {
      tree.push_back(route_along(direction, packing.paths.path(path)));
    }
    if (direction.gathering()) std::reverse(tree.begin(), tree.end());
  }

  const OldPlan& old_;
  const std::vector<Direction>& directions_;
  const std::vector<Direction::Outcome>& outcomes_;
  Schedule::Builder builder_;
  std::map<std::vector<LinkId>, RouteId> routes_;
};

void count_edges(std::span<const PathEdge> edges, Repair& result) {
  for (const PathEdge& edge : edges) {
    ++result.edges_of_patched;
    if (edge.origin == SIZE_MAX) ++result.edges_replaced;
  }
}

void Repairer::write(Repair& result) const {
  std::vector<Pieces> pieces;
  for (size_t d = 0; d < directions_.size(); ++d) pieces.emplace_back(directions_[d], outcomes_[d]);
  std::vector<NewChunk> chunks;
  for (size_t place = 0; place < old_.chunks.size(); ++place) {
    // 1. The pieces of the old chunk, direction by direction, and what became of its trees.
    std::vector<std::vector<Piece>> by_direction;
    bool stays = true;
    for (size_t d = 0; d < directions_.size(); ++d) {
      by_direction.push_back(pieces[d].of(place));
      const Direction::Fate fate = outcomes_[d].fates[place];
      stays &= fate == Direction::Fate::stays;
      ++(fate == Direction::Fate::stays     ? result.trees_kept
         : fate == Direction::Fate::patched ? result.trees_patched
                                            : result.trees_moved);
      if (fate == Direction::Fate::patched) count_edges(outcomes_[d].edges[place], result);
    }
    // 2. Both directions of an allreduce are joined again into chunks.
    for (NewChunk& chunk : join(std::move(by_direction))) {
      chunk.root = directions_[0].trees()[place].root;
      if (stays) chunk.kept_from = old_.chunks[place];
      // Parts of one new tree that follow each other are one chunk.
      NewChunk* const last = chunks.empty() ? nullptr : &chunks.back();
      const bool goes_on = last && last->root == chunk.root &&
                           std::ranges::equal(last->pieces, chunk.pieces, [](const Piece& a, const Piece& b) {
                             return a.is_same_tree(b) && !a.is_old;
                           });
      if (goes_on) {
        last->units += chunk.units;
      } else {
        chunks.push_back(std::move(chunk));
      }
    }
  }
  // 3. Units in lowest terms, and the schedule.
  int64_t common = 0;
  for (const NewChunk& chunk : chunks) common = std::gcd(common, chunk.units);
  RepairWriter writer(old_, directions_, outcomes_);
  for (const NewChunk& chunk : chunks) {
    writer.add(chunk, static_cast<uint64_t>(chunk.units / common));
    result.kept_from.push_back(chunk.kept_from);
  }
  result.schedule = std::move(writer).build();
}

// What the ranks that are left root in the old plan, and what its trees load on the arcs that are still there.
WishedShares old_loads(const OldPlan& old, const Network& network) {
  WishedShares wish{.supply = std::vector<int64_t>(network.terminal_count(), 0), .gather = {}, .spread = {}};
  std::vector<int64_t> gather(old.fabric.links().size(), 0), spread = gather;
  for (const size_t c : old.chunks) {
    const Chunk chunk = old.schedule.chunk(c);
    const auto units = static_cast<int64_t>(chunk.units);
    wish.supply[old.terminal_of[index(chunk.root)]] += units;
    const auto add = [&](std::span<const RouteId> tree, std::vector<int64_t>& by_link) {
      for (const RouteId id : tree) {
        for (const LinkId link : old.schedule.route(id).links) {
          // Links that are gone count for nothing.
          if (const auto now = old.links.now[index(link)]) by_link[index(*now)] += units;
        }
      }
    };
    add(chunk.in_tree, gather);
    add(chunk.out_tree, spread);
  }
  for (const Arc& arc : network.arcs()) {
    wish.gather.push_back(gather[index(arc.link)]);
    wish.spread.push_back(spread[index(arc.link)]);
  }
  return wish;
}

// Room for both directions of an allreduce at once, in which all can be packed anew in `most` seconds per byte. First
// on the shares of the best plan, whose roots may be others; then on shares for the old roots.
std::optional<Rooms> shared_rooms(const OldPlan& old, const Overlap& overlap, const Network& network,
                                  const Fraction& most, PlanObserver* observer) {
  if (!overlap.shares) return std::nullopt;
  // The shares of the best new plan come first: if the old roots can be kept with them nothing is lost.
  WishedShares wish = old_loads(old, network);
  if (auto rooms = on_shares(network, *overlap.shares, wish.supply); rooms && rooms->seconds_per_byte <= most)
    return rooms;
  // Else shares for the old roots: at the bound, and then at a part of the time that may be lost.
  const Fraction bound = overlap.witness.bound;
  for (const Fraction& time : {bound, bound + (most - bound) * kPartForRoots}) {
    wish.room = most / time;
    const auto shares = shares_for(old.fabric, old.collective, time, wish, observer);
    if (!shares) continue;
    if (auto rooms = on_shares(network, *shares, wish.supply); rooms && rooms->seconds_per_byte <= most) return rooms;
  }
  return std::nullopt;
}

void forget(Repair& result) {
  result.trees_kept = result.trees_patched = result.trees_moved = result.edges_of_patched = result.edges_replaced = 0;
  result.kept_from.clear();
}

// Tries the whole links and shares of them, the faster first. False when all has to be planned anew.
bool repair_in_some_room(const OldPlan& old, const std::optional<Overlap>& overlap, const RepairOptions& options,
                         Repair& result) {
  PlanObserver* const observer = options.observer;
  const Network network(old.fabric, old.collective, false);
  const std::vector<int64_t> supply = old_loads(old, network).supply;
  std::vector<Rooms> tried{
      whole_links(old.fabric, old.collective, std::accumulate(supply.begin(), supply.end(), int64_t{0}), observer)};
  // Where the search for shares was given up, a new plan would need what the whole links do.
  const bool gave_up = overlap && !overlap->shares;
  const Fraction least = gave_up ? tried.front().seconds_per_byte : result.bound.seconds_per_byte;
  const Fraction most = least * allowed_factor(old.schedule, options);
  // Both directions at once are worth a try only if the bound is below what they need one after the other.
  if (overlap && least < tried.front().seconds_per_byte) {
    if (auto shared = shared_rooms(old, *overlap, network, most, observer)) tried.push_back(std::move(*shared));
  }
  std::ranges::stable_sort(tried, {}, &Rooms::seconds_per_byte);
  if (observer) observer->phase_begins(PlanObserver::Phase::packing);
  // Rooms that are faster come first. A repair that comes out slower than allowed is forgotten.
  for (const Rooms& rooms : tried) {
    if (rooms.seconds_per_byte > most) break;
    Repairer repairer(old, rooms, options.most_cost, observer);
    if (!repairer.repair(most / rooms.seconds_per_byte)) continue;
    repairer.write(result);
    result.seconds_per_byte = seconds_per_byte(result.schedule);
    if (result.seconds_per_byte <= most) return true;
    forget(result);
  }
  return false;
}

}  // namespace

Repair repair_plan(const Schedule& old, const Fabric& fabric, const RepairOptions& options) {
  const auto begin = [&](PlanObserver::Phase phase) {
    if (options.observer) options.observer->phase_begins(phase);
  };
  if (old.collective().is_personal()) {
    throw Error(ErrorCode::unsupported, "a plan of " + std::string(to_string(old.collective().kind())) +
                                            " is not repaired; plan anew, which takes no longer");
  }
  // 1. The rest of the old plan: links and ranks by name.
  LinkMatch links = match_links(old.fabric(), fabric);
  std::vector<std::string> lost;
  const Collective collective = collective_of(old, fabric, lost);
  begin(PlanObserver::Phase::bound);
  // 2. The bound of the changed fabric.
  std::optional<Overlap> overlap;
  Bound bound;
  if (collective.kind() == CollectiveKind::all_reduce) {
    overlap = solve_overlap(fabric, collective, options.observer);
    bound = {.seconds_per_byte = overlap->witness.bound, .witness = overlap->witness};
  } else {
    bound = compute_bound(fabric, collective, options.observer);
  }
  // 3. The repair; if nothing can be kept in the time that is allowed, a new plan.
  const OldPlan placed = place_old_plan(old, links, fabric, collective);
  Repair result{.schedule = old,
                .bound = std::move(bound),
                .seconds_per_byte = {},
                .seconds_per_byte_before = seconds_per_byte(old),
                .links = std::move(links.changes),
                .lost_ranks = std::move(lost)};
  const bool repaired = !placed.chunks.empty() && repair_in_some_room(placed, overlap, options, result);
  if (!repaired) {
    ForestPlan anew = plan_forest(fabric, collective, {.observer = options.observer});
    result.trees_moved = placed.chunks.size() * directions_of(collective).size();
    result.schedule = std::move(anew.schedule);
    result.seconds_per_byte = anew.seconds_per_byte;
    result.bound = std::move(anew.bound);
  }
  result.optimal = result.seconds_per_byte <= result.bound.seconds_per_byte;
  return result;
}

}  // namespace banyan::plan
