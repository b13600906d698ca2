// CollectiveKind: the one vocabulary of collectives, and what is true of each. Plans, jobs, calls of programs,
// predictions and benchmarks all name collectives by it.
//
// Every collective is about one buffer of M bytes, the *total*:
//   all_gather      every rank holds its shard; at the end all hold all M bytes
//   reduce_scatter  every rank holds M bytes; at the end each holds its shard, reduced
//   all_reduce      every rank holds M bytes; at the end all hold them reduced
//   broadcast       the root holds M bytes; at the end all do
//   reduce          every rank holds M bytes; at the end the root holds them reduced
//   all_to_all      every rank holds M bytes, a shard for each rank, its own included; at the end it holds the shards
//                   that all ranks had for it
//   gather          every rank holds its shard; at the end the root holds all M bytes
//   scatter         the root holds M bytes; at the end each rank holds its shard
//   barrier         no bytes; no rank leaves it before all have come
// algbw is M over the time, as in nccl-tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace banyan {

enum class CollectiveKind : uint8_t {
  all_gather,
  reduce_scatter,
  all_reduce,
  broadcast,
  reduce,
  all_to_all,
  gather,
  scatter,
  barrier
};

struct CollectiveTraits {
  CollectiveKind kind;
  std::string_view name;     // in messages, in our files and on the command line
  std::string_view compact;  // in the files of MSCCL and in NCCL's names: without dashes
  bool is_rooted = false;    // it names one rank as its root
  bool reduces = false;      // it combines elements of several ranks
  bool is_sharded = false;   // M is made of a shard for each rank
  bool is_planned = false;   // planners make schedules of it
};

// In the order of the enumerators.
inline constexpr std::array<CollectiveTraits, 9> kCollectives{{
    {.kind = CollectiveKind::all_gather,
     .name = "allgather",
     .compact = "allgather",
     .is_sharded = true,
     .is_planned = true},
    {.kind = CollectiveKind::reduce_scatter,
     .name = "reduce-scatter",
     .compact = "reducescatter",
     .reduces = true,
     .is_sharded = true,
     .is_planned = true},
    {.kind = CollectiveKind::all_reduce,
     .name = "allreduce",
     .compact = "allreduce",
     .reduces = true,
     .is_planned = true},
    {.kind = CollectiveKind::broadcast,
     .name = "broadcast",
     .compact = "broadcast",
     .is_rooted = true,
     .is_planned = true},
    {.kind = CollectiveKind::reduce,
     .name = "reduce",
     .compact = "reduce",
     .is_rooted = true,
     .reduces = true,
     .is_planned = true},
    {.kind = CollectiveKind::all_to_all,
     .name = "all-to-all",
     .compact = "alltoall",
     .is_sharded = true,
     .is_planned = true},
    {.kind = CollectiveKind::gather, .name = "gather", .compact = "gather", .is_rooted = true, .is_sharded = true},
    {.kind = CollectiveKind::scatter, .name = "scatter", .compact = "scatter", .is_rooted = true, .is_sharded = true},
    {.kind = CollectiveKind::barrier, .name = "barrier", .compact = "barrier"},
}};

constexpr const CollectiveTraits& traits_of(CollectiveKind kind) { return kCollectives[static_cast<size_t>(kind)]; }
constexpr std::string_view to_string(CollectiveKind kind) { return traits_of(kind).name; }
constexpr bool is_rooted(CollectiveKind kind) { return traits_of(kind).is_rooted; }
constexpr bool reduces(CollectiveKind kind) { return traits_of(kind).reduces; }
constexpr bool is_sharded(CollectiveKind kind) { return traits_of(kind).is_sharded; }
// Every rank has something else for each, so that no two ranks are sent the same.
constexpr bool is_personal(CollectiveKind kind) { return kind == CollectiveKind::all_to_all; }
constexpr bool is_planned(CollectiveKind kind) { return traits_of(kind).is_planned; }

// algbw times this is busbw (nccl-tests, doc/PERFORMANCE.md): the bytes that a ring moves over each link, by M.
// 2 (n-1)/n for an allreduce, (n-1)/n where there is a shard for each rank, 1 for broadcast and reduce, 0 for a
// barrier.
double busbw_factor(CollectiveKind kind, size_t ranks);

// The collective that `text` means, in our spelling or in that of NCCL, RCCL, MPI, PyTorch or nccl-tests: "allreduce",
// "all_reduce", "AllReduce", "ncclAllReduce", "MPI_Allreduce", "all_reduce_perf", "all_gather_into_tensor".
std::optional<CollectiveKind> find_collective_kind(std::string_view text);

// Throws Error{invalid_input} with the nearest and all known names. The second form knows only the kinds for which
// `is_known` says so.
CollectiveKind parse_collective_kind(std::string_view text);
CollectiveKind parse_collective_kind(std::string_view text, bool (*is_known)(CollectiveKind));
// "allgather, reduce-scatter, ...": the names of the kinds for which `is_known` says so.
std::string collective_names(bool (*is_known)(CollectiveKind));

}  // namespace banyan
