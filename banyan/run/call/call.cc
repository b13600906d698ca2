#include "banyan/run/call/call.h"

#include <algorithm>

#include "banyan/base/error.h"
#include "banyan/base/hash.h"
#include "banyan/run/call/message.h"

namespace banyan::run {
namespace {

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
  if (call.kind == OperationKind::all_gather_v) return call.recv_counts;
  if (call.kind == OperationKind::reduce_scatter_v) return call.send_counts;
  return {};
}

}  // namespace

uint64_t Call::send_elements(uint32_t rank, uint32_t size) const {
  switch (kind) {
    case OperationKind::all_reduce:
    case OperationKind::reduce:
    case OperationKind::all_gather:
    case OperationKind::gather:
    case OperationKind::send:
      return count;
    case OperationKind::broadcast:
      return rank == other ? count : 0;
    case OperationKind::reduce_scatter:
    case OperationKind::all_to_all:
      return count * size;
    case OperationKind::scatter:
      return rank == other ? count * size : 0;
    case OperationKind::all_gather_v:
      return recv_counts[rank];
    case OperationKind::reduce_scatter_v:
    case OperationKind::all_to_all_v:
      return total(send_counts, send_displacements);
    default:
      return 0;
  }
}

uint64_t Call::recv_elements(uint32_t rank, uint32_t size) const {
  switch (kind) {
    case OperationKind::all_reduce:
    case OperationKind::broadcast:
    case OperationKind::reduce_scatter:
    case OperationKind::scatter:
    case OperationKind::recv:
      return count;
    case OperationKind::reduce:
      return rank == other ? count : 0;
    case OperationKind::all_gather:
    case OperationKind::all_to_all:
      return count * size;
    case OperationKind::gather:
      return rank == other ? count * size : 0;
    case OperationKind::all_gather_v:
    case OperationKind::all_to_all_v:
      return total(recv_counts, recv_displacements);
    case OperationKind::reduce_scatter_v:
      return send_counts[rank];
    default:
      return 0;
  }
}

CallNumbers numbers_of(const Call& call) {
  const uint64_t other = is_rooted(call.kind) ? call.other : 0;
  const uint64_t op = reduces(call.kind) ? static_cast<uint64_t>(call.op) : 0;
  uint64_t counts = 0, sum = call.count;
  for (const size_t count : common_counts(call)) {
    counts = mix(counts + 1, count);
    sum += count;
  }
  return {static_cast<uint64_t>(call.kind) | uint64_t{call.wire_type().number()} << 8 | op << 16 | other << 32, sum,
          counts, 0};
}

// A small call feels each multiplication of a hash, since peers wait for its result.
uint64_t signature_of(const CallNumbers& numbers) { return mix(mix(numbers[0]) + numbers[2], numbers[1]); }

OperationRecord record_of(const CallNumbers& numbers, uint64_t sequence) {
  OperationRecord record;
  record.sequence = sequence;
  record.kind = static_cast<OperationKind>(numbers[0] & 0xff);
  const uint64_t type = numbers[0] >> 8 & 0xff;
  if (codec::WireType::is_known(type)) record.type = codec::WireType::of_number(static_cast<uint8_t>(type));
  record.op = static_cast<element::ReduceOp>(numbers[0] >> 16 & 0xff);
  record.other = is_rooted(record.kind) ? static_cast<uint32_t>(numbers[0] >> 32) : kNoRank;
  record.count = numbers[1];
  record.counts_hash = numbers[2];
  return record;
}

namespace {

[[noreturn]] void refuse(const Call& call, const std::string& what) {
  throw Error(ErrorCode::invalid_input, std::string(to_string(call.kind)) + ": " + what);
}

void expect_coded(const Call& call) {
  const std::string code = to_string(*call.codec);
  if (is_message(call.kind) || call.kind == OperationKind::barrier)
    refuse(call, "it has no codes; " + code + " was given");
  if (call.type != element::DataType::float32)
    refuse(call, code + " is a code of float32, not of " + std::string(to_string(call.type)));
  const bool sums = call.op == element::ReduceOp::sum || call.op == element::ReduceOp::avg ||
                    call.op == element::ReduceOp::premul_sum;
  if (reduces(call.kind) && !sums)
    refuse(call, std::string(to_string(call.op)) + " is not for codes; they are summed or averaged");
}

void expect_residual(const Call& call, uint64_t elements) {
  if (!call.codec) refuse(call, "a residual is of a coded type, such as float32 as int8; this one is not");
  const bool sums = call.op == element::ReduceOp::sum || call.op == element::ReduceOp::avg;
  if (!reduces(call.kind) || !sums) refuse(call, "a residual is of a sum or an average");
  if (call.residual->size() != elements) {
    refuse(call, "the residual has " + std::to_string(call.residual->size()) + " elements, the send buffer " +
                     std::to_string(elements));
  }
}

}  // namespace

std::string words_of(const Call& call) {
  if (is_message(call.kind)) {
    return describe(MessageRecord{.count = call.count,
                                  .peer = call.other,
                                  .tag = call.tag,
                                  .is_send = call.kind == OperationKind::send,
                                  .type = call.type});
  }
  const std::string more = details(record_of(numbers_of(call), 0));
  return std::string(to_string(call.kind)) + (more.empty() ? "" : " of " + more);
}

// Interfaces take ranks as ints, so that one beyond them was negative.
std::string as_given(uint32_t rank) { return std::to_string(static_cast<int32_t>(rank)); }

void expect_possible(const Call& call, uint32_t rank, uint32_t size) {
  const auto refuse = [&](const std::string& what) { run::refuse(call, what); };
  const bool is_from_any = call.kind == OperationKind::recv && call.other == kAnyRank;
  if ((is_rooted(call.kind) || is_message(call.kind)) && call.other >= size && !is_from_any) {
    refuse("rank " + as_given(call.other) + " does not exist; there are " + std::to_string(size));
  }
  if (reduces(call.kind)) expect_reducible(call.type, call.op);
  if (call.codec) expect_coded(call);
  if (call.residual != nullptr) expect_residual(call, call.send_elements(rank, size));
  // So that no sum of counts, nor their bytes, can overflow.
  const auto expect_in_memory = [&](uint64_t elements, const char* what) {
    const bool is_small = elements >> 28 == 0;  // spares a division
    if (!is_small && elements > UINT64_MAX / 16 / size) refuse(what + std::to_string(elements) + " is beyond memory");
  };
  const auto expect_counts = [&](std::span<const size_t> counts, std::span<const size_t> displacements) {
    if (counts.size() != size) refuse("one count per rank is needed, " + std::to_string(size) + " in all");
    if (!displacements.empty() && displacements.size() != size) refuse("one displacement per rank is needed");
    for (const size_t count : counts) expect_in_memory(count, "a count of ");
    for (const size_t displacement : displacements) expect_in_memory(displacement, "a displacement of ");
  };
  if (call.kind == OperationKind::all_gather_v || call.kind == OperationKind::all_to_all_v) {
    expect_counts(call.recv_counts, call.recv_displacements);
  }
  if (call.kind == OperationKind::reduce_scatter_v || call.kind == OperationKind::all_to_all_v) {
    expect_counts(call.send_counts, call.send_displacements);
  }
  if (call.kind == OperationKind::all_to_all_v && call.send_counts[rank] != call.recv_counts[rank]) {
    refuse("rank " + std::to_string(rank) + " sends " + std::to_string(call.send_counts[rank]) +
           " elements to itself, but receives " + std::to_string(call.recv_counts[rank]) +
           " from itself; both counts must be equal");
  }
  expect_in_memory(call.count, "a count of ");
  if (call.send == nullptr && call.send_elements(rank, size) > 0) refuse("the send buffer is missing");
  if (call.recv == nullptr && call.recv_elements(rank, size) > 0) refuse("the receive buffer is missing");
}

}  // namespace banyan::run
