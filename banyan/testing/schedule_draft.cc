#include "banyan/testing/schedule_draft.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "banyan/base/check.h"

namespace banyan::testing {
namespace {

LinkId link_between(const Fabric& fabric, NodeId from, NodeId to) {
  for (const LinkId id : fabric.out_links(from)) {
    if (fabric.link(id).to == to) return id;
  }
  CHECK(false) << "no link " << fabric.name(from) << " -> " << fabric.name(to);
  return {};
}

// How often each participant's contribution is part of what a rank holds.
using Contributions = std::map<NodeId, int>;

NodeId start_of(const ScheduleDraft& draft, uint32_t route) {
  return draft.fabric.link(draft.routes[route].front()).from;
}
NodeId end_of(const ScheduleDraft& draft, uint32_t route) { return draft.fabric.link(draft.routes[route].back()).to; }

// What each rank holds of the chunk before anything moves.
std::map<NodeId, Contributions> initially(const ScheduleDraft& draft, const ChunkDraft& chunk) {
  if (!draft.collective.reduces()) return {{chunk.root, {{chunk.root, 1}}}};
  std::map<NodeId, Contributions> held;
  for (const NodeId rank : draft.collective.participants()) held[rank] = {{rank, 1}};
  return held;
}

// The switches of a tree, which all need the power, and each of which must be come to and be left.
std::optional<size_t> switches_of(const ScheduleDraft& draft, const std::vector<uint32_t>& tree, bool Node::*power) {
  std::set<NodeId> from, to;
  for (const uint32_t route : tree) {
    from.insert(start_of(draft, route));
    to.insert(end_of(draft, route));
  }
  size_t count = 0;
  for (const std::set<NodeId>* const ends : {&from, &to}) {
    for (const NodeId node : *ends) {
      if (draft.fabric.is_rank(node)) continue;
      if (!(draft.fabric.node(node).*power) || !from.contains(node) || !to.contains(node)) return std::nullopt;
      if (ends == &to) ++count;
    }
  }
  return count;
}

// A path of participants from the root to another, none twice.
bool leads_on(const ScheduleDraft& draft, const ChunkDraft& chunk) {
  const auto participants = draft.collective.participants();
  std::set<NodeId> seen{chunk.root};
  NodeId at = chunk.root;
  for (const uint32_t route : chunk.out) {
    if (start_of(draft, route) != at) return false;
    at = end_of(draft, route);
    if (std::find(participants.begin(), participants.end(), at) == participants.end() || !seen.insert(at).second)
      return false;
  }
  return chunk.in.empty() && !chunk.out.empty();
}

// Executes both lists front to back: an in-edge adds what its start holds to its end, an out-edge copies it there.
bool delivers(const ScheduleDraft& draft, const ChunkDraft& chunk) {
  if (draft.collective.is_personal()) return leads_on(draft, chunk);
  const auto participants = draft.collective.participants();
  const auto in_switches = switches_of(draft, chunk.in, &Node::reduce),
             out_switches = switches_of(draft, chunk.out, &Node::multicast);
  if (!in_switches || !out_switches) return false;
  // One more would be wasted, on a node that has it or takes no part.
  const size_t in_edges = participants.size() - 1 + *in_switches, out_edges = participants.size() - 1 + *out_switches;
  if (chunk.in.size() != (draft.collective.reduces() ? in_edges : 0)) return false;
  if (chunk.out.size() != (draft.collective.spreads() ? out_edges : 0)) return false;
  auto held = initially(draft, chunk);
  for (const uint32_t route : chunk.in) {
    const Contributions moved = held[start_of(draft, route)];
    if (moved.empty()) return false;  // of a switch to which nothing has come yet
    for (const auto& [rank, times] : moved) held[end_of(draft, route)][rank] += times;
  }
  Contributions promised{{chunk.root, 1}};
  if (draft.collective.reduces()) {
    for (const NodeId rank : participants) promised[rank] = 1;
  }
  if (held[chunk.root] != promised) return false;
  if (!draft.collective.spreads()) return true;
  for (const uint32_t route : chunk.out) {
    // A switch that has the data already is entered in vain.
    if (!draft.fabric.is_rank(end_of(draft, route)) && held[end_of(draft, route)] == promised) return false;
    held[end_of(draft, route)] = Contributions(held[start_of(draft, route)]);
  }
  return std::all_of(participants.begin(), participants.end(), [&](NodeId rank) { return held[rank] == promised; });
}

bool routes_are_paths(const ScheduleDraft& draft) {
  const Fabric& fabric = draft.fabric;
  for (const auto& links : draft.routes) {
    if (std::set<LinkId>(links.begin(), links.end()).size() != links.size()) return false;
    const NodeId from = fabric.link(links.front()).from, to = fabric.link(links.back()).to;
    const auto may_be_node = [&](NodeId id) {
      return fabric.is_rank(id) || fabric.node(id).multicast || fabric.node(id).reduce;
    };
    if (from == to || !may_be_node(from) || !may_be_node(to)) return false;
    for (size_t i = 1; i < links.size(); ++i) {
      if (fabric.link(links[i - 1]).to != fabric.link(links[i]).from || fabric.is_rank(fabric.link(links[i]).from))
        return false;
    }
  }
  return true;
}

// Whether of two tied hops of which the later waits for the earlier, the later always has the larger step.
bool steps_grow(const ScheduleDraft& draft, const ChunkDraft& chunk) {
  std::vector<uint32_t> edges = chunk.in, steps = chunk.in_steps;
  edges.insert(edges.end(), chunk.out.begin(), chunk.out.end());
  steps.resize(chunk.in.size());
  steps.insert(steps.end(), chunk.out_steps.begin(), chunk.out_steps.end());
  steps.resize(edges.size());
  std::vector<std::vector<bool>> waits(edges.size(), std::vector<bool>(edges.size(), false));
  for (size_t late = 0; late < edges.size(); ++late) {
    for (size_t early = 0; early < late; ++early) {
      if (end_of(draft, edges[early]) != start_of(draft, edges[late])) continue;
      waits[late][early] = true;
      for (size_t first = 0; first < early; ++first) {
        if (waits[early][first]) waits[late][first] = true;
      }
    }
  }
  for (size_t late = 0; late < edges.size(); ++late) {
    for (size_t early = 0; early < late; ++early) {
      if (waits[late][early] && steps[early] != 0 && steps[late] != 0 && steps[late] <= steps[early]) return false;
    }
  }
  return true;
}

bool traffic_is_right(const ScheduleDraft& draft, const Fraction& total) {
  std::map<std::pair<NodeId, NodeId>, Fraction> share;
  for (const ChunkDraft& chunk : draft.chunks) {
    Fraction& of_pair = share[{chunk.root, end_of(draft, chunk.out.back())}];
    of_pair = of_pair + Fraction(static_cast<int64_t>(chunk.units)) / total;
  }
  const auto participants = draft.collective.participants();
  Fraction sent;
  for (size_t from = 0; from < participants.size(); ++from) {
    for (size_t to = 0; to < participants.size(); ++to) {
      if (from != to) sent = sent + Fraction(static_cast<int64_t>(draft.collective.traffic(from, to)));
    }
  }
  for (size_t from = 0; from < participants.size(); ++from) {
    for (size_t to = 0; to < participants.size(); ++to) {
      const Fraction parts(from == to ? 0 : static_cast<int64_t>(draft.collective.traffic(from, to)));
      if (share[{participants[from], participants[to]}] != parts / sent) return false;
    }
  }
  return true;
}

bool shares_are_right(const ScheduleDraft& draft, const Fraction& total) {
  if (!draft.collective.fixes_roots()) return true;
  if (draft.collective.is_personal()) return traffic_is_right(draft, total);
  std::map<NodeId, Fraction> share;
  for (const ChunkDraft& chunk : draft.chunks) {
    share[chunk.root] = share[chunk.root] + Fraction(static_cast<int64_t>(chunk.units)) / total;
  }
  const auto participants = draft.collective.participants();
  for (size_t i = 0; i < participants.size(); ++i) {
    const Fraction promised(static_cast<int128>(draft.collective.weights()[i]),
                            static_cast<int128>(draft.collective.total_weight()));
    if (share[participants[i]] != promised) return false;
  }
  return true;
}

}  // namespace

std::vector<uint32_t> ScheduleDraft::edges(std::initializer_list<std::string_view> paths) {
  std::vector<uint32_t> numbers;
  for (const std::string_view path : paths) {
    std::istringstream words{std::string(path)};
    std::vector<LinkId> links;
    std::string name;
    std::optional<NodeId> last;
    while (words >> name) {
      const NodeId node = fabric.at(name);
      if (last) links.push_back(link_between(fabric, *last, node));
      last = node;
    }
    const auto known = std::find(routes.begin(), routes.end(), links);
    numbers.push_back(static_cast<uint32_t>(known - routes.begin()));
    if (known == routes.end()) routes.push_back(links);
  }
  return numbers;
}

Schedule ScheduleDraft::build() const {
  Schedule::Builder builder(fabric, collective);
  for (const auto& links : routes) builder.add_route(links);
  const auto ids = [](const std::vector<uint32_t>& numbers) {
    std::vector<RouteId> result;
    for (const uint32_t number : numbers) result.push_back(RouteId{number});
    return result;
  };
  for (const ChunkDraft& chunk : chunks) {
    const std::vector<RouteId> in = ids(chunk.in), out = ids(chunk.out);
    builder.add_chunk({.root = chunk.root,
                       .units = chunk.units,
                       .in_tree = in,
                       .out_tree = out,
                       .in_steps = chunk.in_steps,
                       .out_steps = chunk.out_steps});
  }
  return std::move(builder).build();
}

ScheduleDraft draft_of(const Schedule& schedule) {
  ScheduleDraft draft{.fabric = schedule.fabric(), .collective = schedule.collective()};
  for (uint32_t r = 0; r < schedule.route_count(); ++r) {
    const auto links = schedule.route(RouteId{r}).links;
    draft.routes.emplace_back(links.begin(), links.end());
  }
  const auto numbers = [](std::span<const RouteId> ids) {
    std::vector<uint32_t> result;
    for (const RouteId id : ids) result.push_back(index(id));
    return result;
  };
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    draft.chunks.push_back({.root = chunk.root,
                            .units = chunk.units,
                            .in = numbers(chunk.in_tree),
                            .out = numbers(chunk.out_tree),
                            .in_steps = {chunk.in_steps.begin(), chunk.in_steps.end()},
                            .out_steps = {chunk.out_steps.begin(), chunk.out_steps.end()}});
  }
  return draft;
}

std::optional<Fraction> executes_to(const ScheduleDraft& draft) {
  if (!routes_are_paths(draft)) return std::nullopt;
  Fraction total;
  std::map<LinkId, Fraction> load;
  for (const ChunkDraft& chunk : draft.chunks) {
    if (!delivers(draft, chunk) || !steps_grow(draft, chunk)) return std::nullopt;
    const Fraction units(static_cast<int64_t>(chunk.units));
    total = total + units;
    for (const auto* tree : {&chunk.in, &chunk.out}) {
      for (const uint32_t route : *tree) {
        for (const LinkId link : draft.routes[route]) load[link] = load[link] + units;
      }
    }
  }
  if (!shares_are_right(draft, total)) return std::nullopt;
  // Of a byte of M: with an all-to-all each of n ranks holds M on average, and keeps of it what is for itself.
  Fraction carried(1);
  if (draft.collective.is_personal()) {
    const size_t ranks = draft.collective.participants().size();
    Fraction held, sent;
    for (size_t pair = 0; pair < ranks * ranks; ++pair) {
      const Fraction parts(static_cast<int64_t>(draft.collective.traffic(pair / ranks, pair % ranks)));
      held = held + parts;
      if (pair / ranks != pair % ranks) sent = sent + parts;
    }
    carried = sent * Fraction(static_cast<int64_t>(ranks)) / held;
  }
  Fraction slowest;
  for (const auto& [link, units] : load) {
    const auto bandwidth = static_cast<int64_t>(draft.fabric.link(link).bandwidth.bytes_per_second());
    slowest = std::max(slowest, units / total / Fraction(bandwidth) * carried);
  }
  return slowest;
}

}  // namespace banyan::testing
