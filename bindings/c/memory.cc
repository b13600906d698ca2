// Shared memory, and reductions of the caller's own.
#include "banyan/base/error.h"
#include "banyan/compose/settings.h"
#include "bindings/c/handles.h"

using banyan::Error;
using banyan::ErrorCode;
using banyan::c::add_op;
using banyan::c::expect_pointer;
using banyan::c::guarded;
using banyan::c::guarded_on;
using banyan::c::kFirstOwnOp;

banyan_op_t banyan::c::add_op(banyan_comm* comm, OwnOp op) {
  const std::lock_guard lock(comm->mutex);
  size_t place = 0;
  while (place < comm->own_ops.size() && comm->own_ops[place]) ++place;
  if (place == comm->own_ops.size()) comm->own_ops.emplace_back();
  comm->own_ops[place] = std::move(op);
  return kFirstOwnOp + static_cast<int>(place);
}

std::optional<banyan::c::OwnOp>* banyan::c::find_op(banyan_comm& comm, banyan_op_t op) {
  const auto place = static_cast<size_t>(op - kFirstOwnOp);
  const bool exists = op >= kFirstOwnOp && place < comm.own_ops.size() && comm.own_ops[place];
  return exists ? &comm.own_ops[place] : nullptr;
}

BANYAN_CALL(mem_alloc, void** memory, size_t bytes) {
  return guarded(nullptr, [&] {
    expect_pointer(memory, "memory");
    *memory = nullptr;
    *memory = banyan::compose::region_pool().allocate(bytes);
  });
}

BANYAN_CALL(mem_free, void* memory) {
  return guarded(nullptr, [&] {
    if (memory == nullptr || banyan::compose::region_pool().free(memory)) return;
    throw Error(ErrorCode::invalid_input, "this memory is not of banyan_mem_alloc, or was freed before");
  });
}

BANYAN_CALL(register, banyan_comm_t comm, void* memory, size_t bytes, void** handle) {
  return guarded_on(comm, [&] {
    expect_pointer(handle, "handle");
    if (bytes > 0) expect_pointer(memory, "memory");
    // Touching each page once spares the peers that attach to it the faults.
    auto* const bytes_of = static_cast<volatile unsigned char*>(memory);
    for (size_t at = 0; at < bytes; at += 4096) bytes_of[at] = bytes_of[at];
    *handle = memory;
  });
}

BANYAN_CALL(deregister, banyan_comm_t comm, void*) {
  return guarded_on(comm, [] {});
}

BANYAN_CALL(op_create_premul_sum, banyan_op_t* op, double factor, banyan_comm_t comm) {
  return guarded_on(comm, [&] {
    expect_pointer(op, "op");
    *op = add_op(comm, {.op = banyan::element::ReduceOp::premul_sum, .factor = factor});
  });
}

BANYAN_CALL(op_destroy, banyan_op_t op, banyan_comm_t comm) {
  return guarded_on(comm, [&] {
    const std::lock_guard lock(comm->mutex);
    std::optional<banyan::c::OwnOp>* const own = banyan::c::find_op(*comm, op);
    if (own != nullptr) return own->reset();
    throw Error(ErrorCode::invalid_input, "op " + std::to_string(op) + " is none that was made for this communicator");
  });
}
