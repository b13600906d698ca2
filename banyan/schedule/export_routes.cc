#include "banyan/schedule/export_routes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/export.h"

namespace banyan::schedule {
namespace {

// The widest ways from one rank to all others through switches, of those as wide the ones of fewest links.
class WidestWays {
 public:
  WidestWays(const Fabric& fabric, NodeId from)
      : fabric_(fabric), width_(fabric.nodes().size(), 0), hops_(width_.size(), 0), last_(width_.size()) {
    width_[index(from)] = UINT64_MAX;
    // Widest first, then fewest hops, then the lower node.
    using Entry = std::tuple<uint64_t, int64_t, int64_t>;
    std::priority_queue<Entry> waiting;
    waiting.emplace(UINT64_MAX, 0, -static_cast<int64_t>(index(from)));
    while (!waiting.empty()) {
      const auto [width, hops, node] = waiting.top();
      waiting.pop();
      const NodeId at{static_cast<uint32_t>(-node)};
      if (width < width_[index(at)] || -hops > hops_[index(at)]) continue;
      if (at != from && fabric.is_rank(at)) continue;
      for (const LinkId id : fabric.out_links(at)) {
        const uint32_t next = index(fabric.link(id).to);
        const uint64_t wide = std::min(width, fabric.link(id).bandwidth.bytes_per_second());
        const bool is_better = wide > width_[next] || (wide == width_[next] && -hops + 1 < hops_[next]);
        if (!is_better || fabric.link(id).to == from) continue;
        width_[next] = wide;
        hops_[next] = -hops + 1;
        last_[next] = id;
        waiting.emplace(wide, hops - 1, -static_cast<int64_t>(next));
      }
    }
  }

  uint64_t width(NodeId to) const { return width_[index(to)]; }
  std::vector<LinkId> way(NodeId from, NodeId to) const {
    std::vector<LinkId> links;
    for (NodeId at = to; at != from; at = fabric_.link(links.back()).from) links.push_back(last_[index(at)]);
    std::reverse(links.begin(), links.end());
    return links;
  }

 private:
  const Fabric& fabric_;
  std::vector<uint64_t> width_;
  std::vector<int64_t> hops_;
  std::vector<LinkId> last_;  // by node: the last link of its way
};

uint64_t width_of(const Fabric& fabric, std::span<const LinkId> links) {
  uint64_t width = UINT64_MAX;
  for (const LinkId id : links) width = std::min(width, fabric.link(id).bandwidth.bytes_per_second());
  return width;
}

// The switch by which a way leaves its rank, or the rank where it ends.
std::string first_node(const Fabric& fabric, std::span<const LinkId> links) {
  return fabric.name(fabric.link(links.front()).to);
}

std::string rate(const Fraction& seconds_per_byte) {
  return Bandwidth::bytes_per_second(static_cast<uint64_t>(1 / seconds_per_byte.to_double())).to_string();
}

}  // namespace

void expect_runtime_routes(const Schedule& schedule) {
  const Fabric& fabric = schedule.fabric();
  std::map<NodeId, WidestWays> ways;
  Schedule::Builder builder(fabric, schedule.collective());
  std::optional<RouteId> other;  // the first that the runtime does not take
  for (uint32_t r = 0; r < schedule.route_count(); ++r) {
    const Route route = schedule.route(RouteId{r});
    if (!fabric.is_rank(route.from) || !fabric.is_rank(route.to)) return;  // trees that branch at a switch
    const WidestWays& widest = ways.try_emplace(route.from, fabric, route.from).first->second;
    const bool is_taken = width_of(fabric, route.links) >= widest.width(route.to);
    if (!is_taken && !other) other = RouteId{r};
    builder.add_route(is_taken ? std::vector<LinkId>(route.links.begin(), route.links.end())
                               : widest.way(route.from, route.to));
  }
  if (!other) return;
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    builder.add_chunk({.root = chunk.root,
                       .units = chunk.units,
                       .in_tree = chunk.in_tree,
                       .out_tree = chunk.out_tree,
                       .in_steps = chunk.in_steps,
                       .out_steps = chunk.out_steps});
  }
  const Fraction planned = seconds_per_byte(schedule), run = seconds_per_byte(std::move(builder).build());
  if (run.to_double() <= planned.to_double() * (1 + kRoundingLoss)) return;
  const Route route = schedule.route(*other);
  const std::string from = fabric.name(route.from), wrong = first_node(fabric, route.links);
  throw Error(ErrorCode::unsupported,
              "the plan sends from " + from + " to " + fabric.name(route.to) + " by " + wrong +
                  ", where a runtime takes " + first_node(fabric, ways.at(route.from).way(route.from, route.to)) +
                  ", which is wider: it would end at " + rate(run) + ", not at " + rate(planned) +
                  "; plan without such ways, as with --fail " + from + "-" + wrong);
}

}  // namespace banyan::schedule
