#include "banyan/schedule/export_shares.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "banyan/base/error.h"

namespace banyan::schedule {
namespace {

void refuse_uneven_shards(const Collective& collective) {
  const auto weights = collective.weights();
  if (collective.has_traffic()) {
    throw Error(
        ErrorCode::unsupported,
        "pairs of unequal traffic cannot be exported: the runtimes know equal ones only; plan without --traffic");
  }
  if (!is_sharded(collective.kind())) return;
  if (std::all_of(weights.begin(), weights.end(), [&](uint64_t weight) { return weight == weights[0]; })) return;
  throw Error(ErrorCode::unsupported,
              "shards of unequal size cannot be exported: the runtimes know equal ones only; plan without --weights");
}

// Chunks by what their units are a share of: their root's shard, what it has for their target, or the whole buffer.
std::map<std::pair<NodeId, NodeId>, std::vector<size_t>> wholes_of(const Schedule& schedule) {
  std::map<std::pair<NodeId, NodeId>, std::vector<size_t>> wholes;
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const NodeId root = is_sharded(schedule.collective().kind()) ? schedule.chunk(i).root : NodeId{0};
    wholes[{root, schedule.collective().is_personal() ? schedule.target(i) : root}].push_back(i);
  }
  return wholes;
}

// `parts` dealt to the chunks by their units: rounded down, and the rest to the largest remainders, the first of
// equals.
void deal(const Schedule& schedule, const std::vector<size_t>& chunks, uint64_t parts, std::vector<uint64_t>& dealt) {
  uint64_t whole = 0, left = parts;
  for (const size_t i : chunks) whole += schedule.chunk(i).units;
  std::vector<std::pair<int128, size_t>> remainders;
  for (const size_t i : chunks) {
    const int128 wanted = static_cast<int128>(schedule.chunk(i).units) * static_cast<int128>(parts);
    dealt[i] = static_cast<uint64_t>(wanted / static_cast<int128>(whole));
    remainders.emplace_back(-(wanted % static_cast<int128>(whole)), i);
    left -= dealt[i];
  }
  std::sort(remainders.begin(), remainders.end());
  for (size_t i = 0; i < left; ++i) ++dealt[remainders[i].second];
}

}  // namespace

Schedule round_shares(const Schedule& schedule, uint64_t parts) {
  refuse_uneven_shards(schedule.collective());
  std::vector<uint64_t> dealt(schedule.chunk_count(), 0);
  for (const auto& [whole, chunks] : wholes_of(schedule)) deal(schedule, chunks, parts, dealt);
  Schedule::Builder builder(schedule.fabric(), schedule.collective());
  for (uint32_t i = 0; i < schedule.route_count(); ++i) builder.add_route(schedule.route(RouteId{i}).links);
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    if (dealt[i] == 0) continue;
    builder.add_chunk({.root = chunk.root,
                       .units = dealt[i],
                       .in_tree = chunk.in_tree,
                       .out_tree = chunk.out_tree,
                       .in_steps = chunk.in_steps,
                       .out_steps = chunk.out_steps});
  }
  return std::move(builder).build();
}

uint64_t parts_of(const Schedule& schedule) {
  refuse_uneven_shards(schedule.collective());
  const uint64_t whole = schedule.total_units() / wholes_of(schedule).size();
  uint64_t unit = whole;
  for (size_t i = 0; i < schedule.chunk_count(); ++i) unit = std::gcd(unit, schedule.chunk(i).units);
  return whole / unit;
}

}  // namespace banyan::schedule
