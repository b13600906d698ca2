#include "bindings/torch/compression.h"

#include <utility>

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
  return plain_average(*group_, buffer);
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
