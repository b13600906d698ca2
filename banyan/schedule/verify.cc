#include "banyan/schedule/verify.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::schedule {
namespace {

using uint128 = unsigned __int128;

constexpr const char *kInTree = "in-tree", *kOutTree = "out-tree";

// Thrown and caught in this file only: the first thing that is wrong.
struct Objection {
  std::string reason;
};

[[noreturn]] void object(std::string reason) { throw Objection{std::move(reason)}; }

// One tree walked front to back. Arrays over nodes are kept between trees and told apart by stamps, so that a chunk
// costs as much as it has edges.
class Verifier {
 public:
  explicit Verifier(const Schedule& schedule)
      : schedule_(schedule),
        fabric_(schedule.fabric()),
        collective_(schedule.collective()),
        takes_part_(fabric_.nodes().size(), false),
        done_(fabric_.nodes().size(), 0),
        active_(fabric_.nodes().size(), 0),
        last_step_(fabric_.nodes().size(), 0),
        step_stamp_(fabric_.nodes().size(), 0),
        route_units_(schedule.route_count(), 0) {
    for (const NodeId id : collective_.participants()) takes_part_[index(id)] = true;
  }

  Verdict run() {
    check_routes();
    for (size_t i = 0; i < schedule_.chunk_count(); ++i) check_chunk(i);
    check_shares();
    return busiest_link();
  }

 private:
  const std::string& name(NodeId id) const { return fabric_.name(id); }
  std::string edge_text(const Route& route) const { return name(route.from) + " -> " + name(route.to); }

  void check_routes();
  void check_chunk(size_t number);
  void check_ends(const Route& route, const char* tree) const;
  void check_size(const char* what, size_t edges, size_t switches) const;
  void check_path(const Chunk& chunk);
  [[noreturn]] void object_to_idle_switch(const Chunk& chunk) const;
  void check_in_tree(const Chunk& chunk);
  void check_out_tree(const Chunk& chunk);
  void check_shares() const;
  void check_traffic() const;
  void count(const Chunk& chunk);
  Verdict busiest_link() const;

  NodeId missing() const;
  uint32_t step_at(NodeId id) const { return step_stamp_[index(id)] == chunk_stamp_ ? last_step_[index(id)] : 0; }
  void check_step(uint32_t step, uint32_t before, const Route& route) const;
  // Objects to the chunk at hand.
  [[noreturn]] void object_to_chunk(const std::string& what) const;
  void raise_step(NodeId id, uint32_t step) {
    last_step_[index(id)] = std::max(step, step_at(id));
    step_stamp_[index(id)] = chunk_stamp_;
  }

  const Schedule& schedule_;
  const Fabric& fabric_;
  const Collective& collective_;
  std::vector<bool> takes_part_;
  std::vector<uint32_t> done_;  // by node: stamp of the tree in which it last had the data, or sent its own on
  // By node: stamp of the in-tree in which something came to it, or of the out-tree in which it sent something on.
  std::vector<uint32_t> active_;
  uint32_t tree_stamp_ = 0;
  size_t chunk_number_ = 0;
  std::vector<uint32_t> last_step_;   // by node: the largest step of this chunk's hops that come before its next
  std::vector<uint32_t> step_stamp_;  // by node: the chunk that last_step_ is about
  uint32_t chunk_stamp_ = 0;
  std::vector<uint64_t> route_units_;  // below 2^64: a chunk that has passed uses a route once in each of its trees
};

void Verifier::check_routes() {
  std::vector<uint32_t> stamp(fabric_.links().size(), 0);
  for (uint32_t r = 0; r < schedule_.route_count(); ++r) {
    const Route route = schedule_.route(RouteId{r});
    const auto subject = [&] { return "route " + std::to_string(r) + " (" + edge_text(route) + "): "; };
    CHECK(!route.links.empty()) << "route " << r;
    NodeId at = route.from;
    for (size_t i = 0; i < route.links.size(); ++i) {
      const LinkId id = route.links[i];
      CHECK(index(id) < stamp.size()) << "link " << index(id);
      const Link& link = fabric_.link(id);
      if (link.from != at) object(subject() + "jumps from " + name(at) + " to " + name(link.from));
      if (stamp[index(id)] == r + 1)
        object(subject() + "crosses link " + name(link.from) + " -> " + name(link.to) + " twice");
      stamp[index(id)] = r + 1;
      at = link.to;
      if (i + 1 < route.links.size() && fabric_.is_rank(at)) {
        object(subject() + "passes through rank " + name(at) + "; only switches can lie inside a route");
      }
    }
    CHECK(at == route.to) << "route " << r << " ends elsewhere";
    for (const NodeId end : {route.from, route.to}) {
      const Node& node = fabric_.node(end);
      if (!fabric_.is_rank(end) && !node.multicast && !node.reduce)
        object(subject() + "ends at switch " + name(end) + ", which neither multicasts nor reduces");
    }
    if (route.from == route.to) object(subject() + "comes back to where it starts");
  }
}

void Verifier::object_to_chunk(const std::string& what) const {
  object("chunk " + std::to_string(chunk_number_) + " (root " + name(schedule_.chunk(chunk_number_).root) +
         "): " + what);
}

void Verifier::check_chunk(size_t number) {
  chunk_number_ = number;
  ++chunk_stamp_;
  const Chunk chunk = schedule_.chunk(number);
  CHECK(takes_part_[index(chunk.root)] && chunk.units > 0) << "chunk " << number;
  const bool gathers = collective_.reduces(), spreads = collective_.spreads();
  const std::string kind(to_string(collective_.kind()));
  if (!gathers && !chunk.in_tree.empty()) object_to_chunk("has an in-tree, but " + kind + " reduces nothing");
  if (!spreads && !chunk.out_tree.empty()) object_to_chunk("has an out-tree, but " + kind + " spreads nothing");
  if (gathers) check_in_tree(chunk);
  if (spreads) check_out_tree(chunk);
  if (collective_.is_personal()) check_path(chunk);
  count(chunk);
}

void Verifier::check_ends(const Route& route, const char* tree) const {
  const bool spreads = tree == kOutTree;
  for (const NodeId end : {route.from, route.to}) {
    const Node& node = fabric_.node(end);
    if (takes_part_[index(end)] || (!collective_.is_personal() && (spreads ? node.multicast : node.reduce))) continue;
    const char* const why = fabric_.is_rank(end) ? ", which does not take part"
                            : spreads            ? ", a switch that does not multicast"
                                                 : ", a switch that does not reduce";
    object_to_chunk(std::string(tree) + " edge " + edge_text(route) + " touches " + name(end) + why);
  }
}

// Of a tree of which each edge has added a node, or sent from another one: whether it has all participants.
void Verifier::check_size(const char* what, size_t edges, size_t switches) const {
  if (edges + 1 == collective_.participants().size() + switches) return;
  object_to_chunk(std::string(what) + name(missing()));
}

// The out-tree was found to be a tree of participants.
void Verifier::check_path(const Chunk& chunk) {
  for (size_t i = 1; i < chunk.out_tree.size(); ++i) {
    const Route before = schedule_.route(chunk.out_tree[i - 1]), route = schedule_.route(chunk.out_tree[i]);
    if (route.from != before.to)
      object_to_chunk("is for one rank, but its path branches at " + name(route.from) + " towards " + name(route.to));
  }
}

void Verifier::check_step(uint32_t step, uint32_t before, const Route& route) const {
  if (step == 0 || step > before) return;
  object_to_chunk("hop " + edge_text(route) + " is tied to step " + std::to_string(step) +
                  ", but an earlier hop to step " + std::to_string(before));
}

// The participant that the tree just walked left out; there is one, because each edge added one and they are too few.
NodeId Verifier::missing() const {
  const auto participants = collective_.participants();
  const auto found = std::ranges::find_if(participants, [&](NodeId id) { return done_[index(id)] != tree_stamp_; });
  CHECK(found != participants.end());
  return *found;
}

// From child to parent: every participant but the root sends once, after everything for it has arrived. A parent that
// has not sent yet sends later, so that following parents goes forward in the list and ends at the root. So does a
// switch, which sends what has come to it.
void Verifier::check_in_tree(const Chunk& chunk) {
  ++tree_stamp_;
  size_t switches = 0;
  for (size_t i = 0; i < chunk.in_tree.size(); ++i) {
    const Route route = schedule_.route(chunk.in_tree[i]);
    check_ends(route, kInTree);
    if (route.from == chunk.root) object_to_chunk("in-tree sends from the root to " + name(route.to));
    if (done_[index(route.from)] == tree_stamp_) object_to_chunk("in-tree counts " + name(route.from) + " twice");
    if (done_[index(route.to)] == tree_stamp_) {
      object_to_chunk("in-tree brings " + name(route.from) + " to " + name(route.to) +
                      ", which has already sent its part on");
    }
    done_[index(route.from)] = tree_stamp_;
    if (!fabric_.is_rank(route.from)) {
      if (active_[index(route.from)] != tree_stamp_)
        object_to_chunk("in-tree sends from switch " + name(route.from) + ", to which nothing has come");
      ++switches;
    }
    active_[index(route.to)] = tree_stamp_;
    const uint32_t step = chunk.in_steps.empty() ? 0 : chunk.in_steps[i], before = step_at(route.from);
    check_step(step, before, route);
    raise_step(route.to, std::max(step, before));
  }
  done_[index(chunk.root)] = tree_stamp_;
  for (const RouteId id : chunk.in_tree) {
    const NodeId to = schedule_.route(id).to;
    if (!fabric_.is_rank(to) && done_[index(to)] != tree_stamp_) object_to_chunk("in-tree ends at switch " + name(to));
  }
  check_size("in-tree does not collect from ", chunk.in_tree.size(), switches);
}

// From parent to child: every participant but the root gets the data once, from one that has it.
void Verifier::check_out_tree(const Chunk& chunk) {
  ++tree_stamp_;
  size_t switches = 0, branching = 0;
  done_[index(chunk.root)] = tree_stamp_;
  for (size_t i = 0; i < chunk.out_tree.size(); ++i) {
    const Route route = schedule_.route(chunk.out_tree[i]);
    check_ends(route, kOutTree);
    if (done_[index(route.from)] != tree_stamp_) {
      object_to_chunk("out-tree sends from " + name(route.from) + " to " + name(route.to) + " before " +
                      name(route.from) + " has the data");
    }
    if (done_[index(route.to)] == tree_stamp_) object_to_chunk("out-tree reaches " + name(route.to) + " twice");
    done_[index(route.to)] = tree_stamp_;
    if (!fabric_.is_rank(route.to)) ++switches;
    if (!fabric_.is_rank(route.from) && active_[index(route.from)] != tree_stamp_) {
      active_[index(route.from)] = tree_stamp_;
      ++branching;
    }
    // An in-tree has left its steps behind; none is above the root's, which every node here inherits.
    const uint32_t step = chunk.out_steps.empty() ? 0 : chunk.out_steps[i], before = step_at(route.from);
    check_step(step, before, route);
    raise_step(route.to, std::max(step, before));
  }
  if (!collective_.is_personal()) check_size("out-tree does not reach ", chunk.out_tree.size(), switches);
  if (branching < switches) object_to_idle_switch(chunk);
}

// Of an out-tree in which some switch has no children.
void Verifier::object_to_idle_switch(const Chunk& chunk) const {
  for (const RouteId id : chunk.out_tree) {
    const NodeId to = schedule_.route(id).to;
    if (!fabric_.is_rank(to) && active_[index(to)] != tree_stamp_)
      object_to_chunk("out-tree leads to switch " + name(to) + ", which sends it to nobody");
  }
  CHECK(false) << "every switch of chunk " << chunk_number_ << " has children";
  std::abort();
}

void Verifier::count(const Chunk& chunk) {
  for (const RouteId id : chunk.in_tree) route_units_[index(id)] += chunk.units;
  for (const RouteId id : chunk.out_tree) route_units_[index(id)] += chunk.units;
}

// Chunks of a participant must lie in its own shard, and together be as much of the buffer as that. It follows that
// element_range() and shard_range() agree to the last element.
void Verifier::check_shares() const {
  const auto participants = collective_.participants();
  const uint64_t total = schedule_.total_units(), total_weight = collective_.total_weight();
  std::vector<uint64_t> rooted(fabric_.nodes().size(), 0), begin(fabric_.nodes().size(), 0);
  uint64_t end = 0;
  for (size_t i = 0; i < schedule_.chunk_count(); ++i) {
    const Chunk chunk = schedule_.chunk(i);
    CHECK_EQ(chunk.offset_units, end) << "chunk " << i;
    if (rooted[index(chunk.root)] == 0) begin[index(chunk.root)] = end;
    rooted[index(chunk.root)] += chunk.units;
    end += chunk.units;
  }
  CHECK_EQ(end, total);
  if (collective_.is_personal()) return check_traffic();
  if (!collective_.fixes_roots()) return;
  uint64_t weight_before = 0;
  for (size_t p = 0; p < participants.size(); ++p) {
    const uint64_t weight = collective_.weights()[p], units = rooted[index(participants[p])];
    if (uint128{units} * total_weight != uint128{weight} * total) {
      object("root " + name(participants[p]) + " has " + std::to_string(units) + " of " + std::to_string(total) +
             " units, but " + std::string(to_string(collective_.kind())) + " gives it " + std::to_string(weight) +
             " of " + std::to_string(total_weight) + " parts");
    }
    if (units > 0) {
      CHECK(uint128{begin[index(participants[p])]} * total_weight == uint128{weight_before} * total)
          << "the shard of " << name(participants[p]) << " does not lie where it belongs";
    }
    weight_before += weight;
  }
}

// Chunks of one root and target must stand together and be as much as the traffic between these.
void Verifier::check_traffic() const {
  const auto participants = collective_.participants();
  const size_t ranks = participants.size();
  std::vector<size_t> participant_of(fabric_.nodes().size(), 0);
  for (size_t p = 0; p < ranks; ++p) participant_of[index(participants[p])] = p;
  const auto pair_of = [&](size_t i) {
    return participant_of[index(schedule_.chunk(i).root)] * ranks + participant_of[index(schedule_.target(i))];
  };
  size_t i = 0;
  for (size_t pair = 0; pair < ranks * ranks; ++pair) {
    const size_t from = pair / ranks, to = pair % ranks;
    uint64_t units = 0;
    for (; i < schedule_.chunk_count() && pair_of(i) == pair; ++i) units += schedule_.chunk(i).units;
    if (from == to) continue;
    const uint64_t traffic = collective_.traffic(from, to);
    if (uint128{units} * collective_.total_weight() == uint128{traffic} * schedule_.total_units()) continue;
    object("from " + name(participants[from]) + " to " + name(participants[to]) + " go " + std::to_string(units) +
           " of " + std::to_string(schedule_.total_units()) + " units, but the traffic is " + std::to_string(traffic) +
           " of " + std::to_string(collective_.total_weight()) + " parts");
  }
  CHECK_EQ(i, schedule_.chunk_count()) << "chunks do not stand in the order of roots and targets";
}

// Whether a/b > c/d. Loads are below 2^84 and bandwidths below 2^50, so whole parts first keep products within 128
// bits.
bool is_above(uint128 a, uint64_t b, uint128 c, uint64_t d) {
  const uint128 left = a / b, right = c / d;
  return left != right ? left > right : (a % b) * d > (c % d) * b;
}

Verdict Verifier::busiest_link() const {
  std::vector<uint128> loads(fabric_.links().size(), 0);
  for (uint32_t r = 0; r < schedule_.route_count(); ++r) {
    if (route_units_[r] == 0) continue;
    for (const LinkId id : schedule_.route(RouteId{r}).links) loads[index(id)] += route_units_[r];
  }
  const auto bandwidth = [&](size_t link) { return fabric_.links()[link].bandwidth.bytes_per_second(); };
  size_t busiest = 0;
  for (size_t i = 1; i < loads.size(); ++i) {
    if (is_above(loads[i], bandwidth(i), loads[busiest], bandwidth(busiest))) busiest = i;
  }
  // Units are at most 2^62 and bandwidths below 2^50: the denominator fits.
  const Fraction of_chunks(static_cast<int128>(loads[busiest]),
                           static_cast<int128>(schedule_.total_units()) * static_cast<int128>(bandwidth(busiest)));
  return {.valid = true,
          .seconds_per_byte = of_chunks * collective_.carried_per_byte(),
          .busiest = LinkId{static_cast<uint32_t>(busiest)}};
}

}  // namespace

Verdict verify(const Schedule& schedule, const std::optional<Fraction>& claim) {
  try {
    Verdict verdict = Verifier(schedule).run();
    if (claim && *claim != verdict.seconds_per_byte) {
      const Link& link = schedule.fabric().link(verdict.busiest);
      verdict.valid = false;
      verdict.reason = "claims " + claim->to_string() + " seconds per byte, but link " +
                       schedule.fabric().name(link.from) + " -> " + schedule.fabric().name(link.to) + " needs " +
                       verdict.seconds_per_byte.to_string();
    }
    return verdict;
  } catch (const Objection& objection) {
    return {.valid = false, .reason = objection.reason};
  } catch (const Error& error) {
    return {.valid = false, .reason = error.message()};  // a fraction that does not fit
  }
}

}  // namespace banyan::schedule
