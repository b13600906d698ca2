#include "banyan/schedule/schedule.h"

#include <algorithm>
#include <string>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::schedule {
namespace {
uint64_t scaled(uint64_t elements, uint64_t part, uint64_t whole) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(elements) * part / whole);
}

}  // namespace

Chunk Schedule::chunk(size_t i) const {
  const ChunkRow& row = chunks_[i];
  const auto tree = [&](uint64_t begin, uint64_t end) { return std::span(edges_).subspan(begin, end - begin); };
  const auto steps = [&](uint64_t begin, uint64_t end) {
    return steps_.empty() ? std::span<const uint32_t>() : std::span(steps_).subspan(begin, end - begin);
  };
  return {.root = row.root,
          .units = row.units,
          .offset_units = row.offset_units,
          .in_tree = tree(row.in_begin, row.in_end),
          .out_tree = tree(row.out_begin, row.out_end),
          .in_steps = steps(row.in_begin, row.in_end),
          .out_steps = steps(row.out_begin, row.out_end)};
}

std::pair<uint64_t, uint64_t> Schedule::element_range(size_t i, uint64_t elements) const {
  const ChunkRow& row = chunks_[i];
  return {scaled(elements, row.offset_units, total_units_),
          scaled(elements, row.offset_units + row.units, total_units_)};
}

std::pair<uint64_t, uint64_t> Schedule::shard_range(size_t participant, uint64_t elements) const {
  const CollectiveKind kind = collective_.kind();
  if (kind != CollectiveKind::all_gather && kind != CollectiveKind::reduce_scatter) return {0, elements};
  uint64_t before = 0;
  for (size_t i = 0; i < participant; ++i) before += collective_.weights()[i];
  const uint64_t total = collective_.total_weight();
  return {scaled(elements, before, total), scaled(elements, before + collective_.weights()[participant], total)};
}

Schedule::Builder::Builder(Fabric fabric, Collective collective)
    : schedule_(std::move(fabric), std::move(collective)), takes_part_(schedule_.fabric_.nodes().size(), false) {
  for (const NodeId id : schedule_.collective_.participants()) takes_part_[index(id)] = true;
}

void Schedule::Builder::reserve(const Sizes& sizes) {
  schedule_.route_start_.reserve(sizes.routes + 1);
  schedule_.route_links_.reserve(sizes.route_links);
  schedule_.chunks_.reserve(sizes.chunks);
  schedule_.edges_.reserve(sizes.edges);
}

RouteId Schedule::Builder::add_route(std::span<const LinkId> links) {
  const Fabric& fabric = schedule_.fabric_;
  if (links.empty()) throw invalid("a route has no links");
  for (size_t i = 0; i < links.size(); ++i) {
    if (index(links[i]) >= fabric.links().size()) {
      throw invalid("a route uses link " + std::to_string(index(links[i])) + ", but the fabric has " +
                    std::to_string(fabric.links().size()));
    }
    if (i > 0 && fabric.link(links[i - 1]).to != fabric.link(links[i]).from) {
      throw invalid("a route jumps from '" + fabric.name(fabric.link(links[i - 1]).to) + "' to '" +
                    fabric.name(fabric.link(links[i]).from) + "'");
    }
  }
  const size_t end = schedule_.route_links_.size() + links.size();
  if (end > UINT32_MAX) throw Error(ErrorCode::unsupported, "the routes of a schedule cross more than 2^32 - 1 links");
  schedule_.route_links_.insert(schedule_.route_links_.end(), links.begin(), links.end());
  schedule_.route_start_.push_back(static_cast<uint32_t>(end));
  return RouteId{static_cast<uint32_t>(schedule_.route_count() - 1)};
}

void Schedule::Builder::add_chunk(const NewChunk& chunk) {
  if (chunk.units == 0) throw invalid("a chunk has zero units");
  if (index(chunk.root) >= takes_part_.size() || !takes_part_[index(chunk.root)])
    throw invalid("the root of a chunk does not take part in the collective");
  auto& edges = schedule_.edges_;
  auto& steps = schedule_.steps_;
  const auto append = [&](std::span<const RouteId> tree, std::span<const uint32_t> tree_steps) {
    if (!tree_steps.empty() && tree_steps.size() != tree.size())
      throw invalid("a chunk has steps for some of its edges only");
    for (const RouteId id : tree) {
      if (index(id) >= schedule_.route_count())
        throw invalid("a tree uses route " + std::to_string(index(id)) + ", but there are " +
                      std::to_string(schedule_.route_count()));
    }
    const bool tied = std::any_of(tree_steps.begin(), tree_steps.end(), [](uint32_t step) { return step != 0; });
    if (tied) steps.resize(edges.size(), 0);
    edges.insert(edges.end(), tree.begin(), tree.end());
    if (tied) steps.insert(steps.end(), tree_steps.begin(), tree_steps.end());
    if (!steps.empty()) steps.resize(edges.size(), 0);
  };
  ChunkRow row{.root = chunk.root, .units = chunk.units};
  row.in_begin = edges.size();
  append(chunk.in_tree, chunk.in_steps);
  row.in_end = row.out_begin = edges.size();
  append(chunk.out_tree, chunk.out_steps);
  row.out_end = edges.size();
  schedule_.chunks_.push_back(row);
}

void Schedule::Builder::order_by_root() {
  const auto participants = schedule_.collective_.participants();
  std::vector<uint32_t> place_of(schedule_.fabric_.nodes().size(), 0);
  for (uint32_t i = 0; i < participants.size(); ++i) place_of[index(participants[i])] = i;
  std::stable_sort(schedule_.chunks_.begin(), schedule_.chunks_.end(), [&](const ChunkRow& a, const ChunkRow& b) {
    return place_of[index(a.root)] < place_of[index(b.root)];
  });
}

Schedule Schedule::Builder::build() && {
  if (schedule_.chunks_.empty()) throw invalid("a schedule has no chunks");
  if (schedule_.collective_.fixes_roots()) order_by_root();
  uint64_t total = 0;
  for (ChunkRow& row : schedule_.chunks_) {
    row.offset_units = total;
    if (row.units > (uint64_t{1} << 62) - total) throw invalid("the units of all chunks sum beyond 2^62");
    total += row.units;
  }
  schedule_.total_units_ = total;
  return std::move(schedule_);
}

}  // namespace banyan::schedule
