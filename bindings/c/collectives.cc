// Collectives, messages, groups and requests.
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/compose/settings.h"
#include "bindings/c/handles.h"

using banyan::CollectiveKind;
using banyan::Error;
using banyan::ErrorCode;
using banyan::c::expect_pointer;
using banyan::c::guarded;
using banyan::c::guarded_on;
using banyan::c::kFirstOwnOp;
using banyan::codec::WireType;
using banyan::element::DataType;
using banyan::element::ReduceOp;
using banyan::run::Call;
using banyan::run::OperationKind;
using banyan::run::Request;

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
static_assert(kOps.size() == banyan::element::kReduceOps - 1 && kOps.size() <= kFirstOwnOp);

// The arguments of a function that say how a call is made.
struct Manner {
  banyan_comm_t comm;
  banyan_type_t type;
  banyan_request_t* request;
  std::optional<banyan_op_t> op = {};  // of a reduction
  int* source = nullptr;               // where to put the rank that sent
};

// What a thread has called since banyan_group_start. Counts are copied, since their arrays may be gone at the end.
struct GroupedCall {
  Manner manner;
  Call call;
  banyan::run::OwnedCounts counts;
};
thread_local int group_depth = 0;
thread_local std::vector<GroupedCall> group;

// A function of its own, so that calls reserve nothing for its text.
[[noreturn]] void refuse_type(banyan_type_t type) {
  throw Error(ErrorCode::invalid_input, "type " + std::to_string(type) + " does not exist");
}

void set_type(Call& call, banyan_type_t type) {
  const auto number = static_cast<uint64_t>(type);
  if (!WireType::is_known(number)) refuse_type(type);
  const WireType known = WireType::of_number(static_cast<uint8_t>(number));
  call.type = known.element();
  if (known.is_coded()) call.codec = known.codec();
}

void set_op(Call& call, banyan_op_t op, banyan_comm_t comm) {
  if (op >= 0 && static_cast<size_t>(op) < kOps.size()) {
    call.op = kOps[static_cast<size_t>(op)];
    return;
  }
  const std::lock_guard lock(comm->mutex);
  const std::optional<banyan::c::OwnOp>* const own = banyan::c::find_op(*comm, op);
  if (own == nullptr) {
    throw Error(ErrorCode::invalid_input, "op " + std::to_string(op) + " does not exist in this communicator");
  }
  call.op = (*own)->op;
  call.factor = (*own)->factor;
  call.residual = (*own)->residual.get();
}

void put_in_group(const Call& call, const Manner& manner) {
  GroupedCall& grouped = group.emplace_back(GroupedCall{.manner = manner, .call = call, .counts = {}});
  grouped.counts.keep(grouped.call);
}

// Where this rank's part is in the buffer that has one for each rank.
uint64_t own_offset(const Call& call, std::span<const size_t> counts, std::span<const size_t> displacements,
                    uint32_t rank) {
  if (counts.empty()) return call.count * rank * size_of(call.type);
  const uint64_t elements = !displacements.empty()
                                ? displacements[rank]
                                : std::accumulate(counts.begin(), counts.begin() + rank, uint64_t{0});
  return elements * size_of(call.type);
}

// Puts the address in the place of BANYAN_IN_PLACE, which send or recv is.
void resolve_in_place(Call& call, uint32_t rank) {
  if (call.send == BANYAN_IN_PLACE && call.recv == BANYAN_IN_PLACE) {
    throw Error(ErrorCode::invalid_input, "send and recv are both BANYAN_IN_PLACE");
  }
  const auto collective = collective_of(call.kind);
  const bool gathers = collective == CollectiveKind::all_gather || collective == CollectiveKind::gather;
  const bool scatters = collective == CollectiveKind::reduce_scatter || collective == CollectiveKind::scatter;
  if (call.send == BANYAN_IN_PLACE) {
    if (scatters || is_message(call.kind)) {
      throw Error(ErrorCode::invalid_input, std::string(to_string(call.kind)) + " takes no BANYAN_IN_PLACE as send");
    }
    const uint64_t offset = gathers ? own_offset(call, call.recv_counts, call.recv_displacements, rank) : 0;
    call.send = call.recv == nullptr ? nullptr : call.recv + offset;
  } else if (call.recv == BANYAN_IN_PLACE) {
    if (!scatters) {
      throw Error(ErrorCode::invalid_input, std::string(to_string(call.kind)) + " takes no BANYAN_IN_PLACE as recv");
    }
    const uint64_t offset = own_offset(call, call.send_counts, {}, rank);
    call.recv = call.send == nullptr ? nullptr : const_cast<std::byte*>(call.send) + offset;
  }
}

// Made before its call begins: once that is under way, nothing may fail.
std::unique_ptr<banyan_request> new_request(banyan_comm_t comm, int* source) {
  return std::unique_ptr<banyan_request>(
      new banyan_request{.request = {}, .last_error = comm->last_error, .source = source});
}

// Makes the call now, begins it, or keeps it for the end of the group.
banyan_result_t make(Call call, const Manner& manner) {
  banyan_comm_t const comm = manner.comm;
  banyan_request_t* const request = manner.request;
  return guarded_on(comm, [&] {
    if (request != nullptr) *request = nullptr;
    banyan::run::Communicator& communicator = comm->communicator();
    if (comm->is_finalized) throw Error(ErrorCode::invalid_usage, "the communicator has been finalized");
    set_type(call, manner.type);
    call.timeout = comm->timeout;
    if (manner.op) {
      set_op(call, *manner.op, comm);
      expect_reducible(call.type, call.op);
    }
    if (call.send == BANYAN_IN_PLACE || call.recv == BANYAN_IN_PLACE) {
      resolve_in_place(call, communicator.rank());
    }
    if (group_depth > 0) return put_in_group(call, manner);
    if (request != nullptr) {
      std::unique_ptr<banyan_request> made = new_request(comm, manner.source);
      made->request = communicator.start(call);
      *request = made.release();
    } else if (manner.source == nullptr) {
      communicator.run(call);
    } else {
      Request received = communicator.start(call);
      Request(received).wait();
      *manner.source = static_cast<int>(received.peer());
    }
  });
}

Call call_of(OperationKind kind, const void* send, void* recv, size_t count) {
  return {
      .kind = kind, .send = static_cast<const std::byte*>(send), .recv = static_cast<std::byte*>(recv), .count = count};
}
// The same with a root or a peer. Negative ranks become too large, and are refused.
Call call_with(int other, Call call) {
  call.other = static_cast<uint32_t>(other);
  return call;
}
std::span<const size_t> per_rank(const size_t* numbers, banyan_comm_t comm) {
  if (numbers == nullptr || comm == nullptr || !comm->has_joined()) return {};  // make() refuses
  return {numbers, comm->communicator().size()};
}

// A call that has begun without a request of the program.
struct Waited {
  Manner manner;
  Request request;
};

// Begins what belongs to one communicator and appends what is to be waited for.
void begin_group(banyan_comm_t comm, std::vector<Waited>& waited) {
  std::vector<banyan::run::Call> calls;
  std::vector<Manner> manners;
  std::vector<std::unique_ptr<banyan_request>> requests;
  for (const GroupedCall& grouped : group) {
    if (grouped.manner.comm != comm) continue;
    calls.push_back(grouped.call);
    manners.push_back(grouped.manner);
    requests.push_back(grouped.manner.request == nullptr ? nullptr : new_request(comm, grouped.manner.source));
  }
  waited.reserve(waited.size() + calls.size());
  std::vector<Request> begun = comm->communicator().start_group(calls);
  for (size_t i = 0; i < begun.size(); ++i) {
    if (requests[i] == nullptr) {
      waited.push_back({.manner = manners[i], .request = std::move(begun[i])});
    } else {
      requests[i]->request = std::move(begun[i]);
      *manners[i].request = requests[i].release();
    }
  }
}

// Frees the request once `is_over` says so, or has thrown.
template <typename IsOver>
banyan_result_t end_when(banyan_request_t* request, const IsOver& is_over) {
  if (request == nullptr || *request == nullptr) return BANYAN_SUCCESS;
  const banyan_request& waited = **request;
  Request running = waited.request;
  bool done = true;
  const banyan_result_t result = guarded(waited.last_error.get(), [&] { done = is_over(running); });
  if (!done) return BANYAN_IN_PROGRESS;
  if (result == BANYAN_SUCCESS && waited.source != nullptr) *waited.source = static_cast<int>(waited.request.peer());
  delete std::exchange(*request, nullptr);
  return result;
}

}  // namespace

BANYAN_CALL(all_reduce, const void* send, void* recv, size_t count, banyan_type_t type, banyan_op_t op,
            banyan_comm_t comm, banyan_request_t* request) {
  return make(call_of(OperationKind::all_reduce, send, recv, count), {comm, type, request, op});
}

BANYAN_CALL(reduce, const void* send, void* recv, size_t count, banyan_type_t type, banyan_op_t op, int root,
            banyan_comm_t comm, banyan_request_t* request) {
  return make(call_with(root, call_of(OperationKind::reduce, send, recv, count)), {comm, type, request, op});
}

BANYAN_CALL(broadcast, const void* send, void* recv, size_t count, banyan_type_t type, int root, banyan_comm_t comm,
            banyan_request_t* request) {
  return make(call_with(root, call_of(OperationKind::broadcast, send, recv, count)), {comm, type, request});
}

BANYAN_CALL(all_gather, const void* send, void* recv, size_t count, banyan_type_t type, banyan_comm_t comm,
            banyan_request_t* request) {
  return make(call_of(OperationKind::all_gather, send, recv, count), {comm, type, request});
}

BANYAN_CALL(all_gather_v, const void* send, void* recv, const size_t* counts, const size_t* displacements,
            banyan_type_t type, banyan_comm_t comm, banyan_request_t* request) {
  Call call = call_of(OperationKind::all_gather_v, send, recv, 0);
  call.recv_counts = per_rank(counts, comm);
  call.recv_displacements = per_rank(displacements, comm);
  return make(call, {comm, type, request});
}

BANYAN_CALL(reduce_scatter, const void* send, void* recv, size_t count, banyan_type_t type, banyan_op_t op,
            banyan_comm_t comm, banyan_request_t* request) {
  return make(call_of(OperationKind::reduce_scatter, send, recv, count), {comm, type, request, op});
}

BANYAN_CALL(reduce_scatter_v, const void* send, void* recv, const size_t* counts, banyan_type_t type, banyan_op_t op,
            banyan_comm_t comm, banyan_request_t* request) {
  Call call = call_of(OperationKind::reduce_scatter_v, send, recv, 0);
  call.send_counts = per_rank(counts, comm);
  return make(call, {comm, type, request, op});
}

BANYAN_CALL(all_to_all, const void* send, void* recv, size_t count, banyan_type_t type, banyan_comm_t comm,
            banyan_request_t* request) {
  return make(call_of(OperationKind::all_to_all, send, recv, count), {comm, type, request});
}

BANYAN_CALL(all_to_all_v, const void* send, const size_t* send_counts, const size_t* send_displacements, void* recv,
            const size_t* recv_counts, const size_t* recv_displacements, banyan_type_t type, banyan_comm_t comm,
            banyan_request_t* request) {
  Call call = call_of(OperationKind::all_to_all_v, send, recv, 0);
  call.send_counts = per_rank(send_counts, comm);
  call.send_displacements = per_rank(send_displacements, comm);
  call.recv_counts = per_rank(recv_counts, comm);
  call.recv_displacements = per_rank(recv_displacements, comm);
  return make(call, {comm, type, request});
}

BANYAN_CALL(gather, const void* send, void* recv, size_t count, banyan_type_t type, int root, banyan_comm_t comm,
            banyan_request_t* request) {
  return make(call_with(root, call_of(OperationKind::gather, send, recv, count)), {comm, type, request});
}

BANYAN_CALL(scatter, const void* send, void* recv, size_t count, banyan_type_t type, int root, banyan_comm_t comm,
            banyan_request_t* request) {
  return make(call_with(root, call_of(OperationKind::scatter, send, recv, count)), {comm, type, request});
}

BANYAN_CALL(barrier, banyan_comm_t comm, banyan_request_t* request) {
  return make({.kind = OperationKind::barrier}, {comm, BANYAN_UINT8, request});
}

BANYAN_CALL(send_tagged, const void* send, size_t count, banyan_type_t type, int peer, uint32_t tag, banyan_comm_t comm,
            banyan_request_t* request) {
  Call call = call_with(peer, call_of(OperationKind::send, send, nullptr, count));
  call.tag = tag;
  return make(call, {comm, type, request});
}

BANYAN_CALL(recv_tagged, void* recv, size_t count, banyan_type_t type, int peer, uint32_t tag, int* source,
            banyan_comm_t comm, banyan_request_t* request) {
  Call call = call_with(peer, call_of(OperationKind::recv, nullptr, recv, count));
  if (peer == BANYAN_ANY_RANK) call.other = banyan::run::kAnyRank;
  call.tag = tag;
  return make(call, {comm, type, request, {}, source});
}

BANYAN_CALL(send, const void* send, size_t count, banyan_type_t type, int peer, banyan_comm_t comm,
            banyan_request_t* request) {
  return pbanyan_send_tagged(send, count, type, peer, 0, comm, request);
}

BANYAN_CALL(recv, void* recv, size_t count, banyan_type_t type, int peer, banyan_comm_t comm,
            banyan_request_t* request) {
  if (peer != BANYAN_ANY_RANK) return pbanyan_recv_tagged(recv, count, type, peer, 0, nullptr, comm, request);
  if (request != nullptr) *request = nullptr;
  return guarded(comm, [] {
    throw Error(ErrorCode::invalid_input, "recv: rank -1 does not exist; BANYAN_ANY_RANK is for banyan_recv_tagged");
  });
}

BANYAN_CALL(group_start, void) {
  ++group_depth;
  return BANYAN_SUCCESS;
}

BANYAN_CALL(group_end, void) {
  return guarded(nullptr, [&] {
    if (group_depth == 0) throw Error(ErrorCode::invalid_usage, "banyan_group_end without banyan_group_start");
    if (--group_depth > 0) return;
    std::vector<banyan_comm_t> comms;
    for (const GroupedCall& grouped : group) {
      banyan_comm_t const comm = grouped.manner.comm;
      if (std::find(comms.begin(), comms.end(), comm) == comms.end()) comms.push_back(comm);
    }
    std::vector<Waited> waited;
    std::optional<Error> first;
    for (const banyan_comm_t comm : comms) {
      try {
        begin_group(comm, waited);
      } catch (...) {  // what the others have begun is waited for
        if (!first) first = banyan::current_error();
      }
    }
    group.clear();
    for (auto& [manner, request] : waited) {
      try {
        Request(request).wait();
        if (manner.source != nullptr) *manner.source = static_cast<int>(request.peer());
      } catch (...) {
        const Error error = banyan::current_error();
        banyan::c::fail(manner.comm->last_error.get(), banyan::c::result_of(error), error);
        if (!first) first = error;
      }
    }
    if (first) throw *first;
  });
}

BANYAN_CALL(test, banyan_request_t* request) {
  return end_when(request, [](Request& of) { return of.test(); });
}

BANYAN_CALL(wait, banyan_request_t* request) {
  return end_when(request, [](Request& of) {
    of.wait();
    return true;
  });
}

BANYAN_CALL(wait_for, banyan_request_t* request, double seconds) {
  if (request == nullptr || *request == nullptr) return BANYAN_SUCCESS;
  if (seconds <= 0) return pbanyan_test(request);
  std::chrono::milliseconds at_most{0};
  const banyan_result_t result = guarded(
      (*request)->last_error.get(), [&] { at_most = banyan::compose::milliseconds_of(seconds, "the time to wait"); });
  if (result != BANYAN_SUCCESS) return result;
  return end_when(request, [&](Request& of) { return of.wait_for(at_most); });
}

BANYAN_CALL(wait_any, banyan_request_t* requests, int count, int* index) {
  const banyan_result_t result = guarded(nullptr, [&] {
    expect_pointer(index, "index");
    *index = -1;
    std::vector<int> places;
    std::vector<Request> waited;
    for (int i = 0; i < count; ++i) {
      if (requests[i] == nullptr) continue;
      places.push_back(i);
      waited.push_back(requests[i]->request);
    }
    if (!waited.empty()) *index = places[Request::wait_for_any(waited)];
  });
  if (result != BANYAN_SUCCESS || *index < 0) return result;
  return pbanyan_wait(&requests[*index]);
}

BANYAN_CALL(wait_all, banyan_request_t* requests, int count) {
  banyan_result_t first = BANYAN_SUCCESS;
  for (int i = 0; i < count; ++i) {
    const banyan_result_t result = pbanyan_wait(&requests[i]);
    if (first == BANYAN_SUCCESS) first = result;
  }
  return first;
}
