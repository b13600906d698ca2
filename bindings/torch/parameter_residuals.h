// ParameterResiduals: what the codes of a model's gradients have lost on this rank, kept by parameter.
//
// DDP exchanges gradients in buckets, each the gradients of some parameters one after the other, and changes the
// buckets after the first step. So a bucket's run::Residual is laid out anew when a bucket with other parameters comes,
// and what was kept for each parameter goes to its new place.
//
// A gradient of zeros sends zeros: DDP fills in zeros for parameters that this step does not use, and for whole buckets
// once this rank has finished (Join), and throws such results away where all ranks sent zeros. The residuals of these
// parameters wait until their gradients are something else, and what the call loses there is added to them.
//
// One thread at a time: whoever calls holds lock(). All O(values).
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "banyan/run/call/residual.h"

namespace banyan::pytorch {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

// The residual of one bucket.
class BucketResidual {
 public:
  struct Slot {
    size_t parameter = 0;  // its number in the model
    size_t begin = 0, count = 0;
    friend bool operator==(const Slot&, const Slot&) = default;
  };
  explicit BucketResidual(std::vector<Slot> slots);

  const std::vector<Slot>& slots() const { return slots_; }
  // For a call.
  run::Residual& residual() { return residual_; }
  // The values of a slot. Throws Error{invalid_usage} while a call uses it, as the next two do.
  std::span<float> values(const Slot& slot);

  // Before a call with these gradients: slots of zeros are to wait.
  void await_gradients(std::span<const float> gradients);
  // 1 for each slot that does not wait.
  std::vector<uint8_t> used_slots() const;
  // After the call: all ranks have sent zeros, so that what the code made of them is nothing that was lost.
  void forget_losses(size_t slot);

 private:
  std::span<float> settled();

  const std::vector<Slot> slots_;
  run::Residual residual_;
  std::vector<bool> waits_;     // by slot, since the last call
  std::vector<float> waiting_;  // of slots that wait; empty until one does
};

class ParameterResiduals {
 public:
  explicit ParameterResiduals(std::vector<NamedParameter> parameters);

  // For all that follows and for buckets. Not to be held where futures are followed: these may call at once.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  // The places of the values of each of these parameters in a bucket. Throws Error{invalid_input} for a parameter that
  // is not of the model, or for another number of values.
  std::vector<BucketResidual::Slot> slots_of(const std::vector<at::Tensor>& parameters, size_t values) const;
  // The residual of a bucket of these parameters in this order. Throws as slots_of().
  std::shared_ptr<BucketResidual> of_bucket(const std::vector<at::Tensor>& parameters, size_t values);

  // Calls it with the residual of each parameter, in the order of the model, as a tensor of its shape to read or write;
  // undefined for those that no bucket has held yet.
  void for_each(const std::function<void(const NamedParameter&, const at::Tensor&)>& visit);
  // Copies of the residuals of all parameters that a bucket has held, indexed by name.
  std::map<std::string, at::Tensor> copies();
  // Residuals that are not given become zero. All values have passed check().
  void set(const std::map<std::string, at::Tensor>& values);
  // Throws Error{invalid_input}, naming the parameter, for unknown names, for other shapes than the parameters',
  // for other types than float32, and for values that are not finite: these would stay in the residual, since a step
  // with them is skipped, and make every further step one that is skipped. `what` they are is for its words. Needs no
  // lock.
  void check(const std::map<std::string, at::Tensor>& values, const std::string& what) const;
  void scale(double factor);

  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  // The place of a parameter among these. Throws Error{invalid_input} for a name that the model has not. Needs no lock.
  size_t number_of(const std::string& name) const;

 private:
  struct Place {
    std::shared_ptr<BucketResidual> bucket;  // with the call under way, if any; null: nothing is kept
    size_t slot = 0;
  };
  at::Tensor tensor_of(size_t number);
  at::Tensor view(size_t number);

  std::mutex mutex_;  // for those who call
  const std::vector<NamedParameter> parameters_;
  std::unordered_map<const c10::TensorImpl*, size_t> numbers_;
  std::unordered_map<std::string, size_t> numbers_by_name_;
  std::vector<Place> places_;  // by number
};

}  // namespace banyan::pytorch
