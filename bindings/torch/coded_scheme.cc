#include "bindings/torch/coded_scheme.h"

#include <utility>

#include "banyan/base/error.h"
#include "bindings/torch/averages.h"
#include "bindings/torch/unused_slots.h"

namespace banyan::pytorch {

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
  const std::optional<UnusedSlots> unused = UnusedSlots::ask(*codec_, *bucket, group);
  const auto work = group.coded_average(buffer, *codec_, residual);
  lock.unlock();  // what follows may be called at once
  const TensorFuture averaged = when_over(*work, buffer);
  if (!unused) return averaged;
  auto future = new_tensor_future();
  follow(unused->answered(), future, [=, residuals = context_.residuals] {
    follow(averaged, future, [=] {
      {
        const std::unique_lock used = residuals->lock();
        unused->restore(*bucket, floats_of(buffer));
      }
      future->markCompleted(buffer);
    });
  });
  return future;
}

}  // namespace banyan::pytorch
