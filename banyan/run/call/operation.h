// OperationRecord: what one rank did, or is doing, in one operation of a communicator. And the words for it.
//
// Numbers. The collectives of a communicator are counted from 1, alike on all ranks, since all ranks make the same
// calls in the same order: two ranks' records with one number are one operation, or a mistake of the program. Messages
// (send, recv) and groups of them involve some ranks only; each rank counts its own, apart, and their numbers are never
// compared.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "banyan/base/collective_kind.h"
#include "banyan/codec/wire_type.h"
#include "banyan/element/data_type.h"

namespace banyan::run {

// The code of a call. Those that carry out a collective take its name and traits from base/collective_kind.h; the
// v-kinds carry out the same with a count of its own for each rank.
enum class OperationKind : uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  all_gather_v,
  reduce_scatter,
  reduce_scatter_v,
  all_to_all,
  all_to_all_v,
  gather,
  scatter,
  barrier,
  send,
  recv,
  group,
  join,
  split,
  shrink
};
inline constexpr size_t kOperationKinds = 18;

// waiting: called, but earlier operations come first. failed: it ended with an error.
enum class OperationState : uint8_t { waiting, running, done, failed };
inline constexpr size_t kOperationStates = 4;

// "allreduce", "reduce-scatter", "all-to-allv", ...; "waiting", "running", ...
std::string_view to_string(OperationKind kind);
std::string_view to_string(OperationState state);
// The reverse of to_string. Throw Error{invalid_input} that lists the names.
OperationKind parse_operation_kind(std::string_view text);
OperationState parse_operation_state(std::string_view text);

inline constexpr uint32_t kNoRank = UINT32_MAX;

// Lives in memory that several processes share; see recorder.h for how it is written and read there. Times are in
// nanoseconds of CLOCK_MONOTONIC; 0 is "not known". The count of an all-to-allv is what this rank sends, that of other
// v-kinds the sum over all ranks.
struct OperationRecord {
  uint64_t ticket = 0;       // counts all records of a recorder from 1; 0: never written, or being overwritten
  uint64_t sequence = 0;     // its number, see above
  uint64_t count = 0;        // of elements, as the caller gave it; see above for v-kinds
  uint64_t counts_hash = 0;  // of the counts that all ranks must give alike (v-kinds), by numbers_of(Call)
  int64_t begin = 0;         // when this rank called it
  int64_t end = 0;           // when it was done or had failed here
  uint32_t step = 0;         // grows with every piece that moves; compares ranks within one operation
  uint32_t waits_for = kNoRank;
  uint32_t other = kNoRank;  // the root, or the peer of a message
  OperationKind kind = OperationKind::barrier;
  codec::WireType type = element::DataType::uint8;
  element::ReduceOp op = element::ReduceOp::sum;
  OperationState state = OperationState::waiting;

  friend bool operator==(const OperationRecord&, const OperationRecord&) = default;
};
static_assert(sizeof(OperationRecord) == 64 && std::is_trivially_copyable_v<OperationRecord>);

// The collective that a call carries out; none for messages, groups and calls that make communicators.
constexpr std::optional<CollectiveKind> collective_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::all_reduce:
      return CollectiveKind::all_reduce;
    case OperationKind::reduce:
      return CollectiveKind::reduce;
    case OperationKind::broadcast:
      return CollectiveKind::broadcast;
    case OperationKind::all_gather:
    case OperationKind::all_gather_v:
      return CollectiveKind::all_gather;
    case OperationKind::reduce_scatter:
    case OperationKind::reduce_scatter_v:
      return CollectiveKind::reduce_scatter;
    case OperationKind::all_to_all:
    case OperationKind::all_to_all_v:
      return CollectiveKind::all_to_all;
    case OperationKind::gather:
      return CollectiveKind::gather;
    case OperationKind::scatter:
      return CollectiveKind::scatter;
    case OperationKind::barrier:
      return CollectiveKind::barrier;
    case OperationKind::send:
    case OperationKind::recv:
    case OperationKind::group:
    case OperationKind::join:
    case OperationKind::split:
    case OperationKind::shrink:
      return std::nullopt;
  }
  return std::nullopt;
}

constexpr bool is_message(OperationKind kind) { return kind == OperationKind::send || kind == OperationKind::recv; }
// True if all ranks call it.
constexpr bool is_collective(OperationKind kind) { return !is_message(kind) && kind != OperationKind::group; }
constexpr bool has_elements(OperationKind kind) {
  return is_message(kind) || collective_of(kind).value_or(CollectiveKind::barrier) != CollectiveKind::barrier;
}

// Traits that every call asks for, looked up by one load.
struct OperationTraits {
  bool is_rooted = false, reduces = false;
};
inline constexpr auto kOperationTraits = [] {
  std::array<OperationTraits, kOperationKinds> traits;
  for (size_t i = 0; i < traits.size(); ++i) {
    const auto collective = collective_of(static_cast<OperationKind>(i));
    if (collective) traits[i] = {.is_rooted = is_rooted(*collective), .reduces = reduces(*collective)};
  }
  return traits;
}();
constexpr bool reduces(OperationKind kind) { return kOperationTraits[static_cast<size_t>(kind)].reduces; }
constexpr bool is_rooted(OperationKind kind) { return kOperationTraits[static_cast<size_t>(kind)].is_rooted; }
constexpr bool has_counts(OperationKind kind) {
  return kind == OperationKind::all_gather_v || kind == OperationKind::reduce_scatter_v ||
         kind == OperationKind::all_to_all_v;
}
// True if no rank can leave it before all have entered.
constexpr bool synchronizes(OperationKind kind) { return is_collective(kind) && !is_rooted(kind) && !has_counts(kind); }

// Equal on the ranks of one call: kind, type, operator, root, count and counts, as far as the kind has them; of a
// message equal on its sender and its receiver. Differing calls have differing signatures, but for one in 2^64.
uint64_t signature(const OperationRecord& record);

// "allreduce #17 of 1024 float32 sum", "broadcast #3 of 10 int8 from rank 2", "send #4 of 10 int8 to rank 1".
std::string describe(const OperationRecord& record);
// "allreduce #17", where the rest is known to the reader.
std::string name(const OperationRecord& record);
// "1024 float32 sum", "10 int8 from rank 2"; empty where a kind has no elements.
std::string details(const OperationRecord& record);

// The difference between two calls that should be one: "the counts differ", "the kinds differ (...)"; empty when
// nothing does.
std::string difference(const OperationRecord& mine, const OperationRecord& theirs);
// "rank 3 called allreduce #17 of 1024 float32 sum where rank 0 called allreduce #17 of 1000 float32 sum: the counts
// differ". Rank 0 is `my_rank` here.
std::string mismatch_message(uint32_t my_rank, const OperationRecord& mine, uint32_t peer,
                             const OperationRecord& theirs);

}  // namespace banyan::run
