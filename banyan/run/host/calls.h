// The collectives, as tasks for the ranks of one host.
//
// Buffers are as in include/banyan/banyan.h. `pieces` is storage for lists that the task points to; it must live,
// unchanged, until the operation is over.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "banyan/run/host/task.h"

namespace banyan::run {

struct HostCall {
  uint32_t rank = 0, ranks = 1;
  uint64_t signature = 0;
  std::array<uint64_t, 4> record{};
  uint64_t element_bytes = 1;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
};

HostTask all_reduce_task(const HostCall& call, uint64_t count, const element::ReduceTask& reduction);
HostTask reduce_task(const HostCall& call, uint64_t count, const element::ReduceTask& reduction, uint32_t root);
HostTask reduce_scatter_task(const HostCall& call, uint64_t count, const element::ReduceTask& reduction);
HostTask broadcast_task(const HostCall& call, uint64_t count, uint32_t root);
HostTask all_gather_task(const HostCall& call, uint64_t count);
HostTask all_to_all_task(const HostCall& call, uint64_t count);
HostTask gather_task(const HostCall& call, uint64_t count, uint32_t root);
HostTask scatter_task(const HostCall& call, uint64_t count, uint32_t root);
HostTask barrier_task(const HostCall& call);

// With counts, in elements, one per rank. Empty displacements: one after the other.
HostTask reduce_scatter_v_task(const HostCall& call, std::span<const size_t> counts,
                               const element::ReduceTask& reduction, std::vector<Piece>& pieces);
HostTask all_gather_v_task(const HostCall& call, std::span<const size_t> counts, std::span<const size_t> displacements,
                           std::vector<Piece>& pieces);
struct VCounts {
  std::span<const size_t> counts, displacements;
};
HostTask all_to_all_v_task(const HostCall& call, const VCounts& send, const VCounts& recv, std::vector<Piece>& pieces);

}  // namespace banyan::run
