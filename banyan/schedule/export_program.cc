#include "banyan/schedule/export_program.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/schedule/export_shares.h"

namespace banyan::schedule {
namespace {

class ProgramBuilder {
 public:
  ProgramBuilder(const Schedule& schedule, uint64_t largest)
      : schedule_(schedule),
        largest_(largest),
        participant_(schedule.fabric().nodes().size(), 0),
        last_in_(participant_.size()) {
    const auto participants = schedule.collective().participants();
    for (uint32_t p = 0; p < participants.size(); ++p) participant_[index(participants[p])] = p;
    program_.ranks = static_cast<uint32_t>(participants.size());
    program_.root = participant_[index(schedule.collective().root())];
  }

  ExportProgram build() && {
    measure();
    for (uint32_t i = 0; i < schedule_.chunk_count(); ++i) add_chunk(i);
    sort();
    return std::move(program_);
  }

 private:
  // The format's chunk: the largest unit that all shares and shards are multiples of.
  void measure() {
    const Collective& collective = schedule_.collective();
    const bool sharded = is_sharded(collective.kind());
    const uint64_t pairs = uint64_t{program_.ranks} * (program_.ranks - 1);
    const uint64_t wholes = collective.is_personal() ? pairs : sharded ? program_.ranks : 1;
    const uint64_t whole = schedule_.total_units() / wholes;
    unit_ = whole / parts_of(schedule_);
    std::vector<uint64_t> per_root(program_.ranks, 0);
    for (size_t i = 0; i < schedule_.chunk_count(); ++i) {
      uint64_t& trees = per_root[participant_[index(schedule_.chunk(i).root)]];
      program_.trees_per_rank = std::max(program_.trees_per_rank, ++trees);
    }
    program_.shard_chunks = whole / unit_;
    program_.total_chunks = sharded ? program_.shard_chunks * program_.ranks : program_.shard_chunks;
  }

  void add_chunk(uint32_t number) {
    const Chunk chunk = schedule_.chunk(number);
    uint64_t begin = chunk.offset_units / unit_;
    if (schedule_.collective().is_personal()) {
      const uint64_t from = participant_[index(chunk.root)], to = participant_[index(schedule_.target(number))];
      begin = from * program_.total_chunks + to * program_.shard_chunks +
              schedule_.block_range(number, program_.shard_chunks).first;
    }
    const uint64_t end = begin + chunk.units / unit_;
    for (uint64_t offset = begin; offset < end; offset += largest_)
      add_piece(number, chunk, offset, std::min(largest_, end - offset));
  }

  // In-tree: an edge is later than all edges into its child. What reaches one parent is added one after the other, each
  // later than the one before, so a parent's own sending waits for the last only.
  void add_piece(uint32_t number, const Chunk& chunk, uint64_t offset, uint64_t count) {
    for (const NodeId id : schedule_.collective().participants()) last_in_[index(id)] = {};
    const auto add = [&](RouteId id, bool reduces) {
      const Route route = schedule_.route(id);
      const Arrival before = last_in_[index(route.from)];
      ExportTransfer transfer{.from = participant_[index(route.from)],
                              .to = participant_[index(route.to)],
                              .chunk = number,
                              .reduces = reduces,
                              .time = before.time,
                              .offset = offset,
                              .count = count,
                              .after = before.transfer};
      if (reduces) transfer.time = std::max(transfer.time, last_in_[index(route.to)].time);
      last_in_[index(route.to)] = {.transfer = static_cast<uint32_t>(program_.transfers.size()),
                                   .time = transfer.time + 1};
      program_.transfers.push_back(transfer);
    };
    for (const RouteId id : chunk.in_tree) add(id, true);
    // What a rank got in the in-tree says nothing about its place in the out-tree, but for the root.
    for (const NodeId id : schedule_.collective().participants()) {
      if (id != chunk.root) last_in_[index(id)] = {};
    }
    for (const RouteId id : chunk.out_tree) add(id, false);
  }

  void sort() {
    std::vector<uint32_t> order(program_.transfers.size()), place(order.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto key = [&](uint32_t i) {
      const ExportTransfer& transfer = program_.transfers[i];
      return std::tuple(transfer.time, transfer.chunk, transfer.offset, i);
    };
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
    for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    std::vector<ExportTransfer> sorted;
    sorted.reserve(order.size());
    for (const uint32_t i : order) {
      sorted.push_back(program_.transfers[i]);
      if (sorted.back().after) sorted.back().after = place[*sorted.back().after];
    }
    program_.transfers = std::move(sorted);
  }

  struct Arrival {
    std::optional<uint32_t> transfer;
    uint32_t time = 0;  // from which on it may be used
  };

  const Schedule& schedule_;
  const uint64_t largest_;
  uint64_t unit_ = 1;
  std::vector<uint32_t> participant_;  // by node
  std::vector<Arrival> last_in_;       // by node, of the piece under way
  ExportProgram program_;
};

}  // namespace

ExportProgram make_export_program(const Schedule& schedule, uint64_t largest) {
  return ProgramBuilder(schedule, largest).build();
}

BufferPlace BufferMap::input(const ExportTransfer& transfer, uint32_t rank) const {
  if (kind_ == CollectiveKind::all_to_all) return {'i', transfer.offset % program_.total_chunks};
  if (kind_ != CollectiveKind::all_gather) return {'i', transfer.offset};
  // In place, an allgather's shard is found in the output, where it has been all along.
  return in_place_ ? BufferPlace{'o', transfer.offset} : BufferPlace{'i', transfer.offset - program_.shard_begin(rank)};
}

BufferPlace BufferMap::result(const ExportTransfer& transfer, uint32_t rank) {
  switch (kind_) {
    case CollectiveKind::all_gather:
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast:
      return {'o', transfer.offset};
    case CollectiveKind::reduce_scatter:
      if (rank == transfer.offset / program_.shard_chunks) return {'o', transfer.offset - program_.shard_begin(rank)};
      break;
    case CollectiveKind::reduce:
      if (rank == program_.root) return {'o', transfer.offset};
      break;
    case CollectiveKind::all_to_all: {
      const uint64_t from = transfer.offset / program_.total_chunks,
                     in_buffer = transfer.offset % program_.total_chunks;
      if (rank == in_buffer / program_.shard_chunks)
        return {'o', from * program_.shard_chunks + in_buffer % program_.shard_chunks};
      break;
    }
    case CollectiveKind::gather:
    case CollectiveKind::scatter:
    case CollectiveKind::barrier:
      CHECK(false) << to_string(kind_) << " has no schedule";
  }
  const auto found = sums_.find({rank, transfer.offset});
  if (found != sums_.end()) return found->second;
  return sums_[{rank, transfer.offset}] = new_scratch(rank, transfer.count);
}

BufferPlace BufferMap::new_scratch(uint32_t rank, uint64_t count) {
  const BufferPlace place{'s', scratch_[rank]};
  scratch_[rank] += count;
  return place;
}

std::vector<OwnPiece> own_pieces(CollectiveKind kind, bool in_place, const ExportProgram& program) {
  std::vector<OwnPiece> pieces;
  if (in_place) return pieces;
  for (uint32_t rank = 0; rank < program.ranks; ++rank) {
    if (kind == CollectiveKind::all_gather) {
      pieces.push_back({.rank = rank,
                        .source = {'i', 0},
                        .destination = {'o', program.shard_begin(rank)},
                        .count = program.shard_chunks});
    } else if (kind == CollectiveKind::all_to_all) {
      pieces.push_back({.rank = rank,
                        .source = {'i', program.shard_begin(rank)},
                        .destination = {'o', program.shard_begin(rank)},
                        .count = program.shard_chunks});
    } else if (kind == CollectiveKind::broadcast && rank == program.root) {
      pieces.push_back({.rank = rank, .source = {'i', 0}, .destination = {'o', 0}, .count = program.total_chunks});
    }
  }
  return pieces;
}

void refuse_export(const std::string& format, const ExportExcess& excess, uint64_t trees_per_rank) {
  const auto& [what, where, needed, allowed] = excess;
  const uint64_t fewer = std::max<uint64_t>(1, std::min(trees_per_rank - 1, trees_per_rank * allowed / needed));
  const std::string mend = trees_per_rank > 1 ? "plan with --trees " + std::to_string(fewer)
                                              : "even one tree per rank needs that; plan for fewer --ranks";
  throw Error(ErrorCode::unsupported, "needs " + std::to_string(needed) + " " + what +
                                          (where.empty() ? "" : " on " + where) + ", " + format + " has " +
                                          std::to_string(allowed) + "; " + mend);
}

}  // namespace banyan::schedule
