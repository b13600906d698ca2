#include "banyan/service/client/staging.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::service {
namespace {

using run::Call;
using run::OperationKind;

using Sizes = std::span<const size_t>;

// A stretch of a buffer, in bytes.
struct Stretch {
  size_t begin = 0, bytes = 0;
};

// What a buffer has without the gaps between; one stretch where there are none.
std::vector<Stretch> stretches(Sizes counts, Sizes displacements, size_t element_bytes, size_t all_bytes) {
  if (displacements.empty()) return {{.begin = 0, .bytes = all_bytes}};
  std::vector<Stretch> found;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank] == 0) continue;
    const Stretch next{.begin = displacements[rank] * element_bytes, .bytes = counts[rank] * element_bytes};
    if (!found.empty() && found.back().begin + found.back().bytes == next.begin) {
      found.back().bytes += next.bytes;
    } else {
      found.push_back(next);
    }
  }
  return found;
}

bool sends_counts(OperationKind kind) {
  return kind == OperationKind::reduce_scatter_v || kind == OperationKind::all_to_all_v;
}
bool receives_counts(OperationKind kind) {
  return kind == OperationKind::all_gather_v || kind == OperationKind::all_to_all_v;
}

// Whether what comes is written over what is sent. Of the other kinds in place, this rank's part lies where it stays.
bool overwrites_input(const Call& call, size_t send_bytes, size_t recv_bytes) {
  const bool can =
      reduces(call.kind) || call.kind == OperationKind::all_to_all || call.kind == OperationKind::all_to_all_v;
  const std::less<> lies_before;
  return can && send_bytes > 0 && recv_bytes > 0 && lies_before(call.send, call.recv + recv_bytes) &&
         lies_before(call.recv, call.send + send_bytes);
}

uint32_t milliseconds_of(std::chrono::milliseconds timeout) {
  return static_cast<uint32_t>(std::clamp<int64_t>(timeout.count(), 0, UINT32_MAX));
}

// Displacements of pieces one after the other, where the call gives none.
uint64_t* put_displacements(Sizes counts, Sizes displacements, uint64_t* to) {
  if (!displacements.empty()) return std::copy(displacements.begin(), displacements.end(), to);
  uint64_t next = 0;
  for (const size_t count : counts) {
    *to++ = next;
    next += count;
  }
  return to;
}

}  // namespace

Staging::Staged Staging::stage(const Call& call) {
  CHECK(call.kind != OperationKind::reduce_scatter_v || call.send_displacements.empty())
      << "a reduce-scatterv has none";
  const bool has_displacements = !call.send_displacements.empty() || !call.recv_displacements.empty();
  Staged staged;
  Submission& submission = staged.submission;
  submission.kind = static_cast<uint8_t>(call.kind);
  submission.type = static_cast<uint8_t>(call.type);
  submission.count = call.count;
  submission.milliseconds = milliseconds_of(call.timeout);
  if (reduces(call.kind)) {
    submission.op = static_cast<uint8_t>(call.op);
    submission.factor = call.factor;
  }
  if (is_rooted(call.kind) || is_message(call.kind)) submission.other = call.other;
  if (is_message(call.kind)) submission.tag = call.tag;
  try {
    if (has_counts(call.kind)) {
      if (has_displacements) submission.flags = static_cast<uint32_t>(SubmissionFlag::has_displacements);
      submission.counts = place_counts(call, has_displacements, staged.call);
    }
    submission.send = place_send(call, staged.call);
    submission.recv = place_recv(call, staged.call);
  } catch (...) {
    finish(std::move(staged.call), false);
    throw;
  }
  return staged;
}

BufferName Staging::place_counts(const Call& call, bool has_displacements, StagedCall& staged) {
  const bool sends = sends_counts(call.kind), receives = receives_counts(call.kind);
  const size_t lists = (sends ? 1u : 0u) + (receives ? 1u : 0u);
  const size_t numbers = lists * size_ * (has_displacements ? 2 : 1);
  const StagedCall::Block& block = take(numbers * sizeof(uint64_t), staged);
  auto* next = reinterpret_cast<uint64_t*>(block.memory.data);
  if (sends) {
    next = std::copy(call.send_counts.begin(), call.send_counts.end(), next);
    if (has_displacements) next = put_displacements(call.send_counts, call.send_displacements, next);
  }
  if (receives) {
    next = std::copy(call.recv_counts.begin(), call.recv_counts.end(), next);
    if (has_displacements) put_displacements(call.recv_counts, call.recv_displacements, next);
  }
  return block.memory.name;
}

BufferName Staging::place_send(const Call& call, StagedCall& staged) {
  const size_t bytes = call.send_elements(rank_, size_) * size_of(call.type);
  if (bytes == 0) return {};
  if (call.residual != nullptr) {
    const StagedCall::Block& sum = take(bytes, staged);
    call.residual->add_to(call.send, sum.memory.data);
    return sum.memory.name;
  }
  if (const std::optional<BufferName> named = name(call.send, bytes, staged)) return *named;
  const StagedCall::Block& block = take(bytes, staged);
  const Sizes displacements = sends_counts(call.kind) ? call.send_displacements : Sizes();
  for (const Stretch& stretch : stretches(call.send_counts, displacements, size_of(call.type), bytes)) {
    std::memcpy(block.memory.data + stretch.begin, call.send + stretch.begin, stretch.bytes);
  }
  return block.memory.name;
}

BufferName Staging::place_recv(const Call& call, StagedCall& staged) {
  const size_t bytes = call.recv_elements(rank_, size_) * size_of(call.type);
  if (bytes == 0) return {};
  if (!overwrites_input(call, call.send_elements(rank_, size_) * size_of(call.type), bytes)) {
    if (const std::optional<BufferName> named = name(call.recv, bytes, staged)) return *named;
  }
  const StagedCall::Block& block = take(bytes, staged);
  const Sizes displacements = receives_counts(call.kind) ? call.recv_displacements : Sizes();
  for (const Stretch& stretch : stretches(call.recv_counts, displacements, size_of(call.type), bytes)) {
    staged.copies.push_back(
        {.to = call.recv + stretch.begin, .from = block.memory.data + stretch.begin, .bytes = stretch.bytes});
  }
  return block.memory.name;
}

std::optional<BufferName> Staging::name(const std::byte* begin, size_t bytes, StagedCall& staged) {
  std::optional<Attachment::Named> named = attachment_.name(begin, bytes);
  if (!named) return std::nullopt;
  staged.offers.push_back(std::move(named->offer));
  return named->name;
}

void Staging::finish(StagedCall call, bool is_done) {
  for (const StagedCall::Copy& copy : call.copies) {
    if (is_done) std::memcpy(copy.to, copy.from, copy.bytes);
  }
  for (StagedCall::Block& block : call.blocks) give_back(std::move(block));
}

void Staging::trim() {
  for (std::vector<StagedCall::Block>& blocks : free_) {
    for (const StagedCall::Block& block : blocks) held_ -= block.bytes;
    blocks.clear();
  }
  arena_ = {};
  arena_bytes_ = 0;
  arena_left_ = 0;
}

// ---- Blocks ----

StagedCall::Block& Staging::take(size_t bytes, StagedCall& staged) {
  return staged.blocks.emplace_back(taken(std::bit_ceil(std::max(bytes, kLeastBlock))));
}

StagedCall::Block Staging::taken(size_t bytes) {
  std::vector<StagedCall::Block>& free = free_[static_cast<size_t>(std::countr_zero(bytes))];
  if (!free.empty()) {
    StagedCall::Block block = std::move(free.back());
    free.pop_back();
    return block;
  }
  if (bytes <= kMostInArena) return cut(bytes);
  StagedCall::Block block{.memory = allocate(bytes), .bytes = bytes};
  held_ += bytes;
  return block;
}

StagedCall::Block Staging::cut(size_t bytes) {
  const auto next = [&](size_t size) {
    StagedCall::Block block{.memory = arena_, .bytes = size};
    const size_t begin = arena_bytes_ - arena_left_;
    block.memory.data += begin;
    block.memory.name.offset += begin;
    arena_left_ -= size;
    held_ += size;
    return block;
  };
  if (arena_left_ < bytes) {
    while (arena_left_ > 0) give_back(next(std::bit_floor(arena_left_)));
    const size_t wanted = std::clamp<size_t>(2 * arena_bytes_, kFirstArena, kLargestArena);
    arena_ = allocate(std::max(wanted, bytes));
    arena_left_ = arena_bytes_ = std::max(wanted, bytes);
  }
  return next(bytes);
}

void Staging::give_back(StagedCall::Block block) {
  free_[static_cast<size_t>(std::countr_zero(block.bytes))].push_back(std::move(block));
}

// Where there is no more, what is kept for later calls may be in the way.
Attachment::Memory Staging::allocate(size_t bytes) {
  try {
    return attachment_.allocate(bytes);
  } catch (const Error& error) {
    if (held_ == 0 || (error.code() != ErrorCode::io && error.code() != ErrorCode::unsupported)) throw;
  }
  trim();
  return attachment_.allocate(bytes);
}

}  // namespace banyan::service
