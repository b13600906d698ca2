#include "bindings/torch/coded_scheme.h"

#include <algorithm>
#include <utility>

#include "banyan/base/error.h"
#include "bindings/torch/averages.h"

namespace banyan::pytorch {
namespace {

// Zeros come out of every code as zeros, but for this one, which has none.
bool keeps_zeros(const codec::Codec& codec) { return codec.code != codec::ValueCode::sign; }

}  // namespace

std::shared_ptr<CodedScheme> CodedScheme::parse(const std::string& name, const Context& context) {
  std::optional<codec::Codec> codec;
  if (name != "none") codec = codec::parse_codec(name);
  return std::make_shared<CodedScheme>(codec, context);
}

CodedScheme::CodedScheme(std::optional<codec::Codec> codec, const Context& context)
    : codec_(codec),
      context_{.group = context.group,
               .residuals = context.residuals,
               .keeps_residuals = context.keeps_residuals && codec.has_value()} {}

TensorFuture CodedScheme::average(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) {
  ProcessGroupBanyan& group = *context_.group;
  if (!codec_) return plain_average(group, buffer);
  if (!context_.keeps_residuals) return when_over(*group.coded_average(buffer, *codec_, nullptr), buffer);
  std::unique_lock lock = context_.residuals->lock();
  const auto bucket = context_.residuals->of_bucket(parameters, static_cast<size_t>(buffer.numel()));
  bucket->await_gradients(floats_of(buffer));
  const std::shared_ptr<run::Residual> residual(bucket, &bucket->residual());
  if (keeps_zeros(*codec_)) {
    const auto work = group.coded_average(buffer, *codec_, residual);
    lock.unlock();  // what follows may be called at once
    return when_over(*work, buffer);
  }

  // Which slots some rank uses: where none does, what the code makes of their zeros is nobody's loss.
  const at::Tensor used = at::tensor(bucket->used_slots(), at::kByte);
  std::vector<at::Tensor> tensors = {used};
  c10d::AllreduceOptions any;
  any.reduceOp = c10d::ReduceOp::MAX;
  const auto uses = group.allreduce(tensors, any);
  const auto work = group.coded_average(buffer, *codec_, residual);
  lock.unlock();
  auto future = new_tensor_future();
  const TensorFuture averaged = when_over(*work, buffer);
  follow(uses->getFuture(), future, [=, self = shared_from_this()] {
    follow(averaged, future, [=] {
      self->restore_unused(*bucket, buffer, used);
      future->markCompleted(buffer);
    });
  });
  return future;
}

void CodedScheme::restore_unused(BucketResidual& bucket, const at::Tensor& buffer, const at::Tensor& used) {
  const std::unique_lock lock = context_.residuals->lock();
  for (size_t i = 0; i < bucket.slots().size(); ++i) {
    if (used.data_ptr<uint8_t>()[i] != 0) continue;
    const BucketResidual::Slot& slot = bucket.slots()[i];
    const std::span<float> averages = floats_of(buffer).subspan(slot.begin, slot.count);
    std::fill(averages.begin(), averages.end(), 0.0F);
    bucket.forget_losses(i);
  }
}

}  // namespace banyan::pytorch
