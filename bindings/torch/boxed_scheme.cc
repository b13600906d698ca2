#include "bindings/torch/boxed_scheme.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "bindings/torch/averages.h"
#include "bindings/torch/unused_slots.h"

namespace banyan::pytorch {
namespace {

std::byte* bytes_of_floats(const at::Tensor& buffer) { return reinterpret_cast<std::byte*>(floats_of(buffer).data()); }

// A bucket whose average is under way.
struct SharedBucket {
  at::Tensor buffer;
  std::shared_ptr<BucketResidual> residual;
  std::optional<run::ResidualUse> use;  // of all of it
  std::shared_ptr<run::Residual> lost;  // of the share
  Boxes::Share share;
};

}  // namespace

BoxedScheme::BoxedScheme(const codec::Codec& codec, std::shared_ptr<Boxes> boxes, const Context& context)
    : codec_(codec), boxes_(std::move(boxes)), context_(context) {}

TensorFuture BoxedScheme::average(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) {
  if (!context_.keeps_residuals) return boxes_->average(buffer, codec_, nullptr);
  const auto values = static_cast<size_t>(buffer.numel());
  const auto bucket = std::make_shared<SharedBucket>();
  bucket->buffer = buffer;
  bucket->share = boxes_->share_of(values);
  bucket->lost = std::make_shared<run::Residual>(bucket->share.count);
  std::unique_lock lock = context_.residuals->lock();
  bucket->residual = context_.residuals->of_bucket(parameters, values);
  bucket->residual->await_gradients(floats_of(buffer));
  run::Residual& residual = bucket->residual->residual();
  // To the residual, the three calls are one: results that are not finite change nothing.
  bucket->use.emplace(run::Call{
      .kind = run::OperationKind::all_reduce, .residual = &residual, .recv = bytes_of_floats(buffer), .count = values});
  residual.add_to(bytes_of_floats(buffer), bytes_of_floats(buffer));
  const std::optional<UnusedSlots> unused = UnusedSlots::ask(codec_, *bucket->residual, *context_.group);
  const TensorFuture averaged = boxes_->average(buffer, codec_, bucket->lost);
  lock.unlock();  // what follows may be called at once

  TensorFuture future = new_tensor_future();
  const auto end = [bucket, unused, future, residuals = context_.residuals](const std::exception_ptr& failure) {
    {
      const std::unique_lock used = residuals->lock();
      if (!failure) {
        const std::span<const float> lost = bucket->lost->values();
        std::copy(lost.begin(), lost.end(),
                  bucket->residual->residual().lost().begin() + static_cast<ptrdiff_t>(bucket->share.begin));
        bucket->use->succeed();
        if (unused) unused->restore(*bucket->residual, floats_of(bucket->buffer));
      }
      bucket->use.reset();
    }
    if (failure) return future->setError(failure);
    future->markCompleted(bucket->buffer);
  };
  const auto when_averaged = [averaged, end] {
    averaged->addCallback([end](c10::ivalue::Future& over) { end(over.hasError() ? over.exception_ptr() : nullptr); });
  };
  if (!unused) {
    when_averaged();
    return future;
  }
  unused->answered()->addCallback([when_averaged, end](c10::ivalue::Future& over) {
    if (over.hasError()) return end(over.exception_ptr());
    when_averaged();
  });
  return future;
}

}  // namespace banyan::pytorch
