#include "bindings/torch/parameter_residuals.h"

#include <algorithm>
#include <utility>

#include "banyan/base/error.h"

namespace banyan::pytorch {
namespace {

size_t values_of(const std::vector<BucketResidual::Slot>& slots) {
  return slots.empty() ? 0 : slots.back().begin + slots.back().count;
}

template <typename T>
std::span<T> part_of(std::span<T> values, const BucketResidual::Slot& slot) {
  return values.subspan(slot.begin, slot.count);
}

bool are_zeros(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
}

}  // namespace

// ---- BucketResidual ----

BucketResidual::BucketResidual(std::vector<Slot> slots)
    : slots_(std::move(slots)), residual_(values_of(slots_)), waits_(slots_.size()) {}

// What waits, whether the last call has succeeded or not, is added to what is there: that call's losses or zeros.
std::span<float> BucketResidual::settled() {
  const std::span<float> kept = residual_.values();
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!waits_[i]) continue;
    const std::span<float> values = part_of(kept, slots_[i]);
    const std::span<const float> waiting = part_of(std::span<const float>(waiting_), slots_[i]);
    std::transform(values.begin(), values.end(), waiting.begin(), values.begin(), std::plus<>());
    waits_[i] = false;
  }
  return kept;
}

std::span<float> BucketResidual::values(const Slot& slot) { return part_of(settled(), slot); }

void BucketResidual::await_gradients(std::span<const float> gradients) {
  const std::span<float> kept = settled();
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!are_zeros(part_of(gradients, slots_[i]))) continue;
    waiting_.resize(kept.size());
    const std::span<float> values = part_of(kept, slots_[i]);
    std::copy(values.begin(), values.end(), part_of(std::span<float>(waiting_), slots_[i]).begin());
    std::fill(values.begin(), values.end(), 0.0F);
    waits_[i] = true;
  }
}

std::vector<uint8_t> BucketResidual::used_slots() const {
  std::vector<uint8_t> used;
  for (const bool waits : waits_) used.push_back(waits ? 0 : 1);
  return used;
}

void BucketResidual::forget_losses(size_t slot) {
  const std::span<float> values = part_of(residual_.values(), slots_[slot]);
  std::fill(values.begin(), values.end(), 0.0F);
}

// ---- ParameterResiduals ----

ParameterResiduals::ParameterResiduals(std::vector<NamedParameter> parameters)
    : parameters_(std::move(parameters)), places_(parameters_.size()) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    numbers_.emplace(parameters_[i].tensor.unsafeGetTensorImpl(), i);
    numbers_by_name_.emplace(parameters_[i].name, i);
  }
}

std::vector<BucketResidual::Slot> ParameterResiduals::slots_of(const std::vector<at::Tensor>& parameters,
                                                               size_t values) const {
  std::vector<BucketResidual::Slot> slots;
  for (const at::Tensor& parameter : parameters) {
    const auto found = numbers_.find(parameter.unsafeGetTensorImpl());
    if (found == numbers_.end()) {
      throw Error(ErrorCode::invalid_input,
                  "a bucket has a parameter that is not of the model which the compression was made for");
    }
    slots.push_back(
        {.parameter = found->second, .begin = values_of(slots), .count = static_cast<size_t>(parameter.numel())});
  }
  if (values_of(slots) != values) {
    throw Error(ErrorCode::invalid_input, "a bucket has " + std::to_string(values) + " values, its parameters " +
                                              std::to_string(values_of(slots)));
  }
  return slots;
}

std::shared_ptr<BucketResidual> ParameterResiduals::of_bucket(const std::vector<at::Tensor>& parameters,
                                                              size_t values) {
  std::vector<BucketResidual::Slot> slots = slots_of(parameters, values);
  if (slots.empty()) return std::make_shared<BucketResidual>(std::move(slots));
  if (const auto& last = places_[slots.front().parameter].bucket; last != nullptr && last->slots() == slots) {
    return last;
  }

  const auto bucket = std::make_shared<BucketResidual>(std::move(slots));
  for (size_t i = 0; i < bucket->slots().size(); ++i) {
    Place& place = places_[bucket->slots()[i].parameter];
    if (place.bucket != nullptr) {
      const std::span<const float> from = place.bucket->values(place.bucket->slots()[place.slot]);
      std::copy(from.begin(), from.end(), bucket->values(bucket->slots()[i]).begin());
    }
    place = {.bucket = bucket, .slot = i};
  }
  return bucket;
}

// The values of a bucket have the strides of the parameter, where those leave no gaps, as DDP's gradients have.
at::Tensor ParameterResiduals::view(size_t number) {
  const Place& place = places_[number];
  if (place.bucket == nullptr) return {};
  const at::Tensor& like = parameters_[number].tensor;
  float* const values = place.bucket->values(place.bucket->slots()[place.slot]).data();
  const at::TensorOptions options = at::TensorOptions().dtype(at::kFloat);
  if (like.is_non_overlapping_and_dense()) return at::from_blob(values, like.sizes(), like.strides(), options);
  return at::from_blob(values, like.sizes(), options);
}

void ParameterResiduals::for_each(const std::function<void(const NamedParameter&, const at::Tensor&)>& visit) {
  for (size_t i = 0; i < parameters_.size(); ++i) visit(parameters_[i], view(i));
}

size_t ParameterResiduals::number_of(const std::string& name) const {
  const auto found = numbers_by_name_.find(name);
  if (found != numbers_by_name_.end()) return found->second;
  throw Error(ErrorCode::invalid_input, "the model has no parameter '" + name + "'");
}

// Gets a place if it has none.
at::Tensor ParameterResiduals::tensor_of(size_t number) {
  const at::Tensor& parameter = parameters_[number].tensor;
  if (places_[number].bucket == nullptr) of_bucket({parameter}, static_cast<size_t>(parameter.numel()));
  return view(number);
}

std::map<std::string, at::Tensor> ParameterResiduals::copies() {
  std::map<std::string, at::Tensor> found;
  for_each([&](const NamedParameter& parameter, const at::Tensor& values) {
    if (values.defined()) found.emplace(parameter.name, values.clone(at::MemoryFormat::Contiguous));
  });
  return found;
}

void ParameterResiduals::check(const std::map<std::string, at::Tensor>& values, const std::string& what) const {
  for (const auto& [name, given] : values) {
    const auto refuse = [&, &name = name](const std::string& why) {
      throw Error(ErrorCode::invalid_input, "the " + what + " of '" + name + "' " + why);
    };
    const at::Tensor& parameter = parameters_[number_of(name)].tensor;
    if (!given.defined() || given.layout() != at::kStrided || !given.device().is_cpu() ||
        given.scalar_type() != at::kFloat) {
      refuse("is not a dense tensor of float32 on the CPU");
    }
    if (given.sizes() != parameter.sizes()) refuse("has another shape than the parameter");
    if (!at::isfinite(given).all().item<bool>())
      refuse("has values that are not finite; save the state before such a step");
  }
}

void ParameterResiduals::set(const std::map<std::string, at::Tensor>& values) {
  const at::NoGradGuard no_grad;
  for_each([](const NamedParameter&, const at::Tensor& place) {
    if (place.defined()) place.zero_();
  });
  for (const auto& [name, given] : values) tensor_of(number_of(name)).copy_(given);
}

void ParameterResiduals::scale(double factor) {
  for_each([&](const NamedParameter&, const at::Tensor& values) {
    if (values.defined()) values.mul_(factor);
  });
}

}  // namespace banyan::pytorch
