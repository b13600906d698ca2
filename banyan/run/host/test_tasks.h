// The tasks of collectives on one host, for tests.
#pragma once

#include <vector>

#include "banyan/run/host/calls.h"
#include "banyan/testing/call_shape.h"

namespace banyan::run {

inline constexpr element::ReduceTask kTestSum{.type = element::DataType::int32, .op = element::ReduceOp::sum};

// What a task of kinds with a count for each rank points to.
struct TaskLists {
  std::vector<size_t> counts, displacements;
  std::vector<Piece> pieces;
};

// A sum of int32 where the kind reduces. `lists` must live, unchanged, until the operation is over.
inline HostTask task_of(const testing::CallShape& shape, const HostCall& call, TaskLists& lists) {
  const uint64_t count = shape.count;
  lists = {.counts = shape.counts(call.rank), .displacements = shape.displacements(call.rank), .pieces = {}};
  switch (shape.kind) {
    case OperationKind::all_reduce:
      return all_reduce_task(call, count, kTestSum);
    case OperationKind::reduce:
      return reduce_task(call, count, kTestSum, shape.root);
    case OperationKind::reduce_scatter:
      return reduce_scatter_task(call, count, kTestSum);
    case OperationKind::broadcast:
      return broadcast_task(call, count, shape.root);
    case OperationKind::all_gather:
      return all_gather_task(call, count);
    case OperationKind::all_to_all:
      return all_to_all_task(call, count);
    case OperationKind::gather:
      return gather_task(call, count, shape.root);
    case OperationKind::scatter:
      return scatter_task(call, count, shape.root);
    case OperationKind::all_gather_v:
      return all_gather_v_task(call, lists.counts, {}, lists.pieces);
    case OperationKind::reduce_scatter_v:
      return reduce_scatter_v_task(call, lists.counts, kTestSum, lists.pieces);
    case OperationKind::all_to_all_v:
      return all_to_all_v_task(call, {lists.counts, lists.displacements}, {lists.counts, lists.displacements},
                               lists.pieces);
    default:
      return barrier_task(call);
  }
}

}  // namespace banyan::run
