#include "bindings/torch/compression.h"

#include <optional>
#include <span>
#include <utility>

#include "banyan/base/error.h"
#include "bindings/torch/averages.h"
#include "bindings/torch/errors.h"

namespace banyan::pytorch {
namespace {

constexpr const char* kResiduals = "residuals";

// (c10d::CppCommHookInterface needs a function that libtorch 1.13 does not export.)
class Hook : public c10d::CommHookInterface {
 public:
  explicit Hook(std::shared_ptr<Compression> compression) : compression_(std::move(compression)) {}

  TensorFuture runHook(c10d::GradBucket& bucket) override { return compression_->average(bucket); }
  at::Tensor parseHookResult(const c10::IValue& result) override { return result.toTensor(); }

 private:
  const std::shared_ptr<Compression> compression_;
};

// What is kept of the rows of a parameter, in use by a sum.
struct KeptRows {
  explicit KeptRows(std::shared_ptr<BucketResidual> of)
      : bucket(std::move(of)), values(bucket->values(bucket->slots().front())), use(bucket->residual()) {}

  const std::shared_ptr<BucketResidual> bucket;
  const std::span<float> values;
  run::ResidualUse use;
};

}  // namespace

Compression::Compression(const c10::intrusive_ptr<ProcessGroupBanyan>& group, const std::string& scheme,
                         std::map<std::string, double> options, bool keeps_residuals,
                         std::vector<NamedParameter> parameters)
    : group_(group), residuals_(std::make_shared<ParameterResiduals>(std::move(parameters))), scheme_(guarded([&] {
        return make_scheme(scheme, SchemeOptions(std::move(options)),
                           {.group = group, .residuals = residuals_, .keeps_residuals = keeps_residuals});
      })) {}

void Compression::install(c10d::Reducer& reducer) {
  reducer.register_comm_hook(std::make_unique<Hook>(shared_from_this()));
}

TensorFuture Compression::average(c10d::GradBucket& bucket) {
  return average_of(bucket.getBuffer(), bucket.getParameters());
}

TensorFuture Compression::average_of(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  if (buffer.layout() == at::kStrided && buffer.scalar_type() == at::kFloat) {
    return guarded([&] { return scheme_->average(buffer, parameters); });
  }
  const std::optional<codec::Codec> codec = scheme_->codec_of_sparse();
  if (codec && parameters.size() == 1 && ProcessGroupBanyan::is_table(buffer) && !group_->is_on_one_host()) {
    return guarded([&] { return sparse_average(buffer, parameters.front(), *codec); });
  }
  return plain_average(*group_, buffer);
}

// What is kept of a row waits until this rank has the row again, or owns it and another has it: so there is nothing to
// do for parameters that a step does not use.
TensorFuture Compression::sparse_average(const at::Tensor& gradient, const at::Tensor& parameter,
                                         const codec::Codec& codec) {
  if (!scheme_->keeps_residuals()) {
    return when_over(*group_->coded_sparse_average(gradient, codec, {}, nullptr), gradient);
  }
  std::unique_lock lock = residuals_->lock();
  const auto kept =
      std::make_shared<KeptRows>(residuals_->of_bucket({parameter}, static_cast<size_t>(parameter.numel())));
  if (!parameter.is_contiguous()) {
    const std::string& name = residuals_->parameters()[kept->bucket->slots().front().parameter].name;
    throw Error(ErrorCode::unsupported, "the residual of '" + name + "', whose gradients are sparse, is kept row by " +
                                            "row, and the parameter is not contiguous: make it so, or give " +
                                            "residual=False");
  }
  lock.unlock();  // the first sum waits for all ranks, and what follows may be called at once
  const std::shared_ptr<run::ResidualUse> use(kept, &kept->use);
  return when_over(*group_->coded_sparse_average(gradient, codec, kept->values, use), gradient);
}

GradientScheme::State Compression::state() {
  return guarded([&] {
    GradientScheme::State found = scheme_->state();
    const std::unique_lock lock = residuals_->lock();
    found[kResiduals] = residuals_->copies();
    return found;
  });
}

void Compression::set_state(const GradientScheme::State& state) {
  guarded([&] {
    GradientScheme::State of_scheme = state;
    const std::map<std::string, at::Tensor> residuals = std::exchange(of_scheme[kResiduals], {});
    of_scheme.erase(kResiduals);
    residuals_->check(residuals, "residual");
    scheme_->set_state(of_scheme);
    const std::unique_lock lock = residuals_->lock();
    residuals_->set(residuals);
  });
}

std::map<std::string, double> Compression::residual_norms() {
  return guarded([&] {
    const std::unique_lock lock = residuals_->lock();
    std::map<std::string, double> norms;
    residuals_->for_each([&](const NamedParameter& parameter, const at::Tensor& values) {
      if (values.defined()) norms.emplace(parameter.name, at::norm(values.to(at::kDouble)).item<double>());
    });
    return norms;
  });
}

void Compression::scale(double factor) {
  guarded([&] {
    scheme_->scale(factor);
    const std::unique_lock lock = residuals_->lock();
    residuals_->scale(factor);
  });
}

}  // namespace banyan::pytorch
