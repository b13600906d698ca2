// The collectives of ProcessGroupBanyan: what they refuse, and which call they are.
#include <utility>

#include "banyan/run/element/reduce.h"
#include "bindings/torch/buffers.h"
#include "bindings/torch/checks.h"
#include "bindings/torch/elements.h"
#include "bindings/torch/process_group.h"

namespace banyan::pytorch {
namespace {

using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<Tensors>;

uint64_t count_of(const at::Tensor& tensor, uint64_t elements_each) {
  return static_cast<uint64_t>(tensor.numel()) * elements_each;
}

// Memory for a tensor that is written, and read unless `is_only_written`: its own, or a copy that goes back at the end.
at::Tensor written(const at::Tensor& tensor, BanyanWork::Task& task, bool is_only_written = false) {
  if (tensor.is_contiguous()) return tensor;
  at::Tensor copy = is_only_written ? at::empty_like(tensor, at::MemoryFormat::Contiguous) : tensor.contiguous();
  task.held.push_back(copy);
  task.at_end = [tensor, copy] { tensor.copy_(copy); };
  return copy;
}

// Memory of a tensor that is read.
at::Tensor read(const at::Tensor& tensor, BanyanWork::Task& task) {
  if (tensor.is_contiguous()) return tensor;
  task.held.push_back(tensor.contiguous());
  return task.held.back();
}

// Memory for tensors that are written as one, which go back at the end.
at::Tensor gathered(const Tensors& tensors, const at::Tensor& like, int64_t elements, BanyanWork::Task& task) {
  at::Tensor flat = at::empty({elements}, like.options());
  task.held.push_back(flat);
  task.at_end = [flat, tensors] { unflatten(flat, tensors); };
  return flat;
}

// All tensors of this rank, reduced to one in a new place.
at::Tensor reduced_here(const Tensors& tensors, const ElementReduction& reduction) {
  at::Tensor sum = tensors.front().clone(at::MemoryFormat::Contiguous);
  for (size_t i = 1; i < tensors.size(); ++i) {
    const at::Tensor next = tensors[i].contiguous();
    const Reduction reduce{.type = reduction.type, .op = reduction.op};
    reduce(mutable_bytes_of(sum), bytes_of(sum), bytes_of(next), count_of(sum, reduction.elements_each));
  }
  return sum;
}

Call reduction_call(OperationKind kind, const ElementReduction& reduction, const at::Tensor& input,
                    const at::Tensor& output, uint64_t elements) {
  return {.kind = kind,
          .type = reduction.type,
          .op = reduction.op,
          .send = bytes_of(input),
          .recv = mutable_bytes_of(output),
          .count = elements * reduction.elements_each};
}

void expect_list_per_rank(const Checks& checks, const Lists& outputs, const Tensors& inputs, int ranks) {
  checks.expect(!inputs.empty(), "requires non-empty input tensor list");
  checks.expect(inputs.size() == outputs.size(), "requires input/output tensor lists to have the same length");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const size_t expected = inputs.size() * static_cast<size_t>(ranks);
    checks.expect(outputs[i].size() == expected, "invalid output tensor list at index " + std::to_string(i) +
                                                     " (expected length " + std::to_string(expected) + ", got " +
                                                     std::to_string(outputs[i].size()) + ")");
  }
}

}  // namespace

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const Checks checks("broadcast");
  checks.root_rank(options.rootRank, size_);
  checks.root_tensor(options.rootTensor, tensors.size());
  checks.of_one_kind(tensors);
  const at::Tensor& root = tensors[static_cast<size_t>(options.rootTensor)];
  BanyanWork::Task task{.type = c10d::OpType::BROADCAST,
                        .title = "banyan:broadcast",
                        .inputs = tensors,
                        .outputs = {tensors},
                        .held = {},
                        .at_end = {}};
  const at::Tensor buffer = written(root, task);
  if (tensors.size() > 1) {
    task.at_end = [tensors, buffer] {
      for (const at::Tensor& tensor : tensors) tensor.copy_(buffer);
    };
  }
  const ElementMove move = move_of(root);
  return start(std::move(task),
               {.kind = OperationKind::broadcast,
                .type = move.type,
                .other = static_cast<uint32_t>(options.rootRank),
                .send = bytes_of(buffer),
                .recv = mutable_bytes_of(buffer),
                .count = count_of(buffer, move.elements_each)},
               options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Checks checks("allreduce");
  checks.non_empty(tensors);
  if (tensors.front().layout() == at::kSparse) return allreduce_sparse(tensors, options);
  checks.of_one_kind(tensors);
  const ElementReduction reduction = reduction_of(tensors.front().scalar_type(), options.reduceOp);
  BanyanWork::Task task{.type = c10d::OpType::ALLREDUCE,
                        .title = "banyan:all_reduce",
                        .inputs = tensors,
                        .outputs = {tensors},
                        .held = {},
                        .at_end = {}};
  at::Tensor buffer;
  if (tensors.size() == 1) {
    buffer = written(tensors.front(), task);
  } else {
    buffer = reduced_here(tensors, reduction);
    task.held.push_back(buffer);
    task.at_end = [tensors, buffer] {
      for (const at::Tensor& tensor : tensors) tensor.copy_(buffer);
    };
  }
  const Call call =
      reduction_call(OperationKind::all_reduce, reduction, buffer, buffer, static_cast<uint64_t>(buffer.numel()));
  return start(std::move(task), call, options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::allreduce_coalesced(Tensors& tensors,
                                                                    const c10d::AllreduceCoalescedOptions& options) {
  const Checks checks("allreduce_coalesced");
  checks.non_empty(tensors);
  for (const at::Tensor& tensor : tensors) {
    checks.expect(tensor.layout() == tensors.front().layout(), "tensors must all have the same layout");
    checks.expect(tensor.scalar_type() == tensors.front().scalar_type() && tensor.device() == tensors.front().device(),
                  "tensors must all have the same type");
  }
  checks.expect(tensors.front().layout() == at::kStrided, "unsupported layout");
  checks.dense(tensors);
  const ElementReduction reduction = reduction_of(tensors.front().scalar_type(), options.reduceOp);
  const at::Tensor flat = flatten(tensors);
  BanyanWork::Task task{.type = c10d::OpType::ALLREDUCE_COALESCED,
                        .title = "banyan:all_reduce",
                        .inputs = tensors,
                        .outputs = {tensors},
                        .held = {flat},
                        .at_end = [tensors, flat] { unflatten(flat, tensors); }};
  const Call call =
      reduction_call(OperationKind::all_reduce, reduction, flat, flat, static_cast<uint64_t>(flat.numel()));
  return start(std::move(task), call, options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const Checks checks("reduce");
  checks.root_rank(options.rootRank, size_);
  checks.root_tensor(options.rootTensor, tensors.size());
  checks.expect(tensors.size() == 1, "requires a single-element tensor list");
  checks.dense(tensors);
  const ElementReduction reduction = reduction_of(tensors.front().scalar_type(), options.reduceOp);
  const bool is_root = options.rootRank == rank_;
  BanyanWork::Task task{.type = c10d::OpType::REDUCE,
                        .title = "banyan:reduce",
                        .inputs = tensors,
                        .outputs = {tensors},
                        .held = {},
                        .at_end = {}};
  const at::Tensor buffer = is_root ? written(tensors.front(), task) : read(tensors.front(), task);
  Call call = reduction_call(OperationKind::reduce, reduction, buffer, buffer, static_cast<uint64_t>(buffer.numel()));
  call.other = static_cast<uint32_t>(options.rootRank);
  if (!is_root) call.recv = nullptr;
  return start(std::move(task), call, options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::allgather(Lists& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  const Checks checks("allgather");
  expect_list_per_rank(checks, outputs, inputs, size_);
  checks.dense(inputs);
  checks.alike(inputs, inputs.front());
  for (const Tensors& list : outputs) checks.alike(list, inputs.front());
  const ElementMove move = move_of(inputs.front());
  BanyanWork::Task task{.type = c10d::OpType::ALLGATHER,
                        .title = "banyan:all_gather",
                        .inputs = inputs,
                        .outputs = outputs,
                        .held = {},
                        .at_end = {}};
  const bool is_single = inputs.size() == 1;
  const at::Tensor input = is_single ? read(inputs.front(), task) : flatten(inputs);
  if (!is_single) task.held.push_back(input);
  Call call{.kind = OperationKind::all_gather,
            .type = move.type,
            .send = bytes_of(input),
            .count = count_of(input, move.elements_each)};
  // On one host, each rank's data goes where it belongs at once.
  const std::optional<TensorPieces> pieces =
      is_single && is_on_one_host() && move.elements_each == 1 ? pieces_of(outputs.front()) : std::nullopt;
  if (pieces) {
    call.kind = OperationKind::all_gather_v;
    call.count = 0;
    call.recv = pieces->base;
    call.recv_counts = pieces->counts;
    call.recv_displacements = pieces->displacements;
    return start(std::move(task), call, options.timeout);
  }
  const at::Tensor flat = at::empty({input.numel() * size_}, input.options());
  call.recv = mutable_bytes_of(flat);
  task.held.push_back(flat);
  task.at_end = [flat, outputs] {
    for (const Tensors& list : outputs) unflatten(flat, list);
  };
  return start(std::move(task), call, options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                                const c10d::AllgatherOptions& options) {
  const Checks checks("_allgather_base");
  checks.dense({output, input});
  checks.expect(output.numel() == input.numel() * size_,
                "output tensor size must be equal to world_size times input tensor size");
  checks.expect(output.scalar_type() == input.scalar_type(), "output tensor must have the same type as input tensor");
  const ElementMove move = move_of(input);
  BanyanWork::Task task{.type = c10d::OpType::_ALLGATHER_BASE,
                        .title = "banyan:_all_gather_base",
                        .inputs = {input},
                        .outputs = {{output}},
                        .held = {},
                        .at_end = {}};
  const at::Tensor from = read(input, task), to = written(output, task, true);
  return start(std::move(task),
               {.kind = OperationKind::all_gather,
                .type = move.type,
                .send = bytes_of(from),
                .recv = mutable_bytes_of(to),
                .count = count_of(from, move.elements_each)},
               options.timeout);
}

// One call of bytes for all tensors, whatever their types.
ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::allgather_coalesced(Lists& outputs, Tensors& inputs,
                                                                    const c10d::AllgatherOptions& options) {
  const Checks checks("allgather_coalesced");
  checks.expect(!inputs.empty(), "requires non-empty input tensor list");
  checks.dense(inputs);
  checks.expect(outputs.size() == static_cast<size_t>(size_), "output lists should be equal to world size");
  int64_t bytes = 0;
  for (const Tensors& list : outputs) {
    checks.expect(list.size() == inputs.size(), "invalid output size: (expected length " +
                                                    std::to_string(inputs.size()) + ", got " +
                                                    std::to_string(list.size()) + ")");
    checks.dense(list);
    for (size_t i = 0; i < list.size(); ++i) {
      checks.expect(list[i].sizes() == inputs[i].sizes(),
                    "invalid size of output tensor at index " + std::to_string(i) + " (expected length " +
                        words_of(inputs[i].sizes()) + ", got " + words_of(list[i].sizes()) + ")");
      checks.expect(list[i].scalar_type() == inputs[i].scalar_type(),
                    "invalid tensor type at index " + std::to_string(i) + " (expected " + inputs[i].toString() +
                        ", got " + list[i].toString() + ")");
    }
  }
  for (const at::Tensor& tensor : inputs) bytes += static_cast<int64_t>(tensor.nbytes());
  const at::Tensor from = at::empty({bytes}, at::kByte), to = at::empty({bytes * size_}, at::kByte);
  const auto window = [](const at::Tensor& flat, int64_t begin, const at::Tensor& like) {
    return at::from_blob(mutable_bytes_of(flat) + begin, like.sizes(), like.options());
  };
  int64_t begin = 0;
  for (const at::Tensor& tensor : inputs) {
    window(from, begin, tensor).copy_(tensor);
    begin += static_cast<int64_t>(tensor.nbytes());
  }
  BanyanWork::Task task{.type = c10d::OpType::ALLGATHER_COALESCED,
                        .title = "banyan:all_gather",
                        .inputs = inputs,
                        .outputs = outputs,
                        .held = {from, to},
                        .at_end = {}};
  task.at_end = [to, outputs, window] {
    int64_t place = 0;
    for (const Tensors& list : outputs) {
      for (const at::Tensor& tensor : list) {
        tensor.copy_(window(to, place, tensor));
        place += static_cast<int64_t>(tensor.nbytes());
      }
    }
  };
  return start(std::move(task),
               {.kind = OperationKind::all_gather,
                .type = DataType::uint8,
                .send = bytes_of(from),
                .recv = mutable_bytes_of(to),
                .count = static_cast<uint64_t>(bytes)},
               options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::gather(Lists& outputs, Tensors& inputs,
                                                       const c10d::GatherOptions& options) {
  const Checks checks("gather");
  checks.root_rank(options.rootRank, size_);
  checks.single_input(inputs);
  checks.dense(inputs);
  const bool is_root = options.rootRank == rank_;
  BanyanWork::Task task{.type = c10d::OpType::GATHER,
                        .title = "banyan:gather",
                        .inputs = inputs,
                        .outputs = outputs,
                        .held = {},
                        .at_end = {}};
  const at::Tensor input = read(inputs.front(), task);
  const ElementMove move = move_of(input);
  Call call{.kind = OperationKind::gather,
            .type = move.type,
            .other = static_cast<uint32_t>(options.rootRank),
            .send = bytes_of(input),
            .count = count_of(input, move.elements_each)};
  if (is_root) {
    checks.expect(outputs.size() == 1,
                  "requires a single-element output list containing a list with " + std::to_string(size_) + " tensors");
    checks.expect(outputs.front().size() == static_cast<size_t>(size_),
                  "Incorrect output list size " + std::to_string(outputs.front().size()) +
                      ". Output list size should be " + std::to_string(size_) + ", same as size of the process group.");
    checks.alike(outputs.front(), input);
    call.recv = mutable_bytes_of(gathered(outputs.front(), input, input.numel() * size_, task));
  } else {
    checks.expect(outputs.empty(), "requires empty output on non-root");
  }
  return start(std::move(task), call, options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::scatter(Tensors& outputs, Lists& inputs,
                                                        const c10d::ScatterOptions& options) {
  const Checks checks("scatter");
  checks.root_rank(options.rootRank, size_);
  checks.single_output(outputs);
  checks.dense(outputs);
  const bool is_root = options.rootRank == rank_;
  BanyanWork::Task task{.type = c10d::OpType::SCATTER,
                        .title = "banyan:scatter",
                        .inputs = {},
                        .outputs = {outputs},
                        .held = {},
                        .at_end = {}};
  const at::Tensor output = written(outputs.front(), task, true);
  const ElementMove move = move_of(output);
  Call call{.kind = OperationKind::scatter,
            .type = move.type,
            .other = static_cast<uint32_t>(options.rootRank),
            .recv = mutable_bytes_of(output),
            .count = count_of(output, move.elements_each)};
  if (is_root) {
    checks.expect(inputs.size() == 1,
                  "requires a single-element input list containing a list with " + std::to_string(size_) + " tensors");
    checks.expect(inputs.front().size() == static_cast<size_t>(size_),
                  "Incorrect input list size " + std::to_string(inputs.front().size()) +
                      ". Input list size should be " + std::to_string(size_) + ", same as size of the process group.");
    checks.alike(inputs.front(), outputs.front());
    checks.dense(inputs.front());
    task.inputs = inputs.front();
    task.held.push_back(flatten(inputs.front()));
    call.send = bytes_of(task.held.back());
  } else {
    checks.expect(inputs.empty(), "requires empty input on non-root");
  }
  return start(std::move(task), call, options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::reduce_scatter(Tensors& outputs, Lists& inputs,
                                                               const c10d::ReduceScatterOptions& options) {
  const Checks checks("reduce_scatter");
  checks.single_output(outputs);
  checks.expect(inputs.size() == 1 && inputs.front().size() == static_cast<size_t>(size_),
                "requires a single-element input list containing a list with " + std::to_string(size_) + " tensors");
  checks.dense(outputs);
  checks.dense(inputs.front());
  checks.same_type(inputs.front(), outputs.front());
  const at::Tensor& own = inputs.front()[static_cast<size_t>(rank_)];
  checks.expect(own.numel() == outputs.front().numel(), "the output has another size than this rank's input");
  const ElementReduction reduction = reduction_of(own.scalar_type(), options.reduceOp);
  BanyanWork::Task task{.type = c10d::OpType::REDUCE_SCATTER,
                        .title = "banyan:reduce_scatter",
                        .inputs = inputs.front(),
                        .outputs = {outputs},
                        .held = {},
                        .at_end = {}};
  const at::Tensor output = written(outputs.front(), task, true);
  const at::Tensor flat = flatten(inputs.front());
  task.held.push_back(flat);
  std::vector<size_t> counts;
  for (const at::Tensor& tensor : inputs.front()) counts.push_back(count_of(tensor, reduction.elements_each));
  Call call = reduction_call(OperationKind::reduce_scatter_v, reduction, flat, output, 0);
  call.send_counts = counts;
  if (std::all_of(counts.begin(), counts.end(), [&](size_t count) { return count == counts.front(); })) {
    call =
        reduction_call(OperationKind::reduce_scatter, reduction, flat, output, static_cast<uint64_t>(output.numel()));
  }
  return start(std::move(task), call, options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                     const c10d::ReduceScatterOptions& options) {
  const Checks checks("_reduce_scatter_base");
  checks.dense({output, input});
  checks.expect(input.numel() == output.numel() * size_,
                "input tensor must be the same size as output size times world size");
  checks.expect(output.scalar_type() == input.scalar_type(),
                "input tensor must be the same type as the output tensor.");
  const ElementReduction reduction = reduction_of(input.scalar_type(), options.reduceOp);
  BanyanWork::Task task{.type = c10d::OpType::_REDUCE_SCATTER_BASE,
                        .title = "banyan:_reduce_scatter_base",
                        .inputs = {input},
                        .outputs = {{output}},
                        .held = {},
                        .at_end = {}};
  const at::Tensor from = read(input, task), to = written(output, task, true);
  return start(std::move(task),
               reduction_call(OperationKind::reduce_scatter, reduction, from, to, static_cast<uint64_t>(to.numel())),
               options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                              std::vector<int64_t>& output_splits,
                                                              std::vector<int64_t>& input_splits,
                                                              const c10d::AllToAllOptions& options) {
  const Checks checks("alltoall_base");
  checks.dense({output, input});
  checks.expect(output.dim() > 0 && input.dim() > 0, "requires tensors of at least one dimension");
  checks.expect(output.scalar_type() == input.scalar_type(), "Tensors are not equal in size or data type");
  const ElementMove move = move_of(input);
  BanyanWork::Task task{.type = c10d::OpType::ALLTOALL_BASE,
                        .title = "banyan:all_to_all",
                        .inputs = {input},
                        .outputs = {{output}},
                        .held = {},
                        .at_end = {}};
  const at::Tensor from = read(input, task), to = written(output, task, true);
  Call call{.kind = OperationKind::all_to_all,
            .type = move.type,
            .send = bytes_of(from),
            .recv = mutable_bytes_of(to),
            .count = count_of(from, move.elements_each) / ranks()};
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
  call.kind = OperationKind::all_to_all_v;
  call.count = 0;
  call.send_counts = send_counts;
  call.recv_counts = recv_counts;
  return start(std::move(task), call, options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::alltoall(Tensors& outputs, Tensors& inputs,
                                                         const c10d::AllToAllOptions& options) {
  const Checks checks("alltoall");
  checks.expect(inputs.size() == ranks(),
                "the number of input tensors is not that of the ranks, " + std::to_string(size_));
  checks.expect(outputs.size() == ranks(),
                "the number of output tensors is not that of the ranks, " + std::to_string(size_));
  checks.dense(inputs);
  checks.dense(outputs);
  checks.same_type(inputs, inputs.front());
  checks.same_type(outputs, inputs.front());
  const ElementMove move = move_of(inputs.front());
  BanyanWork::Task task{.type = c10d::OpType::ALLTOALL,
                        .title = "banyan:all_to_all",
                        .inputs = inputs,
                        .outputs = {outputs},
                        .held = {},
                        .at_end = {}};
  Call call{.kind = OperationKind::all_to_all_v, .type = move.type};
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
    task.held.push_back(flatten(inputs));
    call.send = bytes_of(task.held.back());
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

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::barrier(const c10d::BarrierOptions& options) {
  BanyanWork::Task task{
      .type = c10d::OpType::BARRIER, .title = "banyan:barrier", .inputs = {}, .outputs = {}, .held = {}, .at_end = {}};
  return start(std::move(task), {.kind = OperationKind::barrier}, options.timeout);
}

}  // namespace banyan::pytorch
