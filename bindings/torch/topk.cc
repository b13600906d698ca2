#include "bindings/torch/topk.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/sparse/momentum.h"
#include "banyan/sparse/selection.h"
#include "bindings/torch/averages.h"
#include "bindings/torch/futures.h"

namespace banyan::pytorch {
namespace {

constexpr std::string_view kTopK = "topk";
constexpr const char *kMomenta = "momenta", *kTakenSteps = "steps";
constexpr double kFirstShare = 0.25;  // of a warm-up

// What a call changes of a bucket: a copy, which takes the place of what is kept once the call has succeeded. Null:
// nothing.
class Draft {
 public:
  explicit Draft(std::shared_ptr<BucketResidual> bucket) : bucket_(std::move(bucket)) {
    if (bucket_ != nullptr) use_ = std::make_unique<run::ResidualUse>(bucket_->residual());
  }
  std::span<float> copied() {
    if (bucket_ == nullptr) return {};
    run::Residual& residual = bucket_->residual();
    std::copy(residual.kept().begin(), residual.kept().end(), residual.lost().begin());
    return residual.lost();
  }
  void keep() {
    if (use_ != nullptr) use_->succeed();
  }

 private:
  std::shared_ptr<BucketResidual> bucket_;
  std::unique_ptr<run::ResidualUse> use_;  // gives up what is not kept
};

TopK::Settings parse_name(const std::string& text) {
  const size_t percent = text.find('%');
  TopK::Settings settings;
  double number = 0;
  const char* const begin = text.data() + std::min(text.size(), kTopK.size() + 1);
  const char* const end = text.data() + std::min(text.size(), percent);
  const auto [rest, failure] = std::from_chars(begin, std::max(begin, end), number, std::chars_format::fixed);
  const std::string behind = percent == std::string::npos ? "" : text.substr(percent + 1);
  if (text[std::min(text.size() - 1, kTopK.size())] != ':' || percent == std::string::npos || failure != std::errc() ||
      rest != end || !(number > 0 && number <= 100) || (!behind.empty() && behind.front() != '+')) {
    throw Error(ErrorCode::invalid_input,
                "'" + text + "' is not the largest values of gradients; give topk:1% or topk:1%+int8");
  }
  settings.share = number / 100;
  if (!behind.empty()) settings.codec = codec::parse_codec(behind.substr(1));
  return settings;
}

std::map<std::string, at::Tensor> take(GradientScheme::State& state, const char* kind) {
  const auto node = state.extract(kind);
  return node.empty() ? std::map<std::string, at::Tensor>() : node.mapped();
}

uint64_t count_of(const std::pair<const std::string, at::Tensor>& steps) {
  if (steps.second.numel() != 1) {
    throw Error(ErrorCode::invalid_input, "the steps of '" + steps.first + "' are " +
                                              std::to_string(steps.second.numel()) + " values instead of 1");
  }
  return static_cast<uint64_t>(std::max<int64_t>(0, steps.second.item<int64_t>()));
}

}  // namespace

std::shared_ptr<GradientScheme> TopK::parse(const std::string& name, SchemeOptions& options, const Context& context) {
  Settings settings = parse_name(name);
  const double momentum = options.take("momentum", 0);
  settings.momentum = static_cast<float>(momentum);
  const uint64_t masking = options.take_count("masking", 1);
  settings.masks_momentum = masking != 0;
  settings.largest_norm = options.take("clip", 0);
  settings.warm_up = options.take_count("warm_up", 0);
  const auto refuse = [](const std::string& words) { throw Error(ErrorCode::invalid_input, words); };
  if (!(momentum >= 0 && momentum < 1)) refuse("momentum is to be from 0 to below 1");
  if (!(settings.largest_norm >= 0 && std::isfinite(settings.largest_norm))) refuse("clip is to be 0 or more");
  if (momentum > 0 && !context.keeps_residuals) refuse("momentum of topk needs residuals: give it to the optimizer");
  if (masking > 1) refuse("masking is to be 0 or 1");
  if (masking == 0 && momentum == 0) refuse("masking is of momentum, and there is none");
  if (settings.largest_norm > 0 && momentum == 0) {
    refuse("clip goes with momentum; else clip gradients after the backward pass");
  }
  return std::make_shared<TopK>(settings, context);
}

struct TopK::Bucket {
  at::Tensor buffer;
  size_t wanted = 0;  // values
  Draft residual, momentum;
};

TopK::TopK(const Settings& settings, const Context& context)
    : settings_(settings),
      context_(context),
      momenta_(settings.momentum > 0 ? std::make_unique<ParameterResiduals>(context.residuals->parameters()) : nullptr),
      steps_(settings.warm_up > 0 ? context_.residuals->parameters().size() : 0) {}

std::string TopK::name() const {
  char number[32];
  const auto written = std::to_chars(number, number + sizeof number, static_cast<float>(settings_.share * 100));
  std::string text = std::string(kTopK) + ":" + std::string(number, written.ptr) + "%";
  if (settings_.codec) text += "+" + codec::to_string(*settings_.codec);
  return text;
}

TensorFuture TopK::average(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) {
  if (buffer.numel() == 0) {
    TensorFuture future = new_tensor_future();
    future->markCompleted(buffer);
    return future;
  }
  const auto bucket = std::make_shared<std::optional<Bucket>>(begin(buffer, parameters));
  const auto work = context_.group->start_sparse(
      {c10d::OpType::ALLREDUCE, "banyan:largest_values", {buffer}, {{buffer}}},
      [self = shared_from_this(), bucket](run::Communicator& communicator, std::chrono::milliseconds timeout) {
        // Residuals are to be had again before anybody learns of the end.
        std::optional<Bucket> of_this_call = std::exchange(*bucket, std::nullopt);
        self->add_up(*of_this_call, communicator, timeout);
      });
  return when_over(*work, buffer);
}

TopK::Bucket TopK::begin(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) {
  const std::span<float> gradients = floats_of(buffer);
  const auto draft_in = [&](ParameterResiduals& all) {
    const std::shared_ptr<BucketResidual> kept = all.of_bucket(parameters, gradients.size());
    kept->await_gradients(gradients);
    return Draft(kept);
  };
  const std::unique_lock lock = context_.residuals->lock();
  std::unique_lock<std::mutex> momenta_lock;
  if (momenta_ != nullptr) momenta_lock = momenta_->lock();
  Draft residual = context_.keeps_residuals ? draft_in(*context_.residuals) : Draft(nullptr);
  Draft momentum = momenta_ != nullptr ? draft_in(*momenta_) : Draft(nullptr);
  return {.buffer = buffer,
          .wanted = take_step(parameters, gradients.size()),
          .residual = std::move(residual),
          .momentum = std::move(momentum)};
}

GradientScheme::State TopK::state() {
  State state;
  if (settings_.warm_up > 0) {
    const std::unique_lock lock = context_.residuals->lock();
    for (size_t i = 0; i < steps_.size(); ++i) {
      const at::Tensor steps = at::scalar_tensor(static_cast<int64_t>(steps_[i]), at::kLong);
      state[kTakenSteps].emplace(context_.residuals->parameters()[i].name, steps);
    }
  }
  if (momenta_ != nullptr) {
    const std::unique_lock lock = momenta_->lock();
    state.emplace(kMomenta, momenta_->copies());
  }
  return state;
}

void TopK::set_state(const State& state) {
  State others = state;
  std::map<std::string, at::Tensor> momenta, steps;
  if (momenta_ != nullptr) momenta = take(others, kMomenta);
  if (settings_.warm_up > 0) steps = take(others, kTakenSteps);
  GradientScheme::set_state(others);
  std::vector<uint64_t> counts(steps_.size());
  for (const auto& each : steps) counts[context_.residuals->number_of(each.first)] = count_of(each);
  if (momenta_ != nullptr) {
    momenta_->check(momenta, "momentum");
    const std::unique_lock lock = momenta_->lock();
    momenta_->set(momenta);
  }
  const std::unique_lock lock = context_.residuals->lock();
  steps_ = std::move(counts);
}

void TopK::scale(double factor) {
  if (momenta_ == nullptr) return;
  const std::unique_lock lock = momenta_->lock();
  momenta_->scale(factor);
}

// How many values of a bucket this step sends. All its parameters have taken as many steps.
size_t TopK::take_step(const std::vector<at::Tensor>& parameters, size_t values) {
  double share = settings_.share;
  if (settings_.warm_up > 0) {
    uint64_t taken = settings_.warm_up;
    for (const BucketResidual::Slot& slot : context_.residuals->slots_of(parameters, values)) {
      taken = std::min(taken, steps_[slot.parameter]++);
    }
    const double left = 1 - static_cast<double>(taken) / static_cast<double>(settings_.warm_up);
    if (share < kFirstShare) share *= std::pow(kFirstShare / share, left);
  }
  return static_cast<size_t>(std::max(1.0, std::round(share * static_cast<double>(values))));
}

void TopK::add_up(Bucket& bucket, run::Communicator& communicator, std::chrono::milliseconds timeout) {
  const std::span<float> gradients = floats_of(bucket.buffer);
  const std::span<float> residual = bucket.residual.copied(), momentum = bucket.momentum.copied();
  const auto ranks = static_cast<uint32_t>(context_.group->getSize());
  if (momenta_ != nullptr) {
    sparse::add_to_momentum({.gradient = gradients,
                             .momentum = momentum,
                             .factor = settings_.momentum,
                             .largest_norm = settings_.largest_norm,
                             .ranks = ranks});
  }
  sparse::select_largest(gradients, residual, bucket.wanted, chosen_);
  if (momenta_ != nullptr && settings_.masks_momentum) sparse::clear_sent(chosen_.rows, momentum);
  rows_.assign(chosen_.rows.begin(), chosen_.rows.end());
  const sparse::RowList sum = table_of(gradients.size(), communicator)
                                  .run({.rows = rows_,
                                        .values = chosen_.values,
                                        .residual = settings_.codec ? residual : std::span<float>(),
                                        .timeout = timeout});
  std::fill(gradients.begin(), gradients.end(), 0.0F);
  bool are_finite = true;
  for (size_t i = 0; i < sum.rows.size(); ++i) {
    gradients[sum.rows[i]] = sum.values[i] / static_cast<float>(ranks);
    are_finite = are_finite && std::isfinite(sum.values[i]);
  }
  if (!are_finite) return;
  bucket.residual.keep();
  bucket.momentum.keep();
}

run::SparseAllReduce& TopK::table_of(size_t values, run::Communicator& communicator) {
  std::unique_ptr<run::SparseAllReduce>& table = tables_[values];
  if (table == nullptr) {
    if (values > UINT32_MAX) {
      throw Error(ErrorCode::unsupported, "a bucket has " + std::to_string(values) +
                                              " values; topk takes less than 2^32: give a smaller bucket_cap_mb");
    }
    table = std::make_unique<run::SparseAllReduce>(
        communicator,
        run::SparseTable{.rows = static_cast<uint32_t>(values), .codec = settings_.codec, .seed = values});
  }
  return *table;
}

}  // namespace banyan::pytorch
