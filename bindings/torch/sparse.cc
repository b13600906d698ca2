// Allreduce of sparse COO tensors: of float32 by rows (run/sparse); of other types every rank gets all indices and
// values, and adds them up.
#include <algorithm>
#include <array>

#include "banyan/base/hash.h"
#include "banyan/codec/wire_type.h"
#include "bindings/torch/background_work.h"
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

// The values of an index in the sparse dimensions are a row.
int64_t rows_of(const at::Tensor& tensor) {
  return c10::multiply_integers(tensor.sizes().slice(0, tensor.sparse_dim()));
}
int64_t width_of(const at::Tensor& tensor) { return c10::multiply_integers(tensor.sizes().slice(tensor.sparse_dim())); }

// The same entries, their values in plain memory: PyTorch's own coalesce() takes the memory of values for values, too.
at::Tensor with_plain_values(const at::Tensor& tensor) {
  const at::Tensor values = tensor._values();
  if (is_plain(values)) return tensor;
  const bool is_coalesced = tensor.is_coalesced();
  return at::sparse_coo_tensor(tensor._indices(), plain(values), tensor.sizes(), tensor.options())
      ._coalesced_(is_coalesced);
}

}  // namespace

bool ProcessGroupBanyan::is_table(const at::Tensor& tensor) {
  return tensor.layout() == at::kSparse && tensor.scalar_type() == at::kFloat && tensor.sparse_dim() > 0 &&
         rows_of(tensor) > 0 && rows_of(tensor) <= int64_t{UINT32_MAX} && width_of(tensor) > 0 &&
         width_of(tensor) <= int64_t{UINT32_MAX};
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::sum_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Checks checks("allreduce");
  checks.expect(options.reduceOp == c10d::ReduceOp::SUM,
                "unsupported reduction operation (allreduce of sparse tensors only works with ReduceOp.SUM)");
  checks.alike(tensors, tensors.front());
  checks.expect(tensors.front().device().is_cpu(), "only supports CPU tensors");
  checks.expect(tensors.front().dim() <= static_cast<int64_t>(kMostDimensions), "too many dimensions");
  const auto add_up = [this, tensors](run::Communicator& communicator, std::chrono::milliseconds timeout) {
    at::Tensor input = with_plain_values(tensors.front());
    for (size_t i = 1; i < tensors.size(); ++i) input = input + with_plain_values(tensors[i]);
    const at::Tensor sum = is_table(input) ? sum_of_rows(communicator, input, {}, timeout)
                                           : sum_of_all_entries(communicator, input, timeout);
    for (const at::Tensor& tensor : tensors) tensor.copy_(sum);
  };
  return start_sparse({c10d::OpType::ALLREDUCE, "banyan:sparse_all_reduce", tensors, {tensors}}, add_up,
                      options.timeout);
}

ProcessGroupBanyan::OwnWorkPtr ProcessGroupBanyan::coded_sparse_average(const at::Tensor& tensor,
                                                                        const codec::Codec& codec,
                                                                        std::span<float> kept,
                                                                        const std::shared_ptr<run::ResidualUse>& use) {
  TORCH_INTERNAL_ASSERT(is_table(tensor));
  const auto add_up = [this, tensor, codec, kept, use](run::Communicator& communicator,
                                                       std::chrono::milliseconds timeout) {
    // A call that fails leaves what is kept as it was, so there is nothing to give up; but it is to be had again before
    // anybody learns of the end.
    const auto end = [](run::ResidualUse* of_this_call) {
      if (of_this_call != nullptr) of_this_call->end();
    };
    const std::unique_ptr<run::ResidualUse, decltype(end)> used(use.get(), end);
    const at::Tensor sum = sum_of_rows(communicator, with_plain_values(tensor), {codec, kept}, timeout);
    tensor.copy_(sum.div_(size_));
  };
  return start_sparse({c10d::OpType::ALLREDUCE, "banyan:coded_sparse_all_reduce", {tensor}, {{tensor}}}, add_up);
}

ProcessGroupBanyan::OwnWorkPtr ProcessGroupBanyan::start_sparse(BanyanWork::Task task, SparseSum sum,
                                                                std::chrono::milliseconds timeout) {
  if (timeout.count() <= 0) timeout = timeout_.load();
  auto work = c10::make_intrusive<BackgroundWork>(rank_, std::move(task));
  guarded([&] {
    run::SparseQueue& queue = sparse_queue();
    queue.start([work, timeout, sum = std::move(sum), &communicator = queue.communicator()] {
      work->carry_out([&] { guarded([&] { sum(communicator, timeout); }); });
    });
  });
  calls_.fetch_add(1, std::memory_order_relaxed);
  return begun(std::move(work));
}

run::SparseQueue& ProcessGroupBanyan::sparse_queue() {
  const std::lock_guard lock(sparse_mutex_);
  const auto expect_usable = [](const run::Communicator& communicator) {
    if (const std::optional<Error> error = communicator.error()) throw Error(*error);
  };
  expect_usable(communicator_);
  if (own_sparse_queue_ == nullptr) {
    own_sparse_queue_ = std::make_unique<run::SparseQueue>(communicator_);
    sparse_queue_.store(own_sparse_queue_.get());
    expect_usable(communicator_);  // abort() and finish() may not have seen it
  }
  expect_usable(own_sparse_queue_->communicator());
  return *own_sparse_queue_;
}

run::SparseAllReduce& ProcessGroupBanyan::sparse_table(run::Communicator& communicator, const at::Tensor& like,
                                                       const std::optional<codec::Codec>& codec) {
  std::vector<int64_t> key = like.sizes().vec();
  key.push_back(like.sparse_dim());
  if (codec) key.push_back(codec::WireType(*codec).number());
  std::unique_ptr<run::SparseAllReduce>& table = sparse_tables_[key];
  if (table == nullptr) {
    uint64_t seed = 0;
    for (const int64_t number : key) seed = mix(seed, static_cast<uint64_t>(number));
    table = std::make_unique<run::SparseAllReduce>(communicator,
                                                   run::SparseTable{.rows = static_cast<uint32_t>(rows_of(like)),
                                                                    .width = static_cast<uint32_t>(width_of(like)),
                                                                    .codec = codec,
                                                                    .seed = seed});
  }
  return *table;
}

at::Tensor ProcessGroupBanyan::sum_of_rows(run::Communicator& communicator, const at::Tensor& input,
                                           const RowCode& code, std::chrono::milliseconds timeout) {
  const at::Tensor indices = input._indices(), values = plain(input._values());
  at::Tensor rows = indices[0].contiguous();
  for (int64_t i = 1; i < input.sparse_dim(); ++i) rows = rows * input.size(i) + indices[i];

  const sparse::RowList sum = sparse_table(communicator, input, code.codec)
                                  .run({.rows = {rows.data_ptr<int64_t>(), static_cast<size_t>(rows.numel())},
                                        .values = {values.data_ptr<float>(), static_cast<size_t>(values.numel())},
                                        .residual = code.kept,
                                        .timeout = timeout});

  const auto count = static_cast<int64_t>(sum.rows.size());
  at::Tensor left = at::empty({count}, indices.options());
  std::copy(sum.rows.begin(), sum.rows.end(), left.data_ptr<int64_t>());
  const at::Tensor sum_indices = at::empty({input.sparse_dim(), count}, indices.options());
  for (int64_t i = input.sparse_dim() - 1; i > 0; --i) {
    sum_indices[i].copy_(left.remainder(input.size(i)));
    left = left.div(input.size(i), "floor");
  }
  sum_indices[0].copy_(left);
  std::vector<int64_t> value_sizes = values.sizes().vec();
  value_sizes.front() = count;
  const at::Tensor sum_values = at::empty(value_sizes, values.options());
  std::copy(sum.values.begin(), sum.values.end(), sum_values.data_ptr<float>());
  return at::sparse_coo_tensor(sum_indices, sum_values, input.sizes(), input.options())._coalesced_(true);
}

at::Tensor ProcessGroupBanyan::sum_of_all_entries(run::Communicator& communicator, const at::Tensor& tensor,
                                                  std::chrono::milliseconds timeout) const {
  const Checks checks("allreduce");
  const at::Tensor input = tensor.coalesce();
  const at::Tensor indices = input.indices().t().contiguous(), values = plain(input.values());
  const Outline own = outline_of(input);
  std::vector<Outline> all(ranks());
  communicator.run({.kind = run::OperationKind::all_gather,
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
  communicator.run({.kind = run::OperationKind::all_gather_v,
                    .type = element::DataType::int64,
                    .send = bytes_of(indices),
                    .recv = mutable_bytes_of(all_indices),
                    .recv_counts = index_counts,
                    .timeout = timeout});
  communicator.run({.kind = run::OperationKind::all_gather_v,
                    .type = move.type,
                    .send = bytes_of(values),
                    .recv = mutable_bytes_of(all_values),
                    .recv_counts = value_counts,
                    .timeout = timeout});

  return at::sparse_coo_tensor(all_indices.t().contiguous(), all_values, input.sizes(), input.options()).coalesce();
}

}  // namespace banyan::pytorch
