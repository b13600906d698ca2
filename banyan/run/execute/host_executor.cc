#include "banyan/run/execute/host_executor.h"

#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/remake.h"
#include "banyan/element/reduce.h"
#include "banyan/run/execute/call_messages.h"

namespace banyan::run {

HostExecutor::HostExecutor(std::unique_ptr<HostGroup> group, RegionPool& pool)
    : group_(std::move(group)),
      mailboxes_(group_->segment(), {.rank = group_->rank(),
                                     .own_regions = &pool,
                                     .peers = group_->exchange().peers(),
                                     .may_attach = group_->exchange().may_attach(),
                                     .words = message_words}) {}

bool HostExecutor::advance_messages(std::vector<MessageDone>& done) {
  if (mailboxes_.is_idle()) return false;
  group_->expect_whole();
  bool moved = false;
  try {
    moved = mailboxes_.advance(done);
  } catch (const Error&) {
    group_->expect_whole();
    throw;
  }
  if (moved) group_->expect_whole();  // or what was read of a peer may be worth nothing
  message_steps_ += moved ? 1 : 0;
  return moved;
}

uint32_t HostExecutor::waiting_for() const {
  const std::optional<uint32_t> peer = mailboxes_.waiting_for();
  return group_->exchange().is_busy() || !peer ? group_->waiting_for() : *peer;
}

HostTask HostExecutor::task_of(const Call& call, const CallNumbers& numbers) {
  const HostCall host{.rank = group_->rank(),
                      .ranks = group_->ranks(),
                      .signature = signature_of(numbers),
                      .record = numbers,
                      .element_bytes = size_of(call.type),
                      .send = call.send,
                      .recv = call.recv};
  const element::ReduceTask reduction{
      .type = call.type, .op = call.op, .divisor = call.op == element::ReduceOp::avg ? group_->ranks() : 1};
  switch (call.kind) {
    case OperationKind::all_reduce:
      return all_reduce_task(host, call.count, reduction);
    case OperationKind::reduce:
      return reduce_task(host, call.count, reduction, call.other);
    case OperationKind::broadcast:
      return broadcast_task(host, call.count, call.other);
    case OperationKind::all_gather:
      return all_gather_task(host, call.count);
    case OperationKind::all_gather_v:
      return all_gather_v_task(host, call.recv_counts, call.recv_displacements, pieces_);
    case OperationKind::reduce_scatter:
      return reduce_scatter_task(host, call.count, reduction);
    case OperationKind::reduce_scatter_v:
      return reduce_scatter_v_task(host, call.send_counts, reduction, pieces_);
    case OperationKind::all_to_all:
      return all_to_all_task(host, call.count);
    case OperationKind::all_to_all_v:
      return all_to_all_v_task(host, {call.send_counts, call.send_displacements},
                               {call.recv_counts, call.recv_displacements}, pieces_);
    case OperationKind::gather:
      return gather_task(host, call.count, call.other);
    case OperationKind::scatter:
      return scatter_task(host, call.count, call.other);
    case OperationKind::barrier:
      return barrier_task(host);
    default:
      CHECK(false) << to_string(call.kind) << " is not for all ranks of a host";
      return {};
  }
}

// Programs make the same call again and again, so the task of the last one is kept. Equal numbers are the same kind,
// type, reduction, root and count; the buffers are compared here.
bool HostExecutor::is_as_before(const Call& call, const CallNumbers& numbers) const {
  return is_reusable_ && task_.record == numbers && task_.input == call.send && task_.output == call.recv &&
         call.residual == nullptr;
}

void HostExecutor::start(const Call& call, const CallNumbers& numbers) {
  // The same call again needs no new task.
  if (is_as_before(call, numbers)) return group_->exchange().start_again();
  is_reusable_ = false;
  if (call.op == element::ReduceOp::premul_sum && reduces(call.kind)) {
    // The task reads a copy: the input scaled, or with its residual.
    Call scaled = call;
    const uint64_t elements = call.send_elements(group_->rank(), group_->ranks());
    scaled_.resize(elements * size_of(call.type));
    scale(call.type, scaled_.data(), call.send, elements, call.factor);
    scaled.send = scaled_.data();
    remake(task_, [&] { return task_of(scaled, numbers); });
  } else if (call.residual != nullptr) {
    Call summed = call;
    scaled_.resize(call.residual->size() * sizeof(float));
    call.residual->add_to(call.send, scaled_.data());
    summed.send = scaled_.data();
    remake(task_, [&] { return task_of(summed, numbers); });
  } else {
    remake(task_, [&] { return task_of(call, numbers); });
    // Counts by rank are not compared, so a call that has some is not kept.
    is_reusable_ = call.recv_counts.empty() && call.send_counts.empty();
  }
  group_->exchange().start(task_);
}

bool HostExecutor::advance() {
  try {
    group_->expect_whole();
    return group_->advance();
  } catch (const Error& error) {
    explain(error);
  }
}

void HostExecutor::finish(Watch& watch) {
  try {
    group_->finish(watch);
  } catch (const Error& error) {
    explain(error);
  }
}

void HostExecutor::explain(const Error& error) {
  // When a rank has broken the group, what happened here may be nothing but a consequence.
  group_->expect_whole();
  const std::optional<uint32_t> peer = group_->exchange().mismatched();
  if (error.code() != ErrorCode::mismatch || !peer) throw error;
  const uint64_t sequence = group_->exchange().first_difference(*peer);
  const CallNumbers own = group_->segment().call_record(group_->rank(), sequence).read();
  const CallNumbers theirs = group_->segment().call_record(*peer, sequence).read();
  throw Error(ErrorCode::mismatch,
              mismatch_message(group_->rank(), record_of(own, sequence), *peer, record_of(theirs, sequence)));
}

std::optional<Error> HostExecutor::broken() const {
  try {
    group_->expect_whole();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace banyan::run
