#include "banyan/run/host/calls.h"

#include <algorithm>

#include "banyan/run/host/segment.h"

namespace banyan::run {
namespace {

// Up to so many bytes the root of a reduce does all of it, which spares a round.
constexpr uint64_t kRootReduces = 16 << 10;

HostTask task_of(const HostCall& call, HostTask::Kind kind, uint64_t input_elements, uint64_t output_elements) {
  return {.kind = kind,
          .signature = call.signature,
          .record = call.record,
          .input = call.send,
          .output = call.recv,
          .input_bytes = input_elements * call.element_bytes,
          .output_bytes = output_elements * call.element_bytes,
          .element_bytes = static_cast<uint32_t>(call.element_bytes),
          .share_takers = HostTask::kNobody};
}

// Shares begin at cache lines of an aligned buffer, so that no two ranks write to one.
Pieces shares(uint64_t bytes, uint32_t ranks) {
  if (bytes <= kCacheLine) return Pieces::even(kCacheLine, bytes);  // spares a division
  const uint64_t each = (bytes + ranks - 1) / ranks;
  return Pieces::even((each + kCacheLine - 1) / kCacheLine * kCacheLine, bytes);
}

void append(std::vector<Piece>& pieces, const VCounts& counts, uint64_t element_bytes) {
  uint64_t next = 0;
  for (size_t i = 0; i < counts.counts.size(); ++i) {
    const uint64_t offset = counts.displacements.empty() ? next : counts.displacements[i];
    pieces.push_back({offset * element_bytes, counts.counts[i] * element_bytes});
    next = offset + counts.counts[i];
  }
}

uint64_t end_of(std::span<const Piece> pieces) {
  uint64_t end = 0;
  for (const Piece& piece : pieces) end = std::max(end, piece.offset + piece.bytes);
  return end;
}

}  // namespace

HostTask all_reduce_task(const HostCall& call, uint64_t count, const element::ReduceTask& reduction) {
  HostTask task = task_of(call, HostTask::Kind::all_reduce, count, count);
  task.reduction = reduction;
  // Not copied from one to the other: see base/remake.h.
  task.offered = shares(task.input_bytes, call.ranks);
  task.taken = shares(task.input_bytes, call.ranks);
  task.share_takers = HostTask::kAll;
  task.overwrites_input = call.send == call.recv;
  return task;
}

HostTask reduce_task(const HostCall& call, uint64_t count, const element::ReduceTask& reduction, uint32_t root) {
  const bool is_root = call.rank == root;
  HostTask task = task_of(call, HostTask::Kind::reduce, count, is_root ? count : 0);
  task.reduction = reduction;
  if (task.input_bytes * (call.ranks - 1) <= kRootReduces) {
    task.offered = Pieces::only(root, task.input_bytes);
    if (is_root) task.taken = Pieces::only(root, task.output_bytes);
    return task;
  }
  task.offered = shares(task.input_bytes, call.ranks);
  task.taken = is_root ? task.offered : Pieces();
  task.share_takers = root;
  return task;
}

HostTask reduce_scatter_task(const HostCall& call, uint64_t count, const element::ReduceTask& reduction) {
  HostTask task = task_of(call, HostTask::Kind::reduce, count * call.ranks, count);
  task.reduction = reduction;
  task.offered = Pieces::even(task.output_bytes, task.input_bytes);
  task.taken = Pieces::only(call.rank, task.output_bytes);
  return task;
}

HostTask broadcast_task(const HostCall& call, uint64_t count, uint32_t root) {
  const bool is_root = call.rank == root;
  HostTask task = task_of(call, HostTask::Kind::move, is_root ? count : 0, count);
  // Pieces of the others are of no bytes, and yet single: that is how they look for the root's.
  task.offered = Pieces::same(task.input_bytes);
  task.taken = Pieces::only(root, task.output_bytes);
  return task;
}

HostTask all_gather_task(const HostCall& call, uint64_t count) {
  HostTask task = task_of(call, HostTask::Kind::move, count, count * call.ranks);
  task.offered = Pieces::same(task.input_bytes);
  task.taken = Pieces::even(task.input_bytes, task.output_bytes);
  return task;
}

HostTask all_to_all_task(const HostCall& call, uint64_t count) {
  HostTask task = task_of(call, HostTask::Kind::move, count * call.ranks, count * call.ranks);
  task.offered = task.taken = Pieces::even(count * call.element_bytes, task.input_bytes);
  task.overwrites_input = call.send == call.recv;
  return task;
}

HostTask gather_task(const HostCall& call, uint64_t count, uint32_t root) {
  const bool is_root = call.rank == root;
  HostTask task = task_of(call, HostTask::Kind::move, count, is_root ? count * call.ranks : 0);
  task.offered = Pieces::only(root, task.input_bytes);
  if (is_root) task.taken = Pieces::even(task.input_bytes, task.output_bytes);
  return task;
}

HostTask scatter_task(const HostCall& call, uint64_t count, uint32_t root) {
  const bool is_root = call.rank == root;
  HostTask task = task_of(call, HostTask::Kind::move, is_root ? count * call.ranks : 0, count);
  task.offered = Pieces::even(task.output_bytes, task.input_bytes);
  task.taken = Pieces::only(root, task.output_bytes);
  return task;
}

HostTask barrier_task(const HostCall& call) { return task_of(call, HostTask::Kind::meet, 0, 0); }

HostTask reduce_scatter_v_task(const HostCall& call, std::span<const size_t> counts,
                               const element::ReduceTask& reduction, std::vector<Piece>& pieces) {
  pieces.clear();
  append(pieces, {.counts = counts, .displacements = {}}, call.element_bytes);
  HostTask task = task_of(call, HostTask::Kind::reduce, 0, counts[call.rank]);
  task.input_bytes = end_of(pieces);
  task.reduction = reduction;
  task.offered = Pieces(pieces.data());
  task.taken = Pieces::only(call.rank, task.output_bytes);
  return task;
}

HostTask all_gather_v_task(const HostCall& call, std::span<const size_t> counts, std::span<const size_t> displacements,
                           std::vector<Piece>& pieces) {
  pieces.clear();
  append(pieces, {.counts = counts, .displacements = displacements}, call.element_bytes);
  HostTask task = task_of(call, HostTask::Kind::move, counts[call.rank], 0);
  task.output_bytes = end_of(pieces);
  task.offered = Pieces::same(task.input_bytes);
  task.taken = Pieces(pieces.data());
  return task;
}

HostTask all_to_all_v_task(const HostCall& call, const VCounts& send, const VCounts& recv, std::vector<Piece>& pieces) {
  pieces.clear();
  pieces.reserve(2 * size_t{call.ranks});
  append(pieces, send, call.element_bytes);
  append(pieces, recv, call.element_bytes);
  HostTask task = task_of(call, HostTask::Kind::move, 0, 0);
  const std::span<const Piece> all(pieces);
  task.input_bytes = end_of(all.first(call.ranks));
  task.output_bytes = end_of(all.subspan(call.ranks));
  task.offered = Pieces(pieces.data());
  task.taken = Pieces(pieces.data() + call.ranks);
  task.overwrites_input = call.send == call.recv;
  return task;
}

}  // namespace banyan::run
