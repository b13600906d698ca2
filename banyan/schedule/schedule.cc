#include "banyan/schedule/schedule.h"

#include <algorithm>
#include <string>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::schedule {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

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

NodeId Schedule::target(size_t i) const {
  const ChunkRow& row = chunks_[i];
  return collective_.is_personal() ? route(edges_[row.out_end - 1]).to : row.root;
}

std::pair<uint64_t, uint64_t> Schedule::block_range(size_t i, uint64_t elements) const {
  const ChunkRow& row = chunks_[i];
  const uint64_t begin = row.offset_units - row.block_begin;
  return {scaled(elements, begin, row.block_units), scaled(elements, begin + row.units, row.block_units)};
}

Schedule::Builder::Builder(Fabric fabric, Collective collective)
    : schedule_(std::move(fabric), std::move(collective)), participant_of_(schedule_.fabric_.nodes().size(), kNobody) {
  const auto participants = schedule_.collective_.participants();
  for (uint32_t i = 0; i < participants.size(); ++i) participant_of_[index(participants[i])] = i;
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
  if (index(chunk.root) >= participant_of_.size() || participant_of_[index(chunk.root)] == kNobody)
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
    const bool tied = std::ranges::any_of(tree_steps, [](uint32_t step) { return step != 0; });
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
  if (schedule_.collective_.is_personal()) {
    if (chunk.out_tree.empty()) throw invalid("a chunk of an all-to-all has no path");
    const NodeId target = schedule_.route(chunk.out_tree.back()).to;
    if (target == chunk.root || participant_of_[index(target)] == kNobody) {
      throw invalid("the path of a chunk from '" + schedule_.fabric_.name(chunk.root) + "' ends at '" +
                    schedule_.fabric_.name(target) + "', which is no other rank that takes part");
    }
  }
  schedule_.chunks_.push_back(row);
}

void Schedule::Builder::order_by_root() {
  std::ranges::stable_sort(schedule_.chunks_, {}, [&](const ChunkRow& a) { return participant_of_[index(a.root)]; });
}

Schedule Schedule::Builder::build() && {
  if (schedule_.chunks_.empty()) throw invalid("a schedule has no chunks");
  const Collective& collective = schedule_.collective_;
  // The order of chunks of one block, and of all chunks of an allreduce, stays.
  if (collective.is_personal()) {
    std::vector<std::pair<uint64_t, size_t>> order;  // by root and target
    const uint64_t ranks = collective.participants().size();
    for (size_t i = 0; i < schedule_.chunks_.size(); ++i) {
      const uint64_t root = participant_of_[index(schedule_.chunks_[i].root)];
      order.emplace_back(root * ranks + participant_of_[index(schedule_.target(i))], i);
    }
    std::ranges::sort(order);
    std::vector<ChunkRow> sorted;
    sorted.reserve(order.size());
    for (const auto& [pair, i] : order) sorted.push_back(schedule_.chunks_[i]);
    schedule_.chunks_ = std::move(sorted);
  } else if (collective.fixes_roots()) {
    order_by_root();
  }
  lay_out();
  return std::move(schedule_);
}

// Chunks stand block by block.
void Schedule::Builder::lay_out() {
  const Collective& collective = schedule_.collective_;
  std::vector<ChunkRow>& chunks = schedule_.chunks_;
  const auto is_same_block = [&](size_t i, size_t j) {
    if (collective.is_personal()) return chunks[i].root == chunks[j].root && schedule_.target(i) == schedule_.target(j);
    return !is_sharded(collective.kind()) || chunks[i].root == chunks[j].root;
  };
  uint64_t total = 0;
  for (size_t begin = 0, end = 0; begin < chunks.size(); begin = end) {
    const uint64_t block_begin = total;
    for (; end < chunks.size() && is_same_block(begin, end); ++end) {
      chunks[end].offset_units = total;
      if (chunks[end].units > (uint64_t{1} << 62) - total) throw invalid("the units of all chunks sum beyond 2^62");
      total += chunks[end].units;
    }
    for (size_t i = begin; i < end; ++i) {
      chunks[i].block_begin = block_begin;
      chunks[i].block_units = total - block_begin;
    }
  }
  schedule_.total_units_ = total;
}

}  // namespace banyan::schedule
