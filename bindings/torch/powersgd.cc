#include "bindings/torch/powersgd.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "banyan/base/error.h"
#include "bindings/torch/averages.h"
#include "bindings/torch/buffers.h"
#include "bindings/torch/errors.h"

namespace banyan::pytorch {
namespace {

using codec::low_rank::Shape;

constexpr std::string_view kBegin = "powersgd:";
constexpr const char *kDirections = "directions", *kSteps = "steps";
constexpr size_t kCacheValues = 16 << 10;  // rows of so many are made and multiplied at a time

// As its gradient lies in memory: the outermost dimension, and the rest.
Shape matrix_of(const at::Tensor& parameter) {
  if (parameter.dim() < 2 || parameter.numel() == 0) return {};
  int64_t outermost = 0;
  if (parameter.is_non_overlapping_and_dense()) {
    for (int64_t i = 1; i < parameter.dim(); ++i) {
      if (parameter.stride(i) > parameter.stride(outermost)) outermost = i;
    }
  }
  const auto rows = static_cast<size_t>(parameter.size(outermost));
  return {.rows = rows, .columns = static_cast<size_t>(parameter.numel()) / rows, .rank = 0};
}

Shape shape_of(const at::Tensor& parameter, const PowerSgd::Settings& settings) {
  Shape shape = matrix_of(parameter);
  const size_t rank = std::min({settings.rank, shape.rows, shape.columns});
  const double sent = static_cast<double>(shape.rows + shape.columns) * static_cast<double>(rank);
  if (sent * settings.least_ratio < static_cast<double>(shape.rows) * static_cast<double>(shape.columns)) {
    shape.rank = rank;
  }
  return shape;
}

}  // namespace

struct PowerSgd::Bucket {
  struct Matrix {
    size_t number = 0;  // of the parameter
    BucketResidual::Slot slot;
    Shape shape;
    size_t p_at = 0, q_at = 0;  // in `first` and `second`
    bool is_finite = true;
  };
  struct Plain {
    BucketResidual::Slot slot;
    size_t at = 0;  // in `first`
  };

  // A call has failed.
  void give_up() { use.reset(); }
  // The matrix that is approximated: where it is kept that which is lost will be.
  std::span<float> m(const Matrix& matrix) const {
    const std::span<float> all = residual != nullptr ? residual->residual().lost() : floats_of(buffer);
    return all.subspan(matrix.slot.begin, matrix.slot.count);
  }
  std::span<float> p(const Matrix& matrix) const {
    return floats_of(first).subspan(matrix.p_at, matrix.shape.rows * matrix.shape.rank);
  }
  std::span<float> q(const Matrix& matrix) const {
    return floats_of(second).subspan(matrix.q_at, matrix.shape.columns * matrix.shape.rank);
  }
  std::span<float> gradient(const BucketResidual::Slot& slot) const {
    return floats_of(buffer).subspan(slot.begin, slot.count);
  }
  void keep_again(const BucketResidual::Slot& slot) const {
    if (residual == nullptr) return;
    const std::span<const float> kept = residual->residual().kept().subspan(slot.begin, slot.count);
    std::copy(kept.begin(), kept.end(), residual->residual().lost().begin() + static_cast<ptrdiff_t>(slot.begin));
  }

  at::Tensor buffer, first, second;
  std::shared_ptr<BucketResidual> residual;  // null where nothing is kept
  std::optional<run::ResidualUse> use;
  std::vector<Matrix> matrices;
  std::vector<Plain> plain;
  TensorFuture averaged = new_tensor_future();
};

std::shared_ptr<GradientScheme> PowerSgd::parse(const std::string& name, SchemeOptions& options,
                                                const Context& context) {
  Settings settings;
  const char *const begin = name.data() + kBegin.size(), *const end = name.data() + name.size();
  const auto [rest, wrong] = std::from_chars(begin, end, settings.rank);
  if (wrong != std::errc() || rest != end || settings.rank < 1 || settings.rank > kMaximumRank) {
    throw Error(ErrorCode::invalid_input,
                "'" + name + "' is to have a rank of 1 to " + std::to_string(kMaximumRank) + ", as powersgd:4 has");
  }
  settings.dense_steps = options.take_count("dense_steps", settings.dense_steps);
  settings.seed = options.take_count("seed", settings.seed);
  settings.least_ratio = options.take("least_ratio", settings.least_ratio);
  if (!(settings.least_ratio >= 1 && settings.least_ratio <= std::numeric_limits<float>::max())) {
    throw Error(ErrorCode::invalid_input, "least_ratio is to be 1 or more");
  }
  return std::make_shared<PowerSgd>(settings, context);
}

PowerSgd::PowerSgd(const Settings& settings, const Context& context) : settings_(settings), context_(context) {
  for (const NamedParameter& parameter : context.residuals->parameters()) {
    parameters_.push_back({.shape = shape_of(parameter.tensor, settings), .directions = {}, .steps = 0});
  }
}

ProcessGroupBanyan& PowerSgd::twin() {
  const std::lock_guard lock(mutex_);
  if (twin_ == nullptr) twin_ = context_.group->twin();
  return *twin_;
}

TensorFuture PowerSgd::average(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) {
  if (context_.group->is_on_one_host()) return plain_average(*context_.group, buffer);
  const std::shared_ptr<Bucket> bucket = begin(buffer, parameters);
  if (bucket == nullptr) return plain_average(*context_.group, buffer);
  twin();
  const uint64_t number = second_calls_.next_number();
  all_reduce(*context_.group, bucket->first)
      ->getFuture()
      ->addCallback([self = shared_from_this(), bucket, number](c10::ivalue::Future& over) {
        const std::exception_ptr failure = over.hasError() ? over.exception_ptr() : nullptr;
        self->second_calls_.run(number, [self, bucket, failure] {
          if (failure) return self->fail(*bucket, failure);
          try {
            self->go_on(bucket);
          } catch (...) {
            self->fail(*bucket, std::current_exception());
          }
        });
      });
  return bucket->averaged;
}

// Null where all is sent as it is. Else `first` is what the first call sums.
std::shared_ptr<PowerSgd::Bucket> PowerSgd::begin(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) {
  const std::unique_lock lock = context_.residuals->lock();
  const std::lock_guard own_lock(mutex_);
  const auto bucket = std::make_shared<Bucket>();
  bucket->buffer = buffer;
  size_t first = 0, second = 0;
  std::vector<BucketResidual::Slot> plain;
  for (const BucketResidual::Slot& slot :
       context_.residuals->slots_of(parameters, static_cast<size_t>(buffer.numel()))) {
    Parameter& parameter = parameters_[slot.parameter];
    if (parameter.steps++ < settings_.dense_steps || parameter.shape.rank == 0) {
      plain.push_back(slot);
      continue;
    }
    const Shape& shape = parameter.shape;
    bucket->matrices.push_back(
        {.number = slot.parameter, .slot = slot, .shape = shape, .p_at = first, .q_at = second, .is_finite = true});
    first += shape.rows * shape.rank;
    second += shape.columns * shape.rank;
  }
  if (bucket->matrices.empty()) return nullptr;
  for (const BucketResidual::Slot& slot : plain) {
    bucket->plain.push_back({.slot = slot, .at = first});
    first += slot.count;
  }
  const at::TensorOptions floats = at::TensorOptions().dtype(at::kFloat);
  bucket->first = at::empty({static_cast<int64_t>(first)}, floats);
  bucket->second = at::empty({static_cast<int64_t>(second)}, floats);

  std::shared_ptr<BucketResidual> residual;
  if (context_.keeps_residuals) {
    residual = context_.residuals->of_bucket(parameters, static_cast<size_t>(buffer.numel()));
    residual->await_gradients(floats_of(buffer));
    bucket->use.emplace(residual->residual());
    bucket->residual = residual;
  }
  for (const Bucket::Matrix& matrix : bucket->matrices) {
    std::vector<float>& directions = parameters_[matrix.number].directions;
    if (directions.empty()) directions = first_directions(matrix.number);
    const std::vector<float> q_rows = codec::low_rank::transposed(directions, matrix.shape.rank);
    const std::span<float> m = bucket->m(matrix), p = bucket->p(matrix);
    const size_t columns = matrix.shape.columns, at_once = std::max<size_t>(4, kCacheValues / columns / 4 * 4);
    for (size_t row = 0; row < matrix.shape.rows; row += at_once) {
      const size_t rows = std::min(at_once, matrix.shape.rows - row);
      const std::span<float> some = m.subspan(row * columns, rows * columns);
      if (residual != nullptr) {
        codec::low_rank::add(bucket->gradient(matrix.slot).subspan(row * columns, some.size()),
                             residual->residual().kept().subspan(matrix.slot.begin + row * columns, some.size()), some);
      }
      codec::low_rank::multiply({.rows = rows, .columns = columns, .rank = matrix.shape.rank}, some, q_rows,
                                p.subspan(row * matrix.shape.rank, rows * matrix.shape.rank));
    }
  }
  const float share = static_cast<float>(1.0 / context_.group->getSize());
  for (const Bucket::Plain& one : bucket->plain) {
    const std::span<const float> gradient = bucket->gradient(one.slot);
    std::transform(gradient.begin(), gradient.end(), floats_of(bucket->first).begin() + static_cast<ptrdiff_t>(one.at),
                   [share](float value) { return value * share; });
    bucket->keep_again(one.slot);
  }
  return bucket;
}

void PowerSgd::go_on(const std::shared_ptr<Bucket>& bucket) {
  for (Bucket::Matrix& matrix : bucket->matrices) {
    const std::span<float> p = bucket->p(matrix);
    matrix.is_finite = codec::low_rank::are_finite(p);
    if (!matrix.is_finite) std::fill(p.begin(), p.end(), 0.0F);
    codec::low_rank::orthonormalise(p, matrix.shape.rank);
    std::fill(bucket->q(matrix).begin(), bucket->q(matrix).end(), 0.0F);
    if (matrix.is_finite) codec::low_rank::multiply_transposed(matrix.shape, bucket->m(matrix), p, bucket->q(matrix));
  }
  const at::Tensor own = bucket->residual != nullptr ? bucket->second.clone() : at::Tensor();
  const TensorFuture summed = all_reduce(twin(), bucket->second)->getFuture();  // and it begins
  for (const Bucket::Plain& one : bucket->plain) {
    std::copy_n(floats_of(bucket->first).begin() + static_cast<ptrdiff_t>(one.at), one.slot.count,
                bucket->gradient(one.slot).begin());
  }
  if (own.defined()) {
    for (const Bucket::Matrix& matrix : bucket->matrices) {
      if (!matrix.is_finite) continue;
      codec::low_rank::subtract(matrix.shape, bucket->p(matrix),
                                floats_of(own).subspan(matrix.q_at, bucket->q(matrix).size()), bucket->m(matrix));
    }
  }
  summed->addCallback([self = shared_from_this(), bucket](c10::ivalue::Future& over) {
    if (over.hasError()) return self->fail(*bucket, over.exception_ptr());
    try {
      self->end(*bucket);
      bucket->averaged->markCompleted(bucket->buffer);
    } catch (...) {
      self->fail(*bucket, std::current_exception());
    }
  });
}

// Residuals are to be had again before anybody learns of the failure.
void PowerSgd::fail(Bucket& bucket, const std::exception_ptr& error) {
  bucket.give_up();
  bucket.averaged->setError(error);
}

void PowerSgd::end(Bucket& bucket) {
  const float share = static_cast<float>(1.0 / context_.group->getSize());
  for (const Bucket::Matrix& matrix : bucket.matrices) {
    const std::span<float> q = bucket.q(matrix), average = bucket.gradient(matrix.slot);
    if (matrix.is_finite && codec::low_rank::are_finite(q)) {
      codec::low_rank::expand(matrix.shape, bucket.p(matrix), q, share, average);
      keep_directions(matrix.number, q);
    } else {
      std::fill(average.begin(), average.end(), std::numeric_limits<float>::quiet_NaN());
      bucket.keep_again(matrix.slot);
    }
  }
  if (bucket.residual == nullptr) return;
  const std::unique_lock lock = context_.residuals->lock();
  bucket.use->succeed();
}

void PowerSgd::keep_directions(size_t number, std::span<const float> sums) {
  const std::lock_guard lock(mutex_);
  Parameter& parameter = parameters_[number];
  if (std::all_of(sums.begin(), sums.end(), [](float value) { return value == 0; })) return;
  parameter.directions.assign(sums.begin(), sums.end());
  const size_t rank = parameter.shape.rank;
  const std::vector<size_t> dependent = codec::low_rank::orthonormalise(parameter.directions, rank);
  for (const size_t column : dependent) {
    codec::low_rank::fill_random(parameter.directions, rank, column,
                                 settings_.seed + parameter.steps * 0x10001 + number);
  }
  if (!dependent.empty()) codec::low_rank::orthonormalise(parameter.directions, rank);
}

std::vector<float> PowerSgd::first_directions(size_t number) const {
  const Shape& shape = parameters_[number].shape;
  std::vector<float> directions(shape.columns * shape.rank);
  for (size_t column = 0; column < shape.rank; ++column) {
    codec::low_rank::fill_random(directions, shape.rank, column, settings_.seed + number);
  }
  codec::low_rank::orthonormalise(directions, shape.rank);
  return directions;
}

GradientScheme::State PowerSgd::state() {
  const std::lock_guard lock(mutex_);
  State state = {{kDirections, {}}, {kSteps, {}}};
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    const std::string& name = context_.residuals->parameters()[i].name;
    if (parameter.steps > 0)
      state[kSteps].emplace(name, at::scalar_tensor(static_cast<int64_t>(parameter.steps), at::kLong));
    if (parameter.directions.empty()) continue;
    const auto columns = static_cast<int64_t>(parameter.shape.columns),
               rank = static_cast<int64_t>(parameter.shape.rank);
    at::Tensor directions = at::empty({columns, rank}, at::TensorOptions().dtype(at::kFloat));
    std::copy(parameter.directions.begin(), parameter.directions.end(), floats_of(directions).begin());
    state[kDirections].emplace(name, std::move(directions));
  }
  return state;
}

void PowerSgd::set_state(const State& state) {
  const std::lock_guard lock(mutex_);
  std::vector<Parameter> restored = parameters_;
  for (Parameter& parameter : restored) {
    parameter.directions.clear();
    parameter.steps = 0;
  }
  for (const auto& [kind, values] : state) {
    if (kind != kDirections && kind != kSteps) {
      throw Error(ErrorCode::invalid_input, name() + " keeps no '" + kind + "'");
    }
    for (const auto& [parameter_name, tensor] : values) {
      Parameter& parameter = restored[context_.residuals->number_of(parameter_name)];
      const size_t expected = kind == kSteps ? 1 : parameter.shape.columns * parameter.shape.rank;
      if (static_cast<size_t>(tensor.numel()) != expected) {
        throw Error(ErrorCode::invalid_input, "the " + kind + " of '" + parameter_name + "' are " +
                                                  std::to_string(tensor.numel()) + " values instead of " +
                                                  std::to_string(expected));
      }
      if (kind == kSteps) {
        parameter.steps = static_cast<uint64_t>(std::max<int64_t>(0, tensor.item<int64_t>()));
      } else {
        const at::Tensor values_here = plain(tensor.to(at::kFloat));
        if (!at::isfinite(values_here).all().item<bool>()) {
          throw Error(ErrorCode::invalid_input,
                      "the " + kind + " of '" + parameter_name + "' have values that are not finite");
        }
        parameter.directions.assign(floats_of(values_here).begin(), floats_of(values_here).end());
      }
    }
  }
  parameters_ = std::move(restored);
}

}  // namespace banyan::pytorch
