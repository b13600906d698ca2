#include "banyan/plan/flow/all_to_all.h"

#include <algorithm>
#include <unordered_map>

#include "banyan/base/check.h"
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

// Cuts paths into hops, and stores equal hops once.
class ScheduleWriter {
 public:
  ScheduleWriter(const Fabric& fabric, const Collective& collective, const Network& network)
      : network_(network), builder_(fabric, collective), forwarded_(network.terminal_count(), 0) {}

  void add(const PathFlows::Path& path) {
    hops_.clear();
    steps_.clear();
    for (size_t begin = 0, end = 0; begin < path.arcs.size(); begin = end) {
      do ++end;
      while (!network_.is_terminal(network_.arcs()[path.arcs[end - 1]].head));
      hops_.push_back(route(path.arcs.subspan(begin, end - begin)));
      steps_.push_back(static_cast<uint32_t>(hops_.size()));
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

LinkLengths lengths_on(const Fabric& fabric, const Network& network, const ConcurrentFlow& flow) {
  LinkLengths lengths{.length = std::vector<uint64_t>(fabric.links().size(), 0)};
  for (size_t a = 0; a < flow.lengths.size(); ++a) {
    const LinkId link = network.arcs()[a].link;
    lengths.length[index(link)] = flow.lengths[a];
    lengths.carried += int128{flow.lengths[a]} * int128{fabric.link(link).bandwidth.bytes_per_second()};
  }
  const Fraction crossed = flow.bound * Fraction(lengths.carried / static_cast<int128>(network.unit()), 1);
  CHECK(crossed.denominator() == 1) << crossed;
  lengths.crossed = crossed.numerator();
  return lengths;
}

}  // namespace

LinkLengths find_link_lengths(const Fabric& fabric, const Collective& collective, const AllToAllOptions& options) {
  CHECK(collective.is_personal()) << to_string(collective.kind());
  const Network network(fabric, collective, false, options.observer);
  return lengths_on(fabric, network,
                    solve_concurrent_flow(network, fabric, demand_of(collective), {.gap = options.gap}));
}

FlowPlan plan_all_to_all(const Fabric& fabric, const Collective& collective, const AllToAllOptions& options) {
  CHECK(collective.is_personal()) << to_string(collective.kind());
  if (options.observer) options.observer->phase_begins(PlanObserver::Phase::bound);
  const Network network(fabric, collective, false, options.observer);
  const ConcurrentFlow flow = solve_concurrent_flow(network, fabric, demand_of(collective), {.gap = options.gap});
  if (options.observer) options.observer->phase_begins(PlanObserver::Phase::packing);
  ScheduleWriter writer(fabric, collective, network);
  for (size_t i = 0; i < flow.paths.size(); ++i) writer.add(flow.paths[i]);
  // Seconds for one part of the traffic, times parts of a byte of M.
  const Fraction parts = collective.carried_per_byte() / Fraction(static_cast<int128>(collective.total_weight()), 1);
  const Fraction per_byte = parts / Fraction(static_cast<int128>(network.unit()), 1);
  const Fraction forwarded = Fraction(writer.most_forwarded(), flow.paths.units_per_demand) * parts;
  return {.schedule = std::move(writer).finish(),
          .lengths = lengths_on(fabric, network, flow),
          .bound = flow.bound * per_byte,
          .seconds_per_byte = flow.load * per_byte,
          .optimal = flow.load == flow.bound,
          .most_forwarded = forwarded};
}

}  // namespace banyan::plan
