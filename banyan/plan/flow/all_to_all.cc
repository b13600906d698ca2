#include "banyan/plan/flow/all_to_all.h"

#include <algorithm>
#include <unordered_map>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/hash.h"
#include "banyan/plan/flow/concurrent_flow.h"

namespace banyan::plan {
namespace {

Demand demand_of(const Collective& collective) {
  const uint32_t ranks = static_cast<uint32_t>(collective.participants().size());
  if (!collective.has_traffic()) return Demand::uniform(ranks);
  std::vector<uint64_t> amounts;
  for (uint32_t s = 0; s < ranks; ++s) {
    for (uint32_t t = 0; t < ranks; ++t) amounts.push_back(collective.traffic(s, t));
  }
  return Demand(ranks, std::move(amounts));
}

// Of the traffic, in a byte of M.
Fraction parts_per_byte(const Collective& collective) {
  return collective.carried_per_byte() / Fraction(static_cast<int128>(collective.total_weight()), 1);
}

// Cuts paths into hops, and stores equal hops once.
class ScheduleWriter {
 public:
  ScheduleWriter(const Fabric& fabric, const Collective& collective, const Network& network)
      : network_(network), builder_(fabric, collective), forwarded_(network.terminal_count(), 0) {}

  void add(const PathFlows::Path& path) {
    hops_.clear();
    steps_.clear();
    for (size_t begin = 0, end = 0; begin < path.arcs.size(); begin = end) {
      // A hop ends at the next terminal. Hop h is tied to step h.
      do ++end;
      while (!network_.is_terminal(network_.arcs()[path.arcs[end - 1]].head));
      hops_.push_back(route(path.arcs.subspan(begin, end - begin)));
      steps_.push_back(static_cast<uint32_t>(hops_.size()));
      // A rank in the middle of the path may have to hold what it forwards.
      if (end < path.arcs.size()) forwarded_[network_.arcs()[path.arcs[end - 1]].head] += path.amount;
    }
    builder_.add_chunk({.root = network_.node_of(path.source),
                        .units = static_cast<uint64_t>(path.amount),
                        .out_tree = hops_,
                        .out_steps = steps_});
  }

  int128 most_forwarded() const { return *std::max_element(forwarded_.begin(), forwarded_.end()); }
  Schedule finish() && { return std::move(builder_).build(); }

 private:
  RouteId route(std::span<const uint32_t> arcs) {
    // Equal hops of many paths are one route: found by a hash, and compared arc by arc.
    uint64_t key = arcs.size();
    for (const uint32_t a : arcs) key = mix(key, a);
    std::vector<Known>& known = routes_[key];
    for (const Known& other : known) {
      if (std::ranges::equal(std::span(arcs_).subspan(other.begin, arcs.size()), arcs)) return other.id;
    }
    links_.clear();
    for (const uint32_t a : arcs) links_.push_back(network_.arcs()[a].link);
    known.push_back({.begin = arcs_.size(), .id = builder_.add_route(links_)});
    arcs_.insert(arcs_.end(), arcs.begin(), arcs.end());
    return known.back().id;
  }

  struct Known {
    size_t begin = 0;  // in arcs_
    RouteId id{};
  };
  const Network& network_;
  Schedule::Builder builder_;
  std::vector<int128> forwarded_;  // units, by terminal
  std::unordered_map<uint64_t, std::vector<Known>> routes_;
  std::vector<uint32_t> arcs_;
  std::vector<RouteId> hops_;
  std::vector<uint32_t> steps_;
  std::vector<LinkId> links_;
};

// Seconds of a byte of M are loads times this: parts of the traffic in a byte, by bytes per second. A network without
// arcs has no unit, and no flow.
Fraction seconds_per_load(const Collective& collective, const Network& network) {
  return parts_per_byte(collective) / Fraction(static_cast<int128>(std::max<uint64_t>(1, network.unit())), 1);
}

// Of a traffic matrix: which of its amounts make fractions long.
Error too_far_apart(const Fabric& fabric, const Collective& collective, const Error& error) {
  const size_t ranks = collective.participants().size();
  size_t least = 0, most = 0;
  for (size_t pair = 0; pair < ranks * ranks; ++pair) {
    const auto amount = [&](size_t of) { return collective.traffic(of / ranks, of % ranks); };
    if (amount(pair) == 0) continue;
    if (amount(least) == 0 || amount(pair) < amount(least)) least = pair;
    if (amount(pair) > amount(most)) most = pair;
  }
  const auto told = [&](size_t pair) {
    return std::to_string(collective.traffic(pair / ranks, pair % ranks)) + " from '" +
           fabric.name(collective.participants()[pair / ranks]) + "' to '" +
           fabric.name(collective.participants()[pair % ranks]) + "'";
  };
  return Error(ErrorCode::unsupported, "the exact bound needs more than 128 bits: the traffic of " + told(most) +
                                           " and of " + told(least) +
                                           ", in lowest terms, is too far apart for these bandwidths; count in larger "
                                           "units, or leave the small amount out (" +
                                           error.message() + ")");
}

LinkLengths lengths_on(const Fabric& fabric, const Network& network, const ConcurrentFlow& flow) {
  LinkLengths lengths{.length = std::vector<uint64_t>(fabric.links().size(), 0)};
  for (size_t a = 0; a < flow.lengths.size(); ++a) {
    const LinkId link = network.arcs()[a].link;
    lengths.length[index(link)] = flow.lengths[a];
    lengths.carried += int128{flow.lengths[a]} * int128{fabric.link(link).bandwidth.bytes_per_second()};
  }
  // The bound is crossed over carried, so the sum over the traffic need not be counted again.
  const Fraction crossed = flow.bound * Fraction(lengths.carried / static_cast<int128>(network.unit()), 1);
  CHECK(crossed.denominator() == 1) << crossed;
  lengths.crossed = crossed.numerator();
  return lengths;
}

}  // namespace

LinkLengths find_link_lengths(const Fabric& fabric, const Collective& collective, const AllToAllOptions& options) {
  CHECK(collective.is_personal()) << to_string(collective.kind());
  const Network network(fabric, collective, false, options.observer);
  return lengths_on(
      fabric, network,
      solve_concurrent_flow(network, fabric, demand_of(collective),
                            {.gap = options.gap, .divisor = seconds_per_load(collective, network).denominator()}));
}

namespace {

FlowPlan plan_exactly(const Fabric& fabric, const Collective& collective, const AllToAllOptions& options) {
  CHECK(collective.is_personal()) << to_string(collective.kind());
  if (options.observer) options.observer->phase_begins(PlanObserver::Phase::bound);
  const Network network(fabric, collective, false, options.observer);
  const Fraction per_byte = seconds_per_load(collective, network), parts = parts_per_byte(collective);
  // 1. The paths, with lengths that prove the bound.
  const ConcurrentFlow flow = solve_concurrent_flow(network, fabric, demand_of(collective),
                                                    {.gap = options.gap, .divisor = per_byte.denominator()});
  if (options.observer) options.observer->phase_begins(PlanObserver::Phase::packing);
  // 2. Each path becomes a chunk.
  ScheduleWriter writer(fabric, collective, network);
  for (size_t i = 0; i < flow.paths.size(); ++i) writer.add(flow.paths[i]);
  const Fraction forwarded = Fraction(writer.most_forwarded(), flow.paths.units_per_demand) * parts;
  return {.schedule = std::move(writer).finish(),
          .lengths = lengths_on(fabric, network, flow),
          .bound = flow.bound * per_byte,
          .seconds_per_byte = flow.load * per_byte,
          .optimal = flow.load == flow.bound,
          .most_forwarded = forwarded};
}

}  // namespace

FlowPlan plan_all_to_all(const Fabric& fabric, const Collective& collective, const AllToAllOptions& options) {
  try {
    return plan_exactly(fabric, collective, options);
  } catch (const Error& error) {
    // Amounts of a traffic matrix may be too far apart for exact fractions: then it is said which they are.
    if (error.code() != ErrorCode::unsupported || !collective.has_traffic()) throw;
    throw too_far_apart(fabric, collective, error);
  }
}

}  // namespace banyan::plan
