// Calls of any kind, for tests.
#pragma once

#include <banyan/banyan.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/testing/call_shape.h"

namespace banyan::c {

struct CallArguments {
  const void* send;
  void* recv;
  banyan_type_t type;
  banyan_op_t op = BANYAN_SUM;
  banyan_request_t* request = nullptr;
};

// Memory for a call: of banyan_mem_alloc, or of this process alone. Ends the process when there is none.
class CallMemory {
 public:
  CallMemory(size_t bytes, bool is_shared) : is_shared_(is_shared) {
    void* memory = nullptr;
    if (is_shared) {
      CHECK(banyan_mem_alloc(&memory, bytes) == BANYAN_SUCCESS) << banyan_last_error(nullptr);
    } else {
      memory = std::malloc(bytes + 1);
      CHECK(memory != nullptr) << bytes;
    }
    data_ = static_cast<std::byte*>(memory);
  }
  ~CallMemory() {
    if (is_shared_) {
      CHECK(banyan_mem_free(data_) == BANYAN_SUCCESS) << banyan_last_error(nullptr);
    } else {
      std::free(data_);
    }
  }
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  const bool is_shared_;
  std::byte* data_ = nullptr;
};

// Makes the call of this rank. Its lists of counts hold other numbers as soon as the function returns.
inline banyan_result_t make_call(const testing::CallShape& shape, const CallArguments& of, banyan_comm_t comm) {
  using run::OperationKind;
  const size_t count = shape.count;
  const int root = static_cast<int>(shape.root), ranks = static_cast<int>(shape.ranks);
  int rank = 0;
  banyan_comm_user_rank(comm, &rank);
  std::vector<size_t> counts = shape.counts(static_cast<uint32_t>(rank));
  banyan_result_t result = BANYAN_INTERNAL;
  switch (shape.kind) {
    case OperationKind::all_reduce:
      return banyan_all_reduce(of.send, of.recv, count, of.type, of.op, comm, of.request);
    case OperationKind::reduce:
      return banyan_reduce(of.send, of.recv, count, of.type, of.op, root, comm, of.request);
    case OperationKind::reduce_scatter:
      return banyan_reduce_scatter(of.send, of.recv, count, of.type, of.op, comm, of.request);
    case OperationKind::broadcast:
      return banyan_broadcast(of.send, of.recv, count, of.type, root, comm, of.request);
    case OperationKind::all_gather:
      return banyan_all_gather(of.send, of.recv, count, of.type, comm, of.request);
    case OperationKind::all_to_all:
      return banyan_all_to_all(of.send, of.recv, count, of.type, comm, of.request);
    case OperationKind::gather:
      return banyan_gather(of.send, of.recv, count, of.type, root, comm, of.request);
    case OperationKind::scatter:
      return banyan_scatter(of.send, of.recv, count, of.type, root, comm, of.request);
    case OperationKind::barrier:
      return banyan_barrier(comm, of.request);
    case OperationKind::group:
      banyan_group_start();
      banyan_send(of.send, count, of.type, (rank + 1) % ranks, comm, nullptr);
      banyan_recv(of.recv, count, of.type, (rank + ranks - 1) % ranks, comm, of.request);
      return banyan_group_end();
    case OperationKind::all_gather_v:
      result = banyan_all_gather_v(of.send, of.recv, counts.data(), nullptr, of.type, comm, of.request);
      break;
    case OperationKind::reduce_scatter_v:
      result = banyan_reduce_scatter_v(of.send, of.recv, counts.data(), of.type, of.op, comm, of.request);
      break;
    case OperationKind::all_to_all_v:
      result = banyan_all_to_all_v(of.send, counts.data(), nullptr, of.recv, counts.data(), nullptr, of.type, comm,
                                   of.request);
      break;
    default:
      break;
  }
  std::fill(counts.begin(), counts.end(), SIZE_MAX);
  return result;
}

}  // namespace banyan::c
