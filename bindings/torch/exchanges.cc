// The calls of ProcessGroupBanyan in which every rank has something for every other.
#include <utility>

#include "bindings/torch/buffers.h"
#include "bindings/torch/checks.h"
#include "bindings/torch/elements.h"
#include "bindings/torch/process_group.h"
#include "bindings/torch/task_buffers.h"

namespace banyan::pytorch {

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                              std::vector<int64_t>& output_splits,
                                                              std::vector<int64_t>& input_splits,
                                                              const c10d::AllToAllOptions& options) {
  const Checks checks("alltoall_base");
  checks.dense({output, input});
  checks.expect(output.dim() > 0 && input.dim() > 0, "requires tensors of at least one dimension");
  checks.expect(output.scalar_type() == input.scalar_type(), "Tensors are not equal in size or data type");
  const ElementMove move = move_of(input);
  BanyanWork::Task task(c10d::OpType::ALLTOALL_BASE, "banyan:all_to_all", {input}, {{output}});
  const at::Tensor from = read(input, task), to = written(output, task, true);
  run::Call call = moving_call(run::OperationKind::all_to_all, from, to);
  call.count /= ranks();
  if (output_splits.empty() && input_splits.empty()) {
    for (const at::Tensor* tensor : {&output, &input}) {
      checks.expect(tensor->size(0) % size_ == 0, "Tensor's dim 0 does not divide equally across group size");
    }
    checks.expect(output.numel() == input.numel(), "Tensors are not equal in size or data type");
    return start(std::move(task), call, options.timeout);
  }
  const auto counts_of = [&](const std::vector<int64_t>& splits, const at::Tensor& tensor) {
    const uint64_t rows = static_cast<uint64_t>(tensor.size(0));
    const uint64_t row = rows == 0 ? 0 : count_of(tensor, move.elements_each) / rows;
    if (splits.empty()) {
      checks.expect(rows % ranks() == 0, "Tensor's dim 0 does not divide equally across group size");
      return std::vector<size_t>(ranks(), rows / ranks() * row);
    }
    checks.expect(splits.size() == ranks(), "Number of tensor splits not equal to group size");
    std::vector<size_t> counts;
    uint64_t sum = 0;
    for (const int64_t split : splits) {
      checks.expect(split >= 0, "a split is negative");
      counts.push_back(static_cast<uint64_t>(split) * row);
      sum += static_cast<uint64_t>(split);
    }
    checks.expect(sum == rows, "Split sizes doesn't match total dim 0 size");
    return counts;
  };
  const std::vector<size_t> send_counts = counts_of(input_splits, input),
                            recv_counts = counts_of(output_splits, output);
  call.kind = run::OperationKind::all_to_all_v;
  call.count = 0;
  call.send_counts = send_counts;
  call.recv_counts = recv_counts;
  return start(std::move(task), call, options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::alltoall(Tensors& outputs, Tensors& inputs,
                                                         const c10d::AllToAllOptions& options) {
  const Checks checks("alltoall");
  for (const auto& [tensors, which] : {std::pair(&inputs, "input"), std::pair(&outputs, "output")}) {
    checks.expect(tensors->size() == ranks(), std::string("the number of ") + which +
                                                  " tensors is not that of the ranks, " + std::to_string(size_));
  }
  checks.dense(inputs);
  checks.dense(outputs);
  checks.same_type(inputs, inputs.front());
  checks.same_type(outputs, inputs.front());
  const ElementMove move = move_of(inputs.front());
  BanyanWork::Task task(c10d::OpType::ALLTOALL, "banyan:all_to_all", inputs, {outputs});
  run::Call call{.kind = run::OperationKind::all_to_all_v, .type = move.type};
  const bool is_in_place = is_on_one_host() && move.elements_each == 1;
  const std::optional<TensorPieces> from = is_in_place ? pieces_of(inputs) : std::nullopt;
  const std::optional<TensorPieces> to = is_in_place ? pieces_of(outputs) : std::nullopt;
  std::vector<size_t> send_counts, recv_counts;
  for (const at::Tensor& tensor : inputs) send_counts.push_back(count_of(tensor, move.elements_each));
  for (const at::Tensor& tensor : outputs) recv_counts.push_back(count_of(tensor, move.elements_each));
  call.send_counts = send_counts;
  call.recv_counts = recv_counts;
  if (from) {
    call.send = from->base;
    call.send_displacements = from->displacements;
  } else {
    call.send = bytes_of(joined(inputs, task));
  }
  if (to) {
    call.recv = to->base;
    call.recv_displacements = to->displacements;
  } else {
    int64_t elements = 0;
    for (const at::Tensor& tensor : outputs) elements += tensor.numel();
    call.recv = mutable_bytes_of(gathered(outputs, inputs.front(), elements, task));
  }
  return start(std::move(task), call, options.timeout);
}

}  // namespace banyan::pytorch
