#include "banyan/run/call.h"

#include <bit>

#include "banyan/base/check.h"

namespace banyan {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

uint64_t total(std::span<const size_t> counts, std::span<const size_t> displacements) {
  uint64_t end = 0, next = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const uint64_t begin = displacements.empty() ? next : displacements[i];
    next = begin + counts[i];
    if (counts[i] > 0) end = std::max(end, next);
  }
  return end;
}

// The counts that all ranks must give alike.
std::span<const size_t> common_counts(const Call& call) {
  if (call.kind == CallKind::all_gather_v) return call.recv_counts;
  if (call.kind == CallKind::reduce_scatter_v) return call.send_counts;
  return {};
}

struct Decoded {
  CallKind kind;
  DataType type;
  ReduceOp op;
  uint32_t other;
};

Decoded decode(const CallNumbers& numbers) {
  return {.kind = static_cast<CallKind>(numbers[0] & 0xff),
          .type = static_cast<DataType>(numbers[0] >> 8 & 0xff),
          .op = static_cast<ReduceOp>(numbers[0] >> 16 & 0xff),
          .other = static_cast<uint32_t>(numbers[0] >> 32)};
}

bool is_known(const Decoded& call) {
  return call.kind <= CallKind::recv && call.type <= DataType::float64 && call.op <= ReduceOp::premul_sum;
}

}  // namespace

std::string_view to_string(CallKind kind) {
  switch (kind) {
    case CallKind::all_reduce:
      return "allreduce";
    case CallKind::reduce:
      return "reduce";
    case CallKind::broadcast:
      return "broadcast";
    case CallKind::all_gather:
      return "allgather";
    case CallKind::all_gather_v:
      return "allgatherv";
    case CallKind::reduce_scatter:
      return "reduce-scatter";
    case CallKind::reduce_scatter_v:
      return "reduce-scatterv";
    case CallKind::all_to_all:
      return "all-to-all";
    case CallKind::all_to_all_v:
      return "all-to-allv";
    case CallKind::gather:
      return "gather";
    case CallKind::scatter:
      return "scatter";
    case CallKind::barrier:
      return "barrier";
    case CallKind::send:
      return "send";
    case CallKind::recv:
      return "recv";
  }
  CHECK(false) << static_cast<int>(kind);
  return {};
}

uint64_t Call::send_elements(uint32_t rank, uint32_t size) const {
  switch (kind) {
    case CallKind::all_reduce:
    case CallKind::reduce:
    case CallKind::all_gather:
    case CallKind::gather:
    case CallKind::send:
      return count;
    case CallKind::broadcast:
      return rank == other ? count : 0;
    case CallKind::reduce_scatter:
    case CallKind::all_to_all:
      return count * size;
    case CallKind::scatter:
      return rank == other ? count * size : 0;
    case CallKind::all_gather_v:
      return recv_counts[rank];
    case CallKind::reduce_scatter_v:
    case CallKind::all_to_all_v:
      return total(send_counts, send_displacements);
    case CallKind::barrier:
    case CallKind::recv:
      return 0;
  }
  return 0;
}

uint64_t Call::recv_elements(uint32_t rank, uint32_t size) const {
  switch (kind) {
    case CallKind::all_reduce:
    case CallKind::broadcast:
    case CallKind::reduce_scatter:
    case CallKind::scatter:
    case CallKind::recv:
      return count;
    case CallKind::reduce:
      return rank == other ? count : 0;
    case CallKind::all_gather:
    case CallKind::all_to_all:
      return count * size;
    case CallKind::gather:
      return rank == other ? count * size : 0;
    case CallKind::all_gather_v:
    case CallKind::all_to_all_v:
      return total(recv_counts, recv_displacements);
    case CallKind::reduce_scatter_v:
      return send_counts[rank];
    case CallKind::barrier:
    case CallKind::send:
      return 0;
  }
  return 0;
}

CallNumbers numbers_of(const Call& call) {
  const uint64_t other = call.is_rooted() ? call.other : 0;
  const uint64_t op = call.reduces() ? static_cast<uint64_t>(call.op) : 0;
  uint64_t counts = 0;
  for (const size_t count : common_counts(call)) counts = mix(counts + 1, count);
  return {static_cast<uint64_t>(call.kind) | static_cast<uint64_t>(call.type) << 8 | op << 16 | other << 32, call.count,
          counts, 0};
}

uint64_t signature_of(const CallNumbers& numbers) { return mix(mix(mix(1, numbers[0]), numbers[1]), numbers[2]); }

std::string describe(const CallNumbers& numbers) {
  const Decoded call = decode(numbers);
  if (!is_known(call)) return "an unknown operation";
  std::string text(to_string(call.kind));
  if (call.kind == CallKind::barrier) return text;
  const bool has_counts = call.kind == CallKind::all_gather_v || call.kind == CallKind::reduce_scatter_v ||
                          call.kind == CallKind::all_to_all_v;
  text += has_counts ? " of " : " of " + std::to_string(numbers[1]) + " ";
  text += to_string(call.type);
  const Call kind{.kind = call.kind};
  if (kind.reduces()) text += " (" + std::string(to_string(call.op)) + ")";
  if (call.kind == CallKind::broadcast || call.kind == CallKind::scatter) {
    text += " from rank " + std::to_string(call.other);
  } else if (kind.is_rooted()) {
    text += " to rank " + std::to_string(call.other);
  }
  return text;
}

std::string describe_mismatch(uint32_t own, const CallNumbers& ours, uint32_t peer, const CallNumbers& theirs) {
  const Decoded a = decode(ours), b = decode(theirs);
  const char* what = "the counts per rank differ";
  if (a.kind != b.kind) {
    what = "do all ranks make their calls in the same order?";
  } else if (a.type != b.type) {
    what = "the types differ";
  } else if (a.op != b.op) {
    what = "the reductions differ";
  } else if (a.other != b.other) {
    what = "the roots differ";
  } else if (ours[1] != theirs[1]) {
    what = "the counts differ";
  }
  return "rank " + std::to_string(peer) + " called " + describe(theirs) + " where this rank, " + std::to_string(own) +
         ", called " + describe(ours) + ": " + what;
}

}  // namespace banyan
