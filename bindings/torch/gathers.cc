// The calls of ProcessGroupBanyan that give the same to all, or collect at one or from one.
#include <utility>

#include "bindings/torch/buffers.h"
#include "bindings/torch/checks.h"
#include "bindings/torch/elements.h"
#include "bindings/torch/process_group.h"
#include "bindings/torch/task_buffers.h"

namespace banyan::pytorch {
namespace {

using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<Tensors>;

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

// Of an allgather into one tensor.
void expect_room(const Checks& checks, const at::Tensor& output, const at::Tensor& input, int ranks) {
  checks.dense({output, input});
  checks.expect(output.numel() == input.numel() * ranks,
                "output tensor size must be equal to world_size times input tensor size");
  checks.expect(output.scalar_type() == input.scalar_type(), "output tensor must have the same type as input tensor");
}

}  // namespace

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const Checks checks("broadcast");
  checks.root_rank(options.rootRank, size_);
  checks.root_tensor(options.rootTensor, tensors.size());
  checks.of_one_kind(tensors);
  const at::Tensor& root = tensors[static_cast<size_t>(options.rootTensor)];
  BanyanWork::Task task(c10d::OpType::BROADCAST, "banyan:broadcast", tensors, {tensors});
  const at::Tensor buffer = written(root, task);
  if (tensors.size() > 1) copy_at_end(buffer, tensors, task);
  run::Call call = moving_call(run::OperationKind::broadcast, buffer, buffer);
  call.other = static_cast<uint32_t>(options.rootRank);
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
  BanyanWork::Task task(c10d::OpType::ALLGATHER, "banyan:all_gather", inputs, outputs);
  const bool is_single = inputs.size() == 1;
  const at::Tensor input = is_single ? read(inputs.front(), task) : joined(inputs, task);
  run::Call call{.kind = run::OperationKind::all_gather,
                 .type = move.type,
                 .send = bytes_of(input),
                 .count = count_of(input, move.elements_each)};
  // On one host, each rank's data goes where it belongs at once.
  const std::optional<TensorPieces> pieces =
      is_single && is_on_one_host() && move.elements_each == 1 ? pieces_of(outputs.front()) : std::nullopt;
  if (pieces) {
    call.kind = run::OperationKind::all_gather_v;
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
  expect_room(Checks("_allgather_base"), output, input, size_);
  return all_gather_into(output, input, options);
}

ProcessGroupBanyan::OwnWorkPtr ProcessGroupBanyan::all_gather_into(const at::Tensor& output, const at::Tensor& input,
                                                                   const c10d::AllgatherOptions& options) {
  BanyanWork::Task task(c10d::OpType::_ALLGATHER_BASE, "banyan:_all_gather_base", {input}, {{output}});
  const at::Tensor from = read(input, task), to = written(output, task, true);
  return start(std::move(task), moving_call(run::OperationKind::all_gather, from, to), options.timeout);
}

ProcessGroupBanyan::OwnWorkPtr ProcessGroupBanyan::gather_parts(const at::Tensor& own,
                                                                const std::vector<size_t>& counts,
                                                                const at::Tensor& buffer) {
  Checks("gather_parts").contiguous({buffer, own});
  const BanyanWork::Task task(c10d::OpType::ALLGATHER, "banyan:all_gather", {own}, {{buffer}});
  return start(task,
               {.kind = run::OperationKind::all_gather_v,
                .type = element::DataType::float32,
                .send = bytes_of(own),
                .recv = mutable_bytes_of(buffer),
                .recv_counts = counts},
               {});
}

#ifdef BANYAN_BACKEND_COALESCES
ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                                const c10d::AllgatherOptions& options) {
  const Checks checks("allgather_into_tensor_coalesced");
  checks.pairs(outputs, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) expect_room(checks, outputs[i], inputs[i], size_);
  std::vector<OwnWorkPtr> works;
  for (size_t i = 0; i < inputs.size(); ++i) works.push_back(all_gather_into(outputs[i], inputs[i], options));
  return as_one(c10d::OpType::COALESCED, std::move(works));
}
#endif

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
  const at::NoGradGuard no_grad;
  int64_t begin = 0;
  for (const at::Tensor& tensor : inputs) {
    window(from, begin, tensor).copy_(tensor);
    begin += static_cast<int64_t>(tensor.nbytes());
  }
  BanyanWork::Task task(c10d::OpType::ALLGATHER_COALESCED, "banyan:all_gather", inputs, outputs);
  task.held = {from, to};
  task.at_end = [to, outputs, window] {
    int64_t place = 0;
    for (const Tensors& list : outputs) {
      for (const at::Tensor& tensor : list) {
        tensor.copy_(window(to, place, tensor));
        place += static_cast<int64_t>(tensor.nbytes());
      }
    }
  };
  return start(std::move(task), moving_call(run::OperationKind::all_gather, from, to), options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::gather(Lists& outputs, Tensors& inputs,
                                                       const c10d::GatherOptions& options) {
  const Checks checks("gather");
  checks.root_rank(options.rootRank, size_);
  checks.single(inputs, "input");
  checks.dense(inputs);
  const bool is_root = options.rootRank == rank_;
  checks.list_at_root(outputs, "output", is_root ? size_ : 0);
  BanyanWork::Task task(c10d::OpType::GATHER, "banyan:gather", inputs, outputs);
  const at::Tensor input = read(inputs.front(), task);
  const ElementMove move = move_of(input);
  run::Call call{.kind = run::OperationKind::gather,
                 .type = move.type,
                 .other = static_cast<uint32_t>(options.rootRank),
                 .send = bytes_of(input),
                 .count = count_of(input, move.elements_each)};
  if (is_root) {
    checks.alike(outputs.front(), input);
    call.recv = mutable_bytes_of(gathered(outputs.front(), input, input.numel() * size_, task));
  }
  return start(std::move(task), call, options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::scatter(Tensors& outputs, Lists& inputs,
                                                        const c10d::ScatterOptions& options) {
  const Checks checks("scatter");
  checks.root_rank(options.rootRank, size_);
  checks.single(outputs, "output");
  checks.dense(outputs);
  const bool is_root = options.rootRank == rank_;
  checks.list_at_root(inputs, "input", is_root ? size_ : 0);
  BanyanWork::Task task(c10d::OpType::SCATTER, "banyan:scatter", {}, {outputs});
  const at::Tensor output = written(outputs.front(), task, true);
  const ElementMove move = move_of(output);
  run::Call call{.kind = run::OperationKind::scatter,
                 .type = move.type,
                 .other = static_cast<uint32_t>(options.rootRank),
                 .recv = mutable_bytes_of(output),
                 .count = count_of(output, move.elements_each)};
  if (is_root) {
    checks.alike(inputs.front(), outputs.front());
    checks.dense(inputs.front());
    task.inputs = inputs.front();
    call.send = bytes_of(joined(inputs.front(), task));
  }
  return start(std::move(task), call, options.timeout);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::barrier(const c10d::BarrierOptions& options) {
  BanyanWork::Task task(c10d::OpType::BARRIER, "banyan:barrier", {}, {});
  return start(std::move(task), {.kind = run::OperationKind::barrier}, options.timeout);
}

}  // namespace banyan::pytorch
