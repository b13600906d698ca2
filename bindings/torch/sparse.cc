// Allreduce of sparse COO tensors: every rank gets all indices and values, and adds them up.
#include <algorithm>
#include <array>

#include "bindings/torch/buffers.h"
#include "bindings/torch/checks.h"
#include "bindings/torch/elements.h"
#include "bindings/torch/process_group.h"

namespace banyan::pytorch {
namespace {

// What each rank tells the others of its tensor first.
constexpr size_t kMostDimensions = 30;
struct Outline {
  int64_t sparse_dimensions = 0, dimensions = 0, entries = 0;
  std::array<int64_t, kMostDimensions> sizes{};
};

Outline outline_of(const at::Tensor& tensor) {
  Outline outline{.sparse_dimensions = tensor.sparse_dim(), .dimensions = tensor.dim(), .entries = tensor._nnz()};
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), outline.sizes.begin());
  return outline;
}

}  // namespace

// The calls depend on each other, so this rank carries them out before it returns: in the order of all other calls.
ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::sum_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Checks checks("allreduce");
  checks.expect(options.reduceOp == c10d::ReduceOp::SUM,
                "unsupported reduction operation (allreduce of sparse tensors only works with ReduceOp.SUM)");
  checks.alike(tensors, tensors.front());
  checks.expect(tensors.front().device().is_cpu(), "only supports CPU tensors");
  checks.expect(tensors.front().dim() <= static_cast<int64_t>(kMostDimensions), "too many dimensions");
  at::Tensor input = tensors.front();
  for (size_t i = 1; i < tensors.size(); ++i) input = input + tensors[i];
  input = input.coalesce();
  const at::Tensor indices = input.indices().t().contiguous(), values = input.values().contiguous();

  BanyanWork::Task task(c10d::OpType::ALLREDUCE, "banyan:sparse_all_reduce", tensors, {tensors});
  auto work = c10::make_intrusive<BanyanWork>(rank_, std::move(task));
  const auto timeout = std::max(options.timeout, std::chrono::milliseconds(0));
  const Outline own = outline_of(input);
  std::vector<Outline> all(ranks());
  run({.kind = run::OperationKind::all_gather,
       .type = element::DataType::int64,
       .send = reinterpret_cast<const std::byte*>(&own),
       .recv = reinterpret_cast<std::byte*>(all.data()),
       .count = sizeof(Outline) / sizeof(int64_t),
       .timeout = timeout});
  int64_t entries = 0;
  std::vector<size_t> index_counts, value_counts;
  const ElementMove move = move_of(values);
  const int64_t value_size = c10::multiply_integers(values.sizes().slice(1));
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    checks.expect(all[rank].sparse_dimensions == own.sparse_dimensions && all[rank].dimensions == own.dimensions &&
                      all[rank].sizes == own.sizes,
                  "rank " + std::to_string(rank) + " has a tensor of another shape than this rank");
    index_counts.push_back(static_cast<size_t>(all[rank].entries * own.sparse_dimensions));
    value_counts.push_back(static_cast<size_t>(all[rank].entries * value_size) * move.elements_each);
    entries += all[rank].entries;
  }
  const at::Tensor all_indices = at::empty({entries, own.sparse_dimensions}, indices.options());
  std::vector<int64_t> value_sizes = values.sizes().vec();
  value_sizes.front() = entries;
  const at::Tensor all_values = at::empty(value_sizes, values.options());
  run({.kind = run::OperationKind::all_gather_v,
       .type = element::DataType::int64,
       .send = bytes_of(indices),
       .recv = mutable_bytes_of(all_indices),
       .recv_counts = index_counts,
       .timeout = timeout});
  run({.kind = run::OperationKind::all_gather_v,
       .type = move.type,
       .send = bytes_of(values),
       .recv = mutable_bytes_of(all_values),
       .recv_counts = value_counts,
       .timeout = timeout});

  const at::NoGradGuard no_grad;
  const at::Tensor sum =
      at::sparse_coo_tensor(all_indices.t().contiguous(), all_values, input.sizes(), input.options()).coalesce();
  for (const at::Tensor& tensor : tensors) tensor.copy_(sum);
  work->follow({});
  return work;
}

}  // namespace banyan::pytorch
