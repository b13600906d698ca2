#include "bindings/torch/compression.h"

#include <utility>

#include "bindings/torch/buffers.h"
#include "bindings/torch/errors.h"

namespace banyan::pytorch {
namespace {

// (c10d::CppCommHookInterface needs a function that libtorch 1.13 does not export.)
class Hook : public c10d::CommHookInterface {
 public:
  explicit Hook(std::shared_ptr<Compression> compression) : compression_(std::move(compression)) {}

  Compression::Future runHook(c10d::GradBucket& bucket) override { return compression_->average(bucket); }
  at::Tensor parseHookResult(const c10::IValue& result) override { return result.toTensor(); }

 private:
  const std::shared_ptr<Compression> compression_;
};

// Calls `go_on` once `from` has succeeded; what fails fails `to`.
void follow(const Compression::Future& from, const Compression::Future& to, std::function<void()> go_on) {
  from->addCallback([to, go_on = std::move(go_on)](c10::ivalue::Future& over) {
    if (over.hasError()) return to->setError(over.exception_ptr());
    try {
      go_on();
    } catch (...) {
      to->setError(std::current_exception());
    }
  });
}

// `buffer` once the work has succeeded.
Compression::Future when_over(c10d::Work& work, const at::Tensor& buffer) {
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get());
  follow(work.getFuture(), future, [future, buffer] { future->markCompleted(buffer); });
  return future;
}

// Zeros come out of every code as zeros, but for this one, which has none.
bool keeps_zeros(const codec::Codec& codec) { return codec.code != codec::ValueCode::sign; }

std::span<float> floats_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

}  // namespace

Compression::Compression(Group group, std::optional<codec::Codec> codec, bool keeps_residuals,
                         std::vector<NamedParameter> parameters)
    : group_(std::move(group)),
      codec_(codec),
      keeps_residuals_(keeps_residuals && codec.has_value()),
      residuals_(std::move(parameters)) {}

void Compression::install(c10d::Reducer& reducer) {
  reducer.register_comm_hook(std::make_unique<Hook>(shared_from_this()));
}

Compression::Future Compression::average(c10d::GradBucket& bucket) {
  const at::NoGradGuard no_grad;
  const at::Tensor buffer = bucket.getBuffer();
  if (codec_ && buffer.layout() == at::kStrided && buffer.scalar_type() == at::kFloat) {
    return guarded([&] { return coded_average(buffer, bucket.getParameters()); });
  }
  // As DDP itself does: the bits are the same.
  if (buffer.layout() == at::kStrided) {
    buffer.mul_(1.0 / group_->getSize());
  } else {
    buffer.div_(group_->getSize());
  }
  std::vector<at::Tensor> tensors = {buffer};
  return when_over(*group_->allreduce(tensors, c10d::AllreduceOptions()), buffer);
}

Compression::Future Compression::coded_average(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) {
  if (!keeps_residuals_) return when_over(*group_->coded_average(buffer, *codec_, nullptr), buffer);
  std::unique_lock lock(mutex_);
  const auto bucket = residuals_.of_bucket(parameters, static_cast<size_t>(buffer.numel()));
  bucket->await_gradients(floats_of(buffer));
  const std::shared_ptr<run::Residual> residual(bucket, &bucket->residual());
  if (keeps_zeros(*codec_)) {
    const auto work = group_->coded_average(buffer, *codec_, residual);
    lock.unlock();  // what follows may be called at once
    return when_over(*work, buffer);
  }

  // Which slots some rank uses: where none does, what the code makes of their zeros is nobody's loss.
  const at::Tensor used = at::tensor(bucket->used_slots(), at::kByte);
  std::vector<at::Tensor> tensors = {used};
  c10d::AllreduceOptions any;
  any.reduceOp = c10d::ReduceOp::MAX;
  const auto uses = group_->allreduce(tensors, any);
  const auto work = group_->coded_average(buffer, *codec_, residual);
  lock.unlock();
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get());
  const Future averaged = when_over(*work, buffer);
  follow(uses->getFuture(), future, [=, self = shared_from_this()] {
    follow(averaged, future, [=] {
      self->restore_unused(*bucket, buffer, used);
      future->markCompleted(buffer);
    });
  });
  return future;
}

void Compression::restore_unused(BucketResidual& bucket, const at::Tensor& buffer, const at::Tensor& used) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < bucket.slots().size(); ++i) {
    if (used.data_ptr<uint8_t>()[i] != 0) continue;
    const BucketResidual::Slot& slot = bucket.slots()[i];
    const std::span<float> averages = floats_of(buffer).subspan(slot.begin, slot.count);
    std::fill(averages.begin(), averages.end(), 0.0F);
    bucket.forget_losses(i);
  }
}

std::map<std::string, at::Tensor> Compression::residuals() {
  return guarded([&] {
    const std::lock_guard lock(mutex_);
    std::map<std::string, at::Tensor> found;
    residuals_.for_each([&](const NamedParameter& parameter, const at::Tensor& values) {
      if (values.defined()) found.emplace(parameter.name, values.clone(at::MemoryFormat::Contiguous));
    });
    return found;
  });
}

void Compression::set_residuals(const std::map<std::string, at::Tensor>& residuals) {
  guarded([&] {
    const at::NoGradGuard no_grad;
    const std::lock_guard lock(mutex_);
    for (const auto& [name, values] : residuals) {  // all are checked before one changes
      const at::Tensor place = residuals_.tensor_of(name);
      if (values.sizes() != place.sizes()) {
        throw Error(ErrorCode::invalid_input, "the residual of '" + name + "' has another shape than the parameter");
      }
    }
    residuals_.for_each([&](const NamedParameter& parameter, const at::Tensor& values) {
      const auto given = residuals.find(parameter.name);
      if (given != residuals.end()) {
        values.copy_(given->second);
      } else if (values.defined()) {
        values.zero_();
      }
    });
  });
}

std::map<std::string, double> Compression::residual_norms() {
  return guarded([&] {
    const std::lock_guard lock(mutex_);
    std::map<std::string, double> norms;
    residuals_.for_each([&](const NamedParameter& parameter, const at::Tensor& values) {
      if (values.defined()) norms.emplace(parameter.name, at::norm(values.to(at::kDouble)).item<double>());
    });
    return norms;
  });
}

void Compression::scale(double factor) {
  guarded([&] {
    const std::lock_guard lock(mutex_);
    residuals_.for_each([&](const NamedParameter&, const at::Tensor& values) {
      if (values.defined()) values.mul_(factor);
    });
  });
}

}  // namespace banyan::pytorch
