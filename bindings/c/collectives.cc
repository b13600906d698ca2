// Collectives, messages, groups and requests.
#include <array>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "bindings/c/handles.h"

using banyan::Call;
using banyan::DataType;
using banyan::Error;
using banyan::ErrorCode;
using banyan::OperationKind;
using banyan::ReduceOp;
using banyan::Request;
using banyan::c::expect_pointer;
using banyan::c::guarded;
using banyan::c::kFirstFactor;

namespace {

static_assert(static_cast<int>(DataType::int8) == BANYAN_INT8 && static_cast<int>(DataType::int64) == BANYAN_INT64 &&
              static_cast<int>(DataType::uint8) == BANYAN_UINT8 &&
              static_cast<int>(DataType::uint64) == BANYAN_UINT64 &&
              static_cast<int>(DataType::float16) == BANYAN_FLOAT16 &&
              static_cast<int>(DataType::bfloat16) == BANYAN_BFLOAT16 &&
              static_cast<int>(DataType::float32) == BANYAN_FLOAT32 &&
              static_cast<int>(DataType::float64) == BANYAN_FLOAT64);
// What a banyan_op_kind_t means; premul_sum is none, since each has a factor of its own.
constexpr std::array kOps = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max,
                             ReduceOp::avg, ReduceOp::band, ReduceOp::bor, ReduceOp::bxor};
static_assert(kOps[BANYAN_SUM] == ReduceOp::sum && kOps[BANYAN_PROD] == ReduceOp::prod &&
              kOps[BANYAN_MIN] == ReduceOp::min && kOps[BANYAN_MAX] == ReduceOp::max &&
              kOps[BANYAN_AVG] == ReduceOp::avg && kOps[BANYAN_BAND] == ReduceOp::band &&
              kOps[BANYAN_BOR] == ReduceOp::bor && kOps[BANYAN_BXOR] == ReduceOp::bxor);
static_assert(kOps.size() == banyan::kReduceOps - 1 && kOps.size() <= kFirstFactor);

// What a thread has called since banyan_group_start. Counts are copied, since their arrays may be gone at the end.
struct GroupedCall {
  banyan_comm_t comm;
  Call call;
  std::vector<size_t> counts[4];
  banyan_request_t* request;
};
thread_local int group_depth = 0;
thread_local std::vector<GroupedCall> group;

DataType type_of(banyan_type_t type) {
  if (type >= BANYAN_INT8 && type <= BANYAN_FLOAT64) return static_cast<DataType>(type);
  throw Error(ErrorCode::invalid_input, "type " + std::to_string(type) + " does not exist");
}

void set_op(Call& call, banyan_op_t op, banyan_comm_t comm) {
  if (op >= 0 && static_cast<size_t>(op) < kOps.size()) {
    call.op = kOps[static_cast<size_t>(op)];
    return;
  }
  const std::lock_guard lock(comm->mutex);
  const auto place = static_cast<size_t>(op - kFirstFactor);
  if (op < kFirstFactor || place >= comm->factors.size() || !comm->factors[place]) {
    throw Error(ErrorCode::invalid_input, "op " + std::to_string(op) + " does not exist in this communicator");
  }
  call.op = ReduceOp::premul_sum;
  call.factor = *comm->factors[place];
}

void put_in_group(banyan_comm_t comm, const Call& call, banyan_request_t* request) {
  GroupedCall& grouped = group.emplace_back(GroupedCall{.comm = comm, .call = call, .counts = {}, .request = request});
  std::span<const size_t>* const spans[] = {&grouped.call.send_counts, &grouped.call.send_displacements,
                                            &grouped.call.recv_counts, &grouped.call.recv_displacements};
  for (size_t i = 0; i < 4; ++i) grouped.counts[i].assign(spans[i]->begin(), spans[i]->end());
}

// Makes the call now, begins it, or keeps it for the end of the group.
banyan_result_t make(banyan_comm_t comm, banyan_request_t* request, Call& call, banyan_type_t type) {
  return guarded(comm, [&] {
    expect_pointer(comm, "comm");
    if (request != nullptr) *request = nullptr;
    if (comm->is_finalized) throw Error(ErrorCode::invalid_usage, "the communicator has been finalized");
    call.type = type_of(type);
    if (group_depth > 0) return put_in_group(comm, call, request);
    if (request == nullptr) return comm->communicator.run(call);
    *request = new banyan_request{.request = comm->communicator.start(call), .last_error = comm->last_error};
  });
}

banyan_result_t make_reduction(banyan_comm_t comm, banyan_request_t* request, Call& call, banyan_type_t type,
                               banyan_op_t op) {
  const banyan_result_t result = guarded(comm, [&] {
    expect_pointer(comm, "comm");
    set_op(call, op, comm);
    expect_reducible(type_of(type), call.op);
  });
  return result == BANYAN_SUCCESS ? make(comm, request, call, type) : result;
}

const std::byte* in(const void* buffer) { return static_cast<const std::byte*>(buffer); }
std::byte* out(void* buffer) { return static_cast<std::byte*>(buffer); }
std::span<const size_t> per_rank(const size_t* numbers, banyan_comm_t comm) {
  if (numbers == nullptr || comm == nullptr) return {};
  return {numbers, comm->communicator.size()};
}
uint32_t rank_of(int rank) { return static_cast<uint32_t>(rank); }  // negative ones become too large, and are refused

// Begins what belongs to one communicator and appends what is to be waited for.
void begin_group(banyan_comm_t comm, std::vector<std::pair<banyan_comm_t, Request>>& waited) {
  std::vector<Call> calls;
  std::vector<banyan_request_t*> requests;
  for (GroupedCall& grouped : group) {
    if (grouped.comm != comm) continue;
    grouped.call.send_counts = grouped.counts[0];
    grouped.call.send_displacements = grouped.counts[1];
    grouped.call.recv_counts = grouped.counts[2];
    grouped.call.recv_displacements = grouped.counts[3];
    calls.push_back(grouped.call);
    requests.push_back(grouped.request);
  }
  std::vector<Request> begun = comm->communicator.start_group(calls);
  for (size_t i = 0; i < begun.size(); ++i) {
    if (requests[i] == nullptr) {
      waited.emplace_back(comm, std::move(begun[i]));
    } else {
      *requests[i] = new banyan_request{.request = std::move(begun[i]), .last_error = comm->last_error};
    }
  }
}

}  // namespace

extern "C" {

banyan_result_t pbanyan_all_reduce(const void* send, void* recv, size_t count, banyan_type_t type, banyan_op_t op,
                                   banyan_comm_t comm, banyan_request_t* request) {
  Call call{.kind = OperationKind::all_reduce, .send = in(send), .recv = out(recv), .count = count};
  return make_reduction(comm, request, call, type, op);
}

banyan_result_t pbanyan_reduce(const void* send, void* recv, size_t count, banyan_type_t type, banyan_op_t op, int root,
                               banyan_comm_t comm, banyan_request_t* request) {
  Call call{.kind = OperationKind::reduce, .other = rank_of(root), .send = in(send), .recv = out(recv), .count = count};
  return make_reduction(comm, request, call, type, op);
}

banyan_result_t pbanyan_broadcast(const void* send, void* recv, size_t count, banyan_type_t type, int root,
                                  banyan_comm_t comm, banyan_request_t* request) {
  Call call{
      .kind = OperationKind::broadcast, .other = rank_of(root), .send = in(send), .recv = out(recv), .count = count};
  return make(comm, request, call, type);
}

banyan_result_t pbanyan_all_gather(const void* send, void* recv, size_t count, banyan_type_t type, banyan_comm_t comm,
                                   banyan_request_t* request) {
  Call call{.kind = OperationKind::all_gather, .send = in(send), .recv = out(recv), .count = count};
  return make(comm, request, call, type);
}

banyan_result_t pbanyan_all_gather_v(const void* send, void* recv, const size_t* counts, const size_t* displacements,
                                     banyan_type_t type, banyan_comm_t comm, banyan_request_t* request) {
  Call call{.kind = OperationKind::all_gather_v,
            .send = in(send),
            .recv = out(recv),
            .recv_counts = per_rank(counts, comm),
            .recv_displacements = per_rank(displacements, comm)};
  return make(comm, request, call, type);
}

banyan_result_t pbanyan_reduce_scatter(const void* send, void* recv, size_t count, banyan_type_t type, banyan_op_t op,
                                       banyan_comm_t comm, banyan_request_t* request) {
  Call call{.kind = OperationKind::reduce_scatter, .send = in(send), .recv = out(recv), .count = count};
  return make_reduction(comm, request, call, type, op);
}

banyan_result_t pbanyan_reduce_scatter_v(const void* send, void* recv, const size_t* counts, banyan_type_t type,
                                         banyan_op_t op, banyan_comm_t comm, banyan_request_t* request) {
  Call call{.kind = OperationKind::reduce_scatter_v,
            .send = in(send),
            .recv = out(recv),
            .send_counts = per_rank(counts, comm)};
  return make_reduction(comm, request, call, type, op);
}

banyan_result_t pbanyan_all_to_all(const void* send, void* recv, size_t count, banyan_type_t type, banyan_comm_t comm,
                                   banyan_request_t* request) {
  Call call{.kind = OperationKind::all_to_all, .send = in(send), .recv = out(recv), .count = count};
  return make(comm, request, call, type);
}

banyan_result_t pbanyan_all_to_all_v(const void* send, const size_t* send_counts, const size_t* send_displacements,
                                     void* recv, const size_t* recv_counts, const size_t* recv_displacements,
                                     banyan_type_t type, banyan_comm_t comm, banyan_request_t* request) {
  Call call{.kind = OperationKind::all_to_all_v,
            .send = in(send),
            .recv = out(recv),
            .send_counts = per_rank(send_counts, comm),
            .send_displacements = per_rank(send_displacements, comm),
            .recv_counts = per_rank(recv_counts, comm),
            .recv_displacements = per_rank(recv_displacements, comm)};
  return make(comm, request, call, type);
}

banyan_result_t pbanyan_gather(const void* send, void* recv, size_t count, banyan_type_t type, int root,
                               banyan_comm_t comm, banyan_request_t* request) {
  Call call{.kind = OperationKind::gather, .other = rank_of(root), .send = in(send), .recv = out(recv), .count = count};
  return make(comm, request, call, type);
}

banyan_result_t pbanyan_scatter(const void* send, void* recv, size_t count, banyan_type_t type, int root,
                                banyan_comm_t comm, banyan_request_t* request) {
  Call call{
      .kind = OperationKind::scatter, .other = rank_of(root), .send = in(send), .recv = out(recv), .count = count};
  return make(comm, request, call, type);
}

banyan_result_t pbanyan_barrier(banyan_comm_t comm, banyan_request_t* request) {
  Call call{.kind = OperationKind::barrier};
  return make(comm, request, call, BANYAN_UINT8);
}

banyan_result_t pbanyan_send(const void* send, size_t count, banyan_type_t type, int peer, banyan_comm_t comm,
                             banyan_request_t* request) {
  Call call{.kind = OperationKind::send, .other = rank_of(peer), .send = in(send), .count = count};
  return make(comm, request, call, type);
}

banyan_result_t pbanyan_recv(void* recv, size_t count, banyan_type_t type, int peer, banyan_comm_t comm,
                             banyan_request_t* request) {
  Call call{.kind = OperationKind::recv, .other = rank_of(peer), .recv = out(recv), .count = count};
  return make(comm, request, call, type);
}

banyan_result_t pbanyan_group_start(void) {
  ++group_depth;
  return BANYAN_SUCCESS;
}

banyan_result_t pbanyan_group_end(void) {
  return guarded(nullptr, [&] {
    if (group_depth == 0) throw Error(ErrorCode::invalid_usage, "banyan_group_end without banyan_group_start");
    if (--group_depth > 0) return;
    std::vector<banyan_comm_t> comms;
    for (const GroupedCall& grouped : group) {
      if (std::find(comms.begin(), comms.end(), grouped.comm) == comms.end()) comms.push_back(grouped.comm);
    }
    std::vector<std::pair<banyan_comm_t, Request>> waited;
    std::optional<Error> first;
    for (const banyan_comm_t comm : comms) {
      try {
        begin_group(comm, waited);
      } catch (const Error& error) {
        if (!first) first = error;
      }
    }
    group.clear();
    for (auto& [comm, request] : waited) {
      try {
        request.wait();
      } catch (const Error& error) {
        banyan::c::fail(comm->last_error.get(), banyan::c::result_of(error), error.what());
        if (!first) first = error;
      }
    }
    if (first) throw *first;
  });
}

banyan_result_t pbanyan_test(banyan_request_t* request) {
  if (request == nullptr || *request == nullptr) return BANYAN_SUCCESS;
  bool done = true;
  const banyan_result_t result = guarded((*request)->last_error.get(), [&] { done = (*request)->request.test(); });
  if (!done) return BANYAN_IN_PROGRESS;
  delete std::exchange(*request, nullptr);
  return result;
}

banyan_result_t pbanyan_wait(banyan_request_t* request) {
  if (request == nullptr || *request == nullptr) return BANYAN_SUCCESS;
  const banyan_result_t result = guarded((*request)->last_error.get(), [&] { (*request)->request.wait(); });
  delete std::exchange(*request, nullptr);
  return result;
}

banyan_result_t pbanyan_wait_any(banyan_request_t* requests, int count, int* index) {
  std::vector<int> places;
  std::vector<Request> waited;
  banyan_result_t result = guarded(nullptr, [&] {
    expect_pointer(index, "index");
    *index = -1;
    for (int i = 0; i < count; ++i) {
      if (requests[i] == nullptr) continue;
      places.push_back(i);
      waited.push_back(requests[i]->request);
    }
  });
  if (result != BANYAN_SUCCESS || waited.empty()) return result;
  *index = places[Request::wait_for_any(waited)];
  result = guarded(requests[*index]->last_error.get(), [&] { requests[*index]->request.wait(); });
  delete std::exchange(requests[*index], nullptr);
  return result;
}

banyan_result_t pbanyan_wait_all(banyan_request_t* requests, int count) {
  banyan_result_t first = BANYAN_SUCCESS;
  for (int i = 0; i < count; ++i) {
    const banyan_result_t result = pbanyan_wait(&requests[i]);
    if (first == BANYAN_SUCCESS) first = result;
  }
  return first;
}

}  // extern "C"

BANYAN_TWIN(banyan_all_reduce);
BANYAN_TWIN(banyan_reduce);
BANYAN_TWIN(banyan_broadcast);
BANYAN_TWIN(banyan_all_gather);
BANYAN_TWIN(banyan_all_gather_v);
BANYAN_TWIN(banyan_reduce_scatter);
BANYAN_TWIN(banyan_reduce_scatter_v);
BANYAN_TWIN(banyan_all_to_all);
BANYAN_TWIN(banyan_all_to_all_v);
BANYAN_TWIN(banyan_gather);
BANYAN_TWIN(banyan_scatter);
BANYAN_TWIN(banyan_barrier);
BANYAN_TWIN(banyan_send);
BANYAN_TWIN(banyan_recv);
BANYAN_TWIN(banyan_group_start);
BANYAN_TWIN(banyan_group_end);
BANYAN_TWIN(banyan_test);
BANYAN_TWIN(banyan_wait);
BANYAN_TWIN(banyan_wait_any);
BANYAN_TWIN(banyan_wait_all);
