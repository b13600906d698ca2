#include "bindings/torch/auto_scheme.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "banyan/base/error.h"
#include "bindings/torch/averages.h"

namespace banyan::pytorch {
namespace {

constexpr const char* kCodes = "codes";

uint8_t number_of(const std::optional<codec::Codec>& codec) {
  return codec ? static_cast<uint8_t>(1 + static_cast<uint8_t>(codec->code)) : 0;
}

}  // namespace

std::shared_ptr<GradientScheme> AutoScheme::parse(const std::string& name, SchemeOptions& options,
                                                  const Context& context) {
  const auto refuse = [](const std::string& words) { throw Error(ErrorCode::invalid_input, words); };
  if (name != "auto") refuse("'" + name + "' is not 'auto'");
  Settings settings;
  settings.choice.steps = options.take_count("steps", settings.choice.steps);
  settings.choice.rule.most_loss = options.take("most_loss", settings.choice.rule.most_loss);
  settings.choice.rule.least_gain = options.take("least_gain", settings.choice.rule.least_gain);
  settings.is_quiet = options.take_count("quiet", 0) != 0;
  if (settings.choice.steps == 0) refuse("steps is to be 1 or more");
  if (!(settings.choice.rule.most_loss >= 0)) refuse("most_loss is to be 0 or more");
  if (!(settings.choice.rule.least_gain < 1)) refuse("least_gain is to be less than 1, such as 0.03 for 3 %");
  return std::make_shared<AutoScheme>(settings, context);
}

AutoScheme::AutoScheme(const Settings& settings, const Context& context)
    : settings_(settings),
      context_(context),
      choice_(settings.choice, context.group),
      codes_(context.residuals->parameters().size(), 0) {}

TensorFuture AutoScheme::average(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) {
  print_once_decided();
  if (context_.group->is_on_one_host()) return plain_average(*context_.group, buffer);
  std::vector<size_t> numbers;
  for (const auto& slot : context_.residuals->slots_of(parameters, static_cast<size_t>(buffer.numel()))) {
    numbers.push_back(slot.parameter);
  }
  if (numbers.empty()) return plain_average(*context_.group, buffer);
  if (seen_.contains(numbers.front()) || buckets_.empty()) begin_step();
  seen_.insert(numbers.begin(), numbers.end());
  const Code code = codes_[numbers.front()];
  buckets_.push_back(std::move(numbers));

  const uint64_t step = choice_.step();
  const size_t bucket = choice_.begin_bucket(static_cast<size_t>(buffer.numel()) * sizeof(float));
  const TensorFuture averaged = code > 0    ? scheme_of(code).average(buffer, parameters)
                                : may_keep_ ? average_with_residual(buffer, parameters)
                                            : plain_average(*context_.group, buffer);
  if (choice_.is_over()) return averaged;
  TensorFuture future = new_tensor_future();
  follow(averaged, future, [self = shared_from_this(), future, buffer, step, bucket] {
    self->choice_.end_bucket(step, bucket);
    future->markCompleted(buffer);
  });
  return future;
}

void AutoScheme::begin_step() {
  if (const std::optional<AutoChoice::Codes> codes = choice_.begin_step()) {
    may_keep_ = context_.keeps_residuals;
    std::fill(codes_.begin(), codes_.end(), Code{0});
    for (size_t bucket = 0; bucket < codes->size(); ++bucket) {
      if (!(*codes)[bucket]) continue;
      TORCH_INTERNAL_ASSERT(bucket < buckets_.size());
      for (const size_t parameter : buckets_[bucket]) codes_[parameter] = number_of((*codes)[bucket]);
    }
  }
  print_once_decided();
  buckets_.clear();
  seen_.clear();
}

void AutoScheme::print_once_decided() {
  if (is_told_ || !choice_.is_over()) return;
  is_told_ = true;
  if (settings_.is_quiet || context_.group->getRank() != 0) return;
  std::fprintf(stderr, "banyan_torch.compress(ddp, \"auto\"):\n%s", choice_.report().c_str());
}

CodedScheme& AutoScheme::scheme_of(Code code) {
  std::shared_ptr<CodedScheme>& scheme = schemes_[code];
  if (scheme == nullptr) {
    const codec::Codec codec{.code = static_cast<codec::ValueCode>(code - 1)};
    scheme = std::make_shared<CodedScheme>(codec, context_);
  }
  return *scheme;
}

TensorFuture AutoScheme::average_with_residual(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) {
  std::unique_lock lock = context_.residuals->lock();
  const auto bucket = context_.residuals->of_bucket(parameters, static_cast<size_t>(buffer.numel()));
  const std::span<float> values = floats_of(buffer);
  bucket->await_gradients(values);
  const auto use = std::make_shared<std::optional<run::ResidualUse>>(std::in_place, bucket->residual());
  const std::span<const float> kept = bucket->residual().kept();
  std::transform(values.begin(), values.end(), kept.begin(), values.begin(), std::plus<>());
  lock.unlock();
  TensorFuture future = new_tensor_future();
  plain_average(*context_.group, buffer)
      ->addCallback([future, buffer, bucket, use, residuals = context_.residuals](c10::ivalue::Future& over) {
        {
          const std::unique_lock used = residuals->lock();
          if (!over.hasError()) {
            run::Residual& residual = bucket->residual();
            const std::span<const float> results = floats_of(buffer);
            for (size_t i = 0; i < results.size(); ++i) {
              residual.lost()[i] = std::isfinite(results[i]) ? 0 : residual.kept()[i];
            }
            (*use)->succeed();
          }
          use->reset();
        }
        if (over.hasError()) return future->setError(over.exception_ptr());
        future->markCompleted(buffer);
      });
  return future;
}

GradientScheme::State AutoScheme::state() {
  if (!choice_.is_over()) return {};
  State state = {{kCodes, {}}};
  for (size_t i = 0; i < codes_.size(); ++i) {
    state[kCodes].emplace(context_.residuals->parameters()[i].name,
                          at::scalar_tensor(static_cast<int64_t>(codes_[i]), at::kLong));
  }
  return state;
}

void AutoScheme::set_state(const State& state) {
  State others = state;
  const std::map<std::string, at::Tensor> given = std::exchange(others[kCodes], {});
  others.erase(kCodes);
  GradientScheme::set_state(others);
  if (given.empty()) return;  // nothing was decided yet
  std::vector<Code> codes(codes_.size(), 0);
  for (size_t i = 0; i < codes.size(); ++i) {
    const auto found = given.find(context_.residuals->parameters()[i].name);
    if (found == given.end()) continue;
    const int64_t code = found->second.numel() == 1 ? found->second.item<int64_t>() : -1;
    if (code < 0 || code > static_cast<int64_t>(codec::kValueCodes)) {
      throw Error(ErrorCode::invalid_input, "the state has no known code for '" + found->first + "'");
    }
    codes[i] = static_cast<Code>(code);
  }
  codes_ = std::move(codes);
  may_keep_ = context_.keeps_residuals;
  choice_.settle("as it was decided before the state was saved");
}

}  // namespace banyan::pytorch
