// The calls of ProcessGroupBanyan that add up, but for sparse tensors.
#include <algorithm>
#include <utility>

#include "bindings/torch/buffers.h"
#include "bindings/torch/checks.h"
#include "bindings/torch/elements.h"
#include "bindings/torch/process_group.h"
#include "bindings/torch/task_buffers.h"

namespace banyan::pytorch {
namespace {

using Tensors = std::vector<at::Tensor>;

// All tensors of this rank, reduced to one in a new place.
at::Tensor reduced_here(const Tensors& tensors, const ElementReduction& reduction) {
  const at::NoGradGuard no_grad;
  at::Tensor sum = at::empty(tensors.front().sizes(), tensors.front().options());
  sum.copy_(tensors.front());
  for (size_t i = 1; i < tensors.size(); ++i) {
    const at::Tensor next = plain(tensors[i]);
    const element::Reduction reduce{.type = reduction.type, .op = reduction.op};
    reduce(mutable_bytes_of(sum), bytes_of(sum), bytes_of(next), count_of(sum, reduction.elements_each));
  }
  return sum;
}

// The count is that of the output.
run::Call reduction_call(run::OperationKind kind, const ElementReduction& reduction, const at::Tensor& input,
                         const at::Tensor& output) {
  return {.kind = kind,
          .type = reduction.type,
          .op = reduction.op,
          .send = bytes_of(input),
          .recv = mutable_bytes_of(output),
          .count = count_of(output, reduction.elements_each)};
}

// Of a reduce-scatter of one tensor.
void expect_parts(const Checks& checks, const at::Tensor& output, const at::Tensor& input, int ranks) {
  checks.dense({output, input});
  checks.expect(input.numel() == output.numel() * ranks,
                "input tensor must be the same size as output size times world size");
  checks.expect(output.scalar_type() == input.scalar_type(),
                "input tensor must be the same type as the output tensor.");
}

}  // namespace

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Checks checks("allreduce");
  checks.non_empty(tensors);
  if (tensors.front().layout() == at::kSparse) return sum_sparse(tensors, options);
  checks.of_one_kind(tensors);
  const ElementReduction reduction = reduction_of(tensors.front().scalar_type(), options.reduceOp);
  BanyanWork::Task task(c10d::OpType::ALLREDUCE, "banyan:all_reduce", tensors, {tensors});
  at::Tensor buffer;
  if (tensors.size() == 1) {
    buffer = written(tensors.front(), task);
  } else {
    buffer = reduced_here(tensors, reduction);
    copy_at_end(buffer, tensors, task);
  }
  return start(std::move(task), reduction_call(run::OperationKind::all_reduce, reduction, buffer, buffer),
               options.timeout);
}

ProcessGroupBanyan::OwnWorkPtr ProcessGroupBanyan::coded_average(const at::Tensor& buffer, const codec::Codec& codec,
                                                                 const std::shared_ptr<run::Residual>& residual) {
  Checks("coded_average").contiguous({buffer});
  BanyanWork::Task task(c10d::OpType::ALLREDUCE, "banyan:coded_all_reduce", {buffer}, {{buffer}});
  task.at_end = [residual] {};  // holds it until then
  const run::Call call{.kind = run::OperationKind::all_reduce,
                       .type = element::DataType::float32,
                       .codec = codec,
                       .residual = residual.get(),
                       .op = element::ReduceOp::avg,
                       .send = bytes_of(buffer),
                       .recv = mutable_bytes_of(buffer),
                       .count = static_cast<uint64_t>(buffer.numel())};
  return start(std::move(task), call, {});
}

ProcessGroupBanyan::OwnWorkPtr ProcessGroupBanyan::sum_parts(const at::Tensor& buffer,
                                                             const std::vector<size_t>& counts, const at::Tensor& own) {
  Checks("sum_parts").contiguous({buffer, own});
  const BanyanWork::Task task(c10d::OpType::REDUCE_SCATTER, "banyan:reduce_scatter", {buffer}, {{own}});
  return start(task,
               {.kind = run::OperationKind::reduce_scatter_v,
                .type = element::DataType::float32,
                .send = bytes_of(buffer),
                .recv = mutable_bytes_of(own),
                .send_counts = counts},
               {});
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::allreduce_coalesced(Tensors& tensors,
                                                                    const c10d::AllreduceCoalescedOptions& options) {
  const Checks checks("allreduce_coalesced");
  checks.non_empty(tensors);
  checks.same_layout(tensors);
  for (const at::Tensor& tensor : tensors) {
    checks.expect(tensor.scalar_type() == tensors.front().scalar_type() && tensor.device() == tensors.front().device(),
                  "tensors must all have the same type");
  }
  checks.expect(tensors.front().layout() == at::kStrided, "unsupported layout");
  checks.dense(tensors);
  const ElementReduction reduction = reduction_of(tensors.front().scalar_type(), options.reduceOp);
  const at::Tensor flat = flatten(tensors);
  BanyanWork::Task task(c10d::OpType::ALLREDUCE_COALESCED, "banyan:all_reduce", tensors, {tensors});
  task.held = {flat};
  task.at_end = [tensors, flat] { unflatten(flat, tensors); };
  return start(std::move(task), reduction_call(run::OperationKind::all_reduce, reduction, flat, flat), options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const Checks checks("reduce");
  checks.root_rank(options.rootRank, size_);
  checks.root_tensor(options.rootTensor, tensors.size());
  checks.expect(tensors.size() == 1, "requires a single-element tensor list");
  checks.dense(tensors);
  const ElementReduction reduction = reduction_of(tensors.front().scalar_type(), options.reduceOp);
  const bool is_root = options.rootRank == rank_;
  BanyanWork::Task task(c10d::OpType::REDUCE, "banyan:reduce", tensors, {tensors});
  const at::Tensor buffer = is_root ? written(tensors.front(), task) : read(tensors.front(), task);
  run::Call call = reduction_call(run::OperationKind::reduce, reduction, buffer, buffer);
  call.other = static_cast<uint32_t>(options.rootRank);
  if (!is_root) call.recv = nullptr;
  return start(std::move(task), call, options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::reduce_scatter(Tensors& outputs, Lists& inputs,
                                                               const c10d::ReduceScatterOptions& options) {
  const Checks checks("reduce_scatter");
  checks.single(outputs, "output");
  checks.expect(inputs.size() == 1 && inputs.front().size() == static_cast<size_t>(size_),
                "requires a single-element input list containing a list with " + std::to_string(size_) + " tensors");
  checks.dense(outputs);
  checks.dense(inputs.front());
  checks.same_type(inputs.front(), outputs.front());
  const at::Tensor& own = inputs.front()[static_cast<size_t>(rank_)];
  checks.expect(own.numel() == outputs.front().numel(), "the output has another size than this rank's input");
  const ElementReduction reduction = reduction_of(own.scalar_type(), options.reduceOp);
  BanyanWork::Task task(c10d::OpType::REDUCE_SCATTER, "banyan:reduce_scatter", inputs.front(), {outputs});
  const at::Tensor output = written(outputs.front(), task, true);
  const at::Tensor flat = joined(inputs.front(), task);
  std::vector<size_t> counts;
  for (const at::Tensor& tensor : inputs.front()) counts.push_back(count_of(tensor, reduction.elements_each));
  run::Call call = reduction_call(run::OperationKind::reduce_scatter, reduction, flat, output);
  if (std::any_of(counts.begin(), counts.end(), [&](size_t count) { return count != counts.front(); })) {
    call.kind = run::OperationKind::reduce_scatter_v;
    call.count = 0;
    call.send_counts = counts;
  }
  return start(std::move(task), call, options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                     const c10d::ReduceScatterOptions& options) {
  expect_parts(Checks("_reduce_scatter_base"), output, input, size_);
  return reduce_scatter_from(output, input, options);
}

ProcessGroupBanyan::OwnWorkPtr ProcessGroupBanyan::reduce_scatter_from(const at::Tensor& output,
                                                                       const at::Tensor& input,
                                                                       const c10d::ReduceScatterOptions& options) {
  const ElementReduction reduction = reduction_of(input.scalar_type(), options.reduceOp);
  BanyanWork::Task task(c10d::OpType::_REDUCE_SCATTER_BASE, "banyan:_reduce_scatter_base", {input}, {{output}});
  const at::Tensor from = read(input, task), to = written(output, task, true);
  return start(std::move(task), reduction_call(run::OperationKind::reduce_scatter, reduction, from, to),
               options.timeout);
}

#ifdef BANYAN_BACKEND_COALESCES
ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  const Checks checks("reduce_scatter_tensor_coalesced");
  checks.pairs(outputs, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    expect_parts(checks, outputs[i], inputs[i], size_);
    reduction_of(inputs[i].scalar_type(), options.reduceOp);
  }
  std::vector<OwnWorkPtr> works;
  for (size_t i = 0; i < inputs.size(); ++i) works.push_back(reduce_scatter_from(outputs[i], inputs[i], options));
  return as_one(c10d::OpType::COALESCED, std::move(works));
}
#endif

}  // namespace banyan::pytorch
