#include "banyan/run/trial/known_data.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/element/reduce.h"

namespace banyan::run {
namespace {

constexpr uint32_t kPeriod = 65'521;  // the largest prime below 2^16
constexpr uint32_t kMostRanks = 1 << 15;
constexpr int64_t kMostSample = 500;  // more would say no more about where a sample belongs
constexpr uint32_t kMostLive = 8;     // 2^-8 and 2^8 are exact in float16
constexpr uint32_t kMostBits = 52;    // of a bitwise sample, so that a report can say it as a double
constexpr size_t kBlock = 512;        // elements that are encoded at a time

// Bits of a product are mixed well at the top.
uint32_t mixed(uint32_t rank, uint32_t position) {
  uint32_t bits = (rank + 1) * 0x9e3779b1u ^ position * 0x85ebca6bu;
  bits ^= bits >> 15;
  bits *= 0x2c1b3c6du;
  return bits;
}

bool is_unsigned(element::DataType type) {
  return type >= element::DataType::uint8 && type <= element::DataType::uint64;
}

// Up to here, whole numbers are exact; of integers, samples of a sum may lie, though sums may not.
int64_t most_exact(element::DataType type) {
  switch (type) {
    case element::DataType::int8:
      return 127;
    case element::DataType::uint8:
      return 255;
    case element::DataType::bfloat16:
      return 1 << 8;
    case element::DataType::float16:
      return 1 << 11;
    case element::DataType::float32:
      return 1 << 24;
    default:
      return int64_t{1} << 32;
  }
}

bool adds(element::ReduceOp op) {
  return op == element::ReduceOp::sum || op == element::ReduceOp::avg || op == element::ReduceOp::premul_sum;
}

// An integer modulo 2^64 as the type holds it.
int64_t wrapped(element::DataType type, int64_t value) {
  const auto spare = 64 - 8 * size_of(type);
  const uint64_t top = static_cast<uint64_t>(value) << spare;
  return is_unsigned(type) ? static_cast<int64_t>(top >> spare) : static_cast<int64_t>(top) >> spare;
}

// The lowest `width` bits, moved up by `by` < width places; those that leave at the top come in at the bottom.
uint64_t rotated(uint64_t bits, uint32_t width, uint64_t by) {
  if (by == 0) return bits;
  return (bits << by | bits >> (width - by)) & ((uint64_t{1} << width) - 1);
}

int64_t product(int64_t left, int64_t right) {
  return static_cast<int64_t>(static_cast<uint64_t>(left) * static_cast<uint64_t>(right));
}

}  // namespace

KnownData::KnownData(const Options& options) : options_(options), is_floating_(is_floating(options.reduction.type)) {
  if (options.ranks > most_ranks(options)) {
    throw Error(ErrorCode::unsupported, std::to_string(options.ranks) + " ranks are more than the " +
                                            std::to_string(most_ranks(options)) + " whose " +
                                            std::string(to_string(options.reduction.op)) + " is exact in " +
                                            std::string(to_string(options.reduction.type)));
  }
  if (options.reduces) expect_reducible(options.reduction.type, options.reduction.op);
  choose_range();
  if (options.reduces) reduce_noise();
}

KnownData::KnownData(const Collective& collective, const element::Reduction& reduction)
    : KnownData(Options{.ranks = static_cast<uint32_t>(collective.participants().size()),
                        .reduces = collective.reduces(),
                        .reduction = reduction}) {}

uint32_t KnownData::most_ranks(const Options& options) {
  const auto [type, op] = options.reduction;
  if (!options.reduces || !is_floating(type) || !adds(op)) return kMostRanks;
  const int64_t most = most_exact(type) / (op == element::ReduceOp::premul_sum ? 2 : 1);
  return static_cast<uint32_t>(std::min<int64_t>(most, kMostRanks));
}

void KnownData::choose_range() {
  const auto [type, op] = options_.reduction;
  int64_t most = most_exact(type);
  if (options_.reduces && adds(op) && is_floating_) {
    most /= int64_t{options_.ranks} * (op == element::ReduceOp::premul_sum ? 2 : 1);
  }
  if (!is_floating_) most /= 2;
  most = std::min(most, kMostSample);
  drifts_ = static_cast<uint64_t>(std::min<int64_t>(8, 1 + most / 2));
  if (combines_bits()) {
    bits_ = std::min(static_cast<uint32_t>(8 * size_of(type)), kMostBits) - 1;
    drifts_ = std::min<uint64_t>(drifts_, bits_);  // all rotations differ
    return;
  }
  most_ = most - static_cast<int64_t>(drifts_ - 1);
  least_ = is_unsigned(type) ? 0 : -most_;
  live_every_ = (options_.ranks + kMostLive - 1) / kMostLive;
}

KnownData::Value KnownData::noise(uint32_t rank, uint32_t position) const {
  if (combines_bits()) return {.whole = noise_bits(rank, position)};
  const uint32_t bits = mixed(rank, position);
  if (is_product() && is_floating_) {
    constexpr std::array<double, 4> kMagnitudes = {0.5, 1, 1, 2};
    const bool is_live = (rank + position) % live_every_ == 0;
    const double magnitude = is_live ? kMagnitudes[bits >> 29 & 3] : 1.0;
    return {.real = bits >> 31 == 0 ? magnitude : -magnitude};
  }
  const auto choices = static_cast<uint64_t>(most_ - least_ + 1);
  const int64_t chosen = least_ + static_cast<int64_t>(bits * choices >> 32);
  if (is_floating_) return {.real = static_cast<double>(chosen)};
  return {.whole = 2 * chosen + (is_product() ? 1 : 0)};
}

// A bit stands out, is 0 in band and 1 in bor, with a chance that is halved until it is at most one in `ranks`; in bxor
// the chance is a half.
int64_t KnownData::noise_bits(uint32_t rank, uint32_t position) const {
  const element::ReduceOp op = options_.reduction.op;
  uint64_t state = uint64_t{mixed(rank, position)} << 32 | mixed(position, rank);
  const auto next = [&state] {  // splitmix64
    uint64_t bits = state += 0x9e3779b97f4a7c15u;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    return bits ^ bits >> 31;
  };
  uint64_t outstanding = next();
  for (uint64_t most = 2; op != element::ReduceOp::bxor && most < options_.ranks; most *= 2) outstanding &= next();
  if (op == element::ReduceOp::band) outstanding = ~outstanding;
  const uint64_t bits = outstanding & ((uint64_t{1} << bits_) - 1);
  return static_cast<int64_t>(bits << 1 | (op == element::ReduceOp::band ? 1 : 0));
}

KnownData::Value KnownData::combined(Value left, Value right) const {
  const element::ReduceOp op = options_.reduction.op;
  if (is_floating_) {
    if (op == element::ReduceOp::min) return {.real = std::min(left.real, right.real)};
    if (op == element::ReduceOp::max) return {.real = std::max(left.real, right.real)};
    return {.real = op == element::ReduceOp::prod ? left.real * right.real : left.real + right.real};
  }
  if (op == element::ReduceOp::min) return {.whole = std::min(left.whole, right.whole)};
  if (op == element::ReduceOp::max) return {.whole = std::max(left.whole, right.whole)};
  if (op == element::ReduceOp::band) return {.whole = left.whole & right.whole};
  if (op == element::ReduceOp::bor) return {.whole = left.whole | right.whole};
  if (op == element::ReduceOp::bxor) return {.whole = left.whole ^ right.whole};
  return {.whole = op == element::ReduceOp::prod ? product(left.whole, right.whole) : left.whole + right.whole};
}

void KnownData::reduce_noise() {
  const bool scales = options_.reduction.op == element::ReduceOp::premul_sum;
  reduced_noise_.resize(kPeriod);
  for (uint32_t position = 0; position < kPeriod; ++position) {
    Value result = noise(0, position);
    for (uint32_t rank = 1; rank < options_.ranks; ++rank) {
      Value next = noise(rank, position);
      if (scales && is_floating_) next.real *= factor(rank);
      if (scales && !is_floating_) next.whole *= static_cast<int64_t>(factor(rank));
      result = combined(result, next);
    }
    reduced_noise_[position] = result;
  }
}

KnownData::Value KnownData::drifted(Value noise, uint64_t laps, int64_t summands) const {
  const auto drift = static_cast<int64_t>(laps % drifts_);
  if (combines_bits()) {  // what rotates all operands rotates the answer
    const auto bits = static_cast<uint64_t>(noise.whole);
    return {.whole = static_cast<int64_t>(rotated(bits >> 1, bits_, laps % drifts_) << 1 | (bits & 1))};
  }
  if (is_product()) {
    const bool flips = drift % 2 == 1 && summands % 2 == 1;
    if (is_floating_) return {.real = flips ? -noise.real : noise.real};
    return {.whole = flips ? product(noise.whole, -1) : noise.whole};
  }
  if (is_floating_) return {.real = noise.real + static_cast<double>(summands * drift)};
  return {.whole = noise.whole + 2 * summands * drift};
}

// As kernels do it: the sum in the type, the quotient of floats in float32 and then rounded to the type.
KnownData::Value KnownData::averaged(Value sum) const {
  const element::DataType type = options_.reduction.type;
  if (!is_floating_) return {.whole = wrapped(type, sum.whole) / int64_t{options_.ranks}};
  if (type == element::DataType::float64) return {.real = sum.real / options_.ranks};
  return {.real = static_cast<float>(sum.real) / static_cast<float>(options_.ranks)};
}

template <typename T>
void KnownData::encode_as(std::byte* into, std::span<const Value> values) const {
  for (size_t i = 0; i < values.size(); ++i) {
    // An integer is in the lower bytes, which come first.
    const T element = std::is_floating_point_v<T> ? static_cast<T>(values[i].real) : static_cast<T>(values[i].whole);
    std::memcpy(into + i * sizeof element, &element, sizeof element);
  }
}

void KnownData::encode(std::byte* into, std::span<const Value> values) const {
  const element::DataType type = options_.reduction.type;
  if (type == element::DataType::float16 || type == element::DataType::bfloat16) {
    std::array<float, kBlock> floats;
    CHECK(values.size() <= kBlock) << values.size();
    for (size_t i = 0; i < values.size(); ++i) floats[i] = static_cast<float>(values[i].real);
    return narrow(type, into, floats.data(), values.size());
  }
  if (type == element::DataType::float32) return encode_as<float>(into, values);
  if (type == element::DataType::float64) return encode_as<double>(into, values);
  if (size_of(type) == 1) return encode_as<uint8_t>(into, values);
  if (size_of(type) == 2) return encode_as<uint16_t>(into, values);
  if (size_of(type) == 4) return encode_as<uint32_t>(into, values);
  encode_as<uint64_t>(into, values);
}

// Writes value_at(position mod p, position / p) for every position from `begin` on.
template <typename Make>
void KnownData::write(std::span<std::byte> into, uint64_t begin, const Make& value_at) const {
  const size_t size = size_of(options_.reduction.type);
  uint64_t laps = begin / kPeriod;
  auto position = static_cast<uint32_t>(begin % kPeriod);
  std::array<Value, kBlock> values;
  for (size_t at = 0; at < into.size();) {
    const size_t count = std::min(kBlock, (into.size() - at) / size);
    for (size_t i = 0; i < count; ++i) {
      values[i] = value_at(position, laps);
      if (++position == kPeriod) position = 0, ++laps;
    }
    encode(into.data() + at, std::span(values).first(count));
    at += count * size;
  }
}

void KnownData::write_answers(std::span<std::byte> into, uint32_t owner, uint64_t begin) const {
  if (!options_.reduces) return write_samples(into, owner, begin);
  const element::ReduceOp op = options_.reduction.op;
  // How often the drift of a position was added or multiplied.
  int64_t summands = op == element::ReduceOp::min || op == element::ReduceOp::max ? 1 : options_.ranks;
  if (op == element::ReduceOp::premul_sum) summands += options_.ranks / 2;
  write(into, begin, [&](uint32_t position, uint64_t laps) {
    const Value value = drifted(reduced_noise_[position], laps, summands);
    return op == element::ReduceOp::avg ? averaged(value) : value;
  });
}

void KnownData::write_samples(std::span<std::byte> into, uint32_t rank, uint64_t begin) const {
  write(into, begin, [&](uint32_t position, uint64_t laps) { return drifted(noise(rank, position), laps, 1); });
}

void KnownData::fill(std::span<std::byte> into, uint32_t rank, uint64_t begin, uint64_t end) const {
  CHECK_EQ(into.size(), (end - begin) * size_of(options_.reduction.type));
  write_samples(into, rank, begin);
}

// Floats: an infinity that the op does not lose. Integers: an odd number where all answers are even, or one that is
// beyond the mean of several; and an even one, zero, where all are odd.
void KnownData::spoil(std::span<std::byte> into) const {
  const auto [type, op] = options_.reduction;
  const double infinity = std::numeric_limits<double>::infinity();
  const int64_t largest = is_unsigned(type) ? -1 : INT64_MAX >> (64 - 8 * size_of(type));
  const bool all_are_odd = is_product() || (combines_bits() && op == element::ReduceOp::band);
  Value value = {.whole = all_are_odd ? 0 : largest};
  if (is_floating_) value.real = op == element::ReduceOp::min ? -infinity : infinity;
  write(into, 0, [&](uint32_t, uint64_t) { return value; });
}

KnownData::Comparison KnownData::compare(std::span<const std::byte> got, uint32_t owner, uint64_t begin,
                                         uint64_t end) const {
  const element::DataType type = options_.reduction.type;
  const size_t size = size_of(type);
  CHECK_EQ(got.size(), (end - begin) * size);
  Comparison result;
  std::array<std::byte, kBlock * sizeof(uint64_t)> answers;
  for (size_t at = 0; at < got.size(); at += kBlock * size) {
    const std::span<const std::byte> block = got.subspan(at, std::min(kBlock * size, got.size() - at));
    write_answers(std::span(answers).first(block.size()), owner, begin + at / size);
    if (std::memcmp(block.data(), answers.data(), block.size()) == 0) continue;
    for (size_t i = 0; i < block.size(); i += size) {
      const std::byte* const one = block.data() + i;
      if (std::memcmp(one, answers.data() + i, size) == 0) continue;
      const double value = read_element(type, one), right = read_element(type, answers.data() + i);
      if (is_floating_ && value == right) continue;  // zeros of both signs
      if (result.wrong++ > 0) continue;
      result.first = begin + (at + i) / size;
      result.got = value;
      result.expected = right;
    }
  }
  return result;
}

}  // namespace banyan::run
