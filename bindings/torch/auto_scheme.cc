#include "bindings/torch/auto_scheme.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "banyan/base/error.h"
#include "bindings/torch/averages.h"
#include "bindings/torch/boxed_scheme.h"
#include "bindings/torch/coded_scheme.h"

namespace banyan::pytorch {
namespace {

constexpr const char* kCodes = "codes";

}  // namespace

std::shared_ptr<GradientScheme> AutoScheme::parse(const std::string& name, SchemeOptions& options,
                                                  const Context& context) {
  const auto refuse = [](const std::string& words) { throw Error(ErrorCode::invalid_input, words); };
  if (name != "auto") refuse("'" + name + "' is not 'auto'");
  Settings settings;
  settings.choice.steps = options.take_count("steps", settings.choice.steps);
  settings.choice.trials.codes = options.take_count("trials", settings.choice.trials.codes);
  settings.choice.trials.measurements = options.take_count("measurements", settings.choice.trials.measurements);
  settings.choice.rule.most_loss = options.take("most_loss", settings.choice.rule.most_loss);
  settings.choice.rule.least_gain = options.take("least_gain", settings.choice.rule.least_gain);
  settings.choice.box_ranks = options.take_count(kBoxRanks);
  if (settings.choice.box_ranks.value_or(0) > 0) {
    Boxes::expect_possible(*settings.choice.box_ranks, context.group->getSize());
  }
  settings.is_quiet = options.take_count("quiet", 0) != 0;
  if (settings.choice.steps == 0) refuse("steps is to be 1 or more");
  if (settings.choice.trials.codes == 0) refuse("trials is to be 1 or more");
  if (settings.choice.trials.measurements == 0) refuse("measurements is to be 1 or more");
  if (!(settings.choice.rule.most_loss >= 0)) refuse("most_loss is to be 0 or more");
  if (!(settings.choice.rule.least_gain < 1)) refuse("least_gain is to be less than 1, such as 0.03 for 3 %");
  return std::make_shared<AutoScheme>(settings, context);
}

AutoScheme::AutoScheme(const Settings& settings, const Context& context)
    : settings_(settings),
      context_(context),
      choice_(settings.choice, context.group),
      ways_(context.residuals->parameters().size()) {}

TensorFuture AutoScheme::average(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) {
  end_once_decided();
  if (context_.group->is_on_one_host()) return plain_average(*context_.group, buffer);
  std::vector<size_t> numbers;
  for (const auto& slot : context_.residuals->slots_of(parameters, static_cast<size_t>(buffer.numel()))) {
    numbers.push_back(slot.parameter);
  }
  if (numbers.empty()) return plain_average(*context_.group, buffer);
  if (seen_.contains(numbers.front()) || buckets_.empty()) begin_step();
  seen_.insert(numbers.begin(), numbers.end());
  const Way way = ways_[numbers.front()];
  buckets_.push_back(std::move(numbers));

  const uint64_t step = choice_.step();
  const size_t bucket = choice_.begin_bucket(static_cast<size_t>(buffer.numel()) * sizeof(float));
  const TensorFuture averaged = way.code > 0 ? scheme_of(way).average(buffer, parameters)
                                : may_keep_  ? average_with_residual(buffer, parameters)
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
    std::fill(ways_.begin(), ways_.end(), Way{});
    for (size_t bucket = 0; bucket < codes->of_buckets.size(); ++bucket) {
      const std::optional<codec::Codec>& codec = codes->of_buckets[bucket];
      if (!codec) continue;
      TORCH_INTERNAL_ASSERT(bucket < buckets_.size());
      const Way way{.code = static_cast<uint8_t>(1 + static_cast<uint8_t>(codec->code)), .box_ranks = codes->box_ranks};
      for (const size_t parameter : buckets_[bucket]) ways_[parameter] = way;
    }
  }
  end_once_decided();
  buckets_.clear();
  seen_.clear();
}

void AutoScheme::end_once_decided() {
  if (has_ended_ || !choice_.is_over()) return;
  has_ended_ = true;
  const std::set<Way> used(ways_.begin(), ways_.end());
  std::erase_if(schemes_, [&](const auto& scheme) { return !used.contains(scheme.first); });
  if (std::none_of(used.begin(), used.end(), [](const Way& way) { return way.box_ranks > 0; })) choice_.drop_boxes();
  if (settings_.is_quiet || context_.group->getRank() != 0) return;
  std::fprintf(stderr, "banyan_torch.compress(ddp, \"auto\"):\n%s", choice_.report().c_str());
}

GradientScheme& AutoScheme::scheme_of(const Way& way) {
  std::shared_ptr<GradientScheme>& scheme = schemes_[way];
  if (scheme == nullptr) {
    const codec::Codec codec{.code = static_cast<codec::ValueCode>(way.code - 1)};
    if (way.box_ranks == 0) {
      scheme = std::make_shared<CodedScheme>(codec, context_);
    } else {
      scheme = std::make_shared<BoxedScheme>(codec, choice_.boxes_of(way.box_ranks), context_);
    }
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
  for (size_t i = 0; i < ways_.size(); ++i) {
    state[kCodes].emplace(context_.residuals->parameters()[i].name, at::scalar_tensor(number_of(ways_[i]), at::kLong));
  }
  return state;
}

void AutoScheme::set_state(const State& state) {
  State others = state;
  const std::map<std::string, at::Tensor> given = std::exchange(others[kCodes], {});
  others.erase(kCodes);
  GradientScheme::set_state(others);
  if (given.empty()) return;  // nothing was decided yet
  std::vector<Way> ways(ways_.size());
  for (size_t i = 0; i < ways.size(); ++i) {
    const auto found = given.find(context_.residuals->parameters()[i].name);
    if (found != given.end()) ways[i] = way_of(found->second, found->first);
  }
  ways_ = std::move(ways);
  may_keep_ = context_.keeps_residuals;
  choice_.settle("as it was decided before the state was saved");
}

AutoScheme::Way AutoScheme::way_of(const at::Tensor& number, const std::string& name) const {
  const int64_t value = number.numel() == 1 ? number.item<int64_t>() : -1;
  const int64_t code = value % kOfBoxes, box_ranks = value / kOfBoxes;
  if (value < 0 || code > static_cast<int64_t>(codec::kValueCodes)) {
    throw Error(ErrorCode::invalid_input, "the state has no known code for '" + name + "'");
  }
  if (box_ranks > 0 && !context_.group->is_on_one_host()) {
    Boxes::expect_possible(static_cast<uint64_t>(box_ranks), context_.group->getSize());
  }
  return {.code = static_cast<uint8_t>(code), .box_ranks = static_cast<uint32_t>(box_ranks)};
}

}  // namespace banyan::pytorch
