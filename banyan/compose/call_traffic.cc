#include "banyan/compose/call_traffic.h"

#include <map>
#include <utility>

#include "banyan/codec/codec.h"
#include "banyan/fabric/shortest_paths.h"
#include "banyan/schedule/cost.h"

namespace banyan::compose {
namespace {

using run::OperationKind;

// Of all ranks, for calls whose blocks differ in size; else empty.
std::span<const size_t> blocks_of(const run::Call& call) {
  if (call.kind == OperationKind::all_gather_v) return call.recv_counts;
  if (call.kind == OperationKind::reduce_scatter_v) return call.send_counts;
  return {};
}

// Of the whole buffer that is gathered, reduced or dealt out; 0 where a rank does not know.
uint64_t elements_of(const run::Call& call, uint32_t ranks) {
  if (call.kind == OperationKind::all_to_all_v) return 0;
  if (call.kind == OperationKind::all_gather_v || call.kind == OperationKind::reduce_scatter_v) {
    uint64_t sum = 0;
    for (const size_t count : blocks_of(call)) sum += count;
    return sum;
  }
  return is_sharded(*collective_of(call.kind)) ? call.count * ranks : call.count;
}

// Of long pieces: short ones in a code fill blocks.
double wire_bytes_of_element(const run::Call& call) {
  return static_cast<double>(call.wire_type().bytes(codec::kBlockValues)) / codec::kBlockValues;
}

// Bytes of each chunk: its part of its root's block.
std::vector<double> chunk_bytes(const Schedule& schedule, std::span<const size_t> blocks, double element_bytes) {
  const std::span<const NodeId> participants = schedule.collective().participants();
  std::vector<uint64_t> units(schedule.fabric().nodes().size(), 0);
  for (size_t i = 0; i < schedule.chunk_count(); ++i) units[index(schedule.chunk(i).root)] += schedule.chunk(i).units;
  std::vector<double> bytes_per_unit(units.size(), 0);
  for (size_t rank = 0; rank < blocks.size(); ++rank) {
    const uint32_t node = index(participants[rank]);
    if (units[node] == 0) continue;
    bytes_per_unit[node] = static_cast<double>(blocks[rank]) * element_bytes / static_cast<double>(units[node]);
  }
  std::vector<double> bytes;
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    bytes.push_back(bytes_per_unit[index(chunk.root)] * static_cast<double>(chunk.units));
  }
  return bytes;
}

// By link, of chunks that carry so much.
std::vector<double> bytes_on_links(const Schedule& schedule, std::span<const double> of_chunks) {
  std::vector<double> on_routes(schedule.route_count(), 0), on_links(schedule.fabric().links().size(), 0);
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    for (const RouteId id : chunk.in_tree) on_routes[index(id)] += of_chunks[i];
    for (const RouteId id : chunk.out_tree) on_routes[index(id)] += of_chunks[i];
  }
  for (uint32_t route = 0; route < on_routes.size(); ++route) {
    for (const LinkId link : schedule.route(RouteId{route}).links) on_links[index(link)] += on_routes[route];
  }
  return on_links;
}

// What a pair exchanges in an all-to-all-v, as far as rank `own` knows.
uint64_t elements_between(const run::Call& call, uint32_t from, uint32_t to, uint32_t own) {
  return to == own ? call.recv_counts[from] : call.send_counts[to];
}

std::vector<double> bytes_of_pairs(const run::Call& call, const Schedule& schedule, uint32_t own) {
  const std::span<const NodeId> participants = schedule.collective().participants();
  std::vector<uint32_t> number(schedule.fabric().nodes().size(), 0);
  for (uint32_t i = 0; i < participants.size(); ++i) number[index(participants[i])] = i;
  const double element_bytes = wire_bytes_of_element(call);
  std::vector<double> of_chunks;
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const uint32_t from = number[index(schedule.chunk(i).root)], to = number[index(schedule.target(i))];
    const auto [begin, end] = schedule.block_range(i, elements_between(call, from, to, own));
    of_chunks.push_back(static_cast<double>(end - begin) * element_bytes);
  }
  return bytes_on_links(schedule, of_chunks);
}

std::vector<double> bytes_of_blocks(const Schedule& schedule, std::span<const size_t> blocks, double element_bytes) {
  return bytes_on_links(schedule, chunk_bytes(schedule, blocks, element_bytes));
}

// Adds up what goes to one node after the other along shortest ways.
class ShortestTraffic {
 public:
  ShortestTraffic(const Fabric& fabric, const std::function<bool(LinkId)>& works)
      : fabric_(fabric),
        works_(works),
        ways_(fabric),
        waiting_(fabric.nodes().size(), 0),
        on_links_(fabric.links().size(), 0) {}

  void add(NodeId from, double bytes) {
    if (bytes <= 0) return;
    if (waiting_[index(from)] == 0) senders_.push_back(from);
    waiting_[index(from)] += bytes;
  }
  // What was added since the last time goes there.
  void send(NodeId to) {
    waiting_[index(to)] = 0;
    for (const bool through_ranks : {false, true}) move(to, through_ranks);
    for (const NodeId sender : senders_) waiting_[index(sender)] = 0;  // those that have no way
    senders_.clear();
  }
  std::vector<double> on_links() && { return std::move(on_links_); }

 private:
  void move(NodeId to, bool through_ranks) {
    size_t missing = 0;
    for (const NodeId sender : senders_) missing += waiting_[index(sender)] > 0;
    if (missing == 0) return;
    ways_.search(to, {.through_ranks = through_ranks, .crosses = works_, .ends_search = [&](NodeId node) {
                        return waiting_[index(node)] > 0 && --missing == 0;
                      }});
    // The farthest first, so that all that comes to a node is there when it sends.
    const std::span<const NodeId> found = ways_.found();
    for (size_t i = found.size(); i-- > 1;) {
      const double bytes = std::exchange(waiting_[index(found[i])], 0);
      if (bytes == 0) continue;
      next_.clear();
      for (const LinkId link : fabric_.out_links(found[i])) {
        if (ways_.leads_on(link)) next_.push_back(link);
      }
      for (const LinkId link : next_) {
        const double part = bytes / static_cast<double>(next_.size());
        on_links_[index(link)] += part;
        waiting_[index(fabric_.link(link).to)] += part;
      }
    }
    waiting_[index(to)] = 0;
  }

  const Fabric& fabric_;
  const std::function<bool(LinkId)>& works_;  // empty: all do
  fabric::ShortestPaths ways_;
  std::vector<double> waiting_, on_links_;
  std::vector<NodeId> senders_;
  std::vector<LinkId> next_;  // scratch of move()
};

// Calls take(from, elements) for each other rank that sends something to rank `to`.
template <typename Take>
void each_sender(const DirectCall& direct, uint32_t to, Take take) {
  const run::Call& call = direct.call;
  const auto ranks = static_cast<uint32_t>(direct.places.size());
  const auto all = [&](auto elements) {
    for (uint32_t from = 0; from < ranks; ++from) {
      if (from != to) take(from, elements(from));
    }
  };
  switch (call.kind) {
    case OperationKind::all_to_all:
      return all([&](uint32_t) { return call.count; });
    case OperationKind::all_to_all_v:
      return all([&](uint32_t from) { return elements_between(call, from, to, direct.own); });
    case OperationKind::gather:
      if (to == call.other) all([&](uint32_t) { return call.count; });
      return;
    case OperationKind::scatter:
      if (to != call.other) take(call.other, call.count);
      return;
    case OperationKind::send:
      if (to == call.other && to != direct.own) take(direct.own, call.count);
      return;
    case OperationKind::recv:
      if (to == direct.own && to != call.other && call.other != run::kAnyRank) take(call.other, call.count);
      return;
    default:
      return;
  }
}

}  // namespace

std::optional<run::PlanSource::Question> question_of(const run::Call& call, uint32_t ranks, bool plans_all_to_all) {
  const std::optional<CollectiveKind> kind = collective_of(call.kind);
  if (!kind || !is_planned(*kind) || (is_personal(*kind) && !plans_all_to_all)) return std::nullopt;
  const uint64_t elements = elements_of(call, ranks);
  if (elements == 0 && call.kind != OperationKind::all_to_all_v) return std::nullopt;
  return run::PlanSource::Question{.kind = *kind,
                                   .root = is_rooted(call.kind) ? call.other : 0,
                                   .total = Bytes(call.wire_type().bytes(elements)),
                                   .is_even = call.kind != OperationKind::all_to_all_v};
}

std::vector<double> bytes_by_plan(const run::Call& call, const Schedule& schedule, uint32_t own) {
  if (call.kind == OperationKind::all_to_all_v) return bytes_of_pairs(call, schedule, own);
  const double element_bytes = wire_bytes_of_element(call);
  if (const std::span<const size_t> blocks = blocks_of(call); !blocks.empty()) {
    return bytes_of_blocks(schedule, blocks, element_bytes);
  }
  const auto ranks = static_cast<uint32_t>(schedule.collective().participants().size());
  const double carried =
      schedule.collective().carried_per_byte().to_double() * static_cast<double>(elements_of(call, ranks));
  const double bytes_per_unit = carried * element_bytes / static_cast<double>(schedule.total_units());
  std::vector<double> bytes;
  for (const uint64_t load : link_loads(schedule)) bytes.push_back(static_cast<double>(load) * bytes_per_unit);
  return bytes;
}

std::vector<double> bytes_by_shortest_ways(const Fabric& fabric, const DirectCall& direct) {
  std::map<NodeId, std::vector<uint32_t>> ranks_at;  // those of one host share a search
  for (uint32_t rank = 0; rank < direct.places.size(); ++rank) ranks_at[direct.places[rank]].push_back(rank);
  const double element_bytes = wire_bytes_of_element(direct.call);
  ShortestTraffic ways(fabric, direct.works);
  for (const auto& [place, ranks] : ranks_at) {
    for (const uint32_t to : ranks) {
      each_sender(direct, to, [&](uint32_t from, uint64_t elements) {
        ways.add(direct.places[from], static_cast<double>(elements) * element_bytes);
      });
    }
    ways.send(place);
  }
  return std::move(ways).on_links();
}

std::vector<double> bytes_by_shortest_ways(const Fabric& fabric, std::span<const NodeFlow> flows) {
  const std::function<bool(LinkId)> all_work;
  ShortestTraffic ways(fabric, all_work);
  for (size_t i = 0; i < flows.size(); ++i) {
    ways.add(flows[i].from, flows[i].bytes);
    if (i + 1 == flows.size() || flows[i + 1].to != flows[i].to) ways.send(flows[i].to);
  }
  return std::move(ways).on_links();
}

}  // namespace banyan::compose
