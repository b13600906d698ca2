#include "banyan/run/engine/sample_data.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan {
namespace {

constexpr uint32_t kPeriod = 65'521;  // the largest prime below 2^16
constexpr int32_t kSpoilt = -999'999'999;

// Bits of a product are mixed well at the top.
int32_t noise(uint32_t rank, uint32_t position) {
  uint32_t bits = (rank + 1) * 0x9e3779b1u ^ position * 0x85ebca6bu;
  bits ^= bits >> 15;
  bits *= 0x2c1b3c6du;
  return static_cast<int32_t>(bits >> 23) - 256;
}

int32_t drift(uint64_t position) { return static_cast<int32_t>(position / kPeriod % 8); }

template <typename Visit>
void with_type(DataType type, Visit visit) {
  switch (type) {
    case DataType::int32:
      return visit(int32_t{});
    case DataType::float32:
      return visit(float{});
    case DataType::float64:
      return visit(double{});
  }
  CHECK(false) << "data type " << static_cast<int>(type);
}

}  // namespace

SampleData::SampleData(const Collective& collective, const Reduction& reduction)
    : reduction_(reduction),
      reduces_(collective.reduces()),
      ranks_(static_cast<uint32_t>(collective.participants().size())) {
  if (ranks_ > kMaxRanks) {
    throw Error(ErrorCode::unsupported, std::to_string(ranks_) + " ranks are more than the " +
                                            std::to_string(kMaxRanks) + " whose sums are exact in every type");
  }
  if (!reduces_) return;
  reduced_noise_.resize(kPeriod);
  for (uint32_t position = 0; position < kPeriod; ++position) {
    int32_t result = noise(0, position);
    for (uint32_t rank = 1; rank < ranks_; ++rank) {
      const int32_t next = noise(rank, position);
      result = reduction.op == ReduceOp::sum   ? result + next
               : reduction.op == ReduceOp::min ? std::min(result, next)
                                               : std::max(result, next);
    }
    reduced_noise_[position] = result;
  }
}

int32_t SampleData::sample(uint32_t rank, uint64_t position) const {
  return noise(rank, static_cast<uint32_t>(position % kPeriod)) + drift(position);
}

int32_t SampleData::expected(uint32_t owner, uint64_t position) const {
  if (!reduces_) return sample(owner, position);
  const int32_t times = reduction_.op == ReduceOp::sum ? static_cast<int32_t>(ranks_) : 1;
  return reduced_noise_[position % kPeriod] + times * drift(position);
}

void SampleData::fill(std::span<std::byte> into, uint32_t rank, uint64_t begin, uint64_t end) const {
  CHECK_EQ(into.size(), (end - begin) * size_of(reduction_.type));
  with_type(reduction_.type, [&](auto zero) {
    for (uint64_t i = begin; i < end; ++i) {
      const auto value = static_cast<decltype(zero)>(sample(rank, i));
      std::memcpy(into.data() + (i - begin) * sizeof value, &value, sizeof value);
    }
  });
}

void SampleData::spoil(std::span<std::byte> into) const {
  with_type(reduction_.type, [&](auto zero) {
    const auto value = static_cast<decltype(zero)>(kSpoilt);
    for (size_t at = 0; at < into.size(); at += sizeof value) std::memcpy(into.data() + at, &value, sizeof value);
  });
}

SampleData::Comparison SampleData::compare(std::span<const std::byte> got, uint32_t owner, uint64_t begin,
                                           uint64_t end) const {
  CHECK_EQ(got.size(), (end - begin) * size_of(reduction_.type));
  Comparison result;
  with_type(reduction_.type, [&](auto zero) {
    for (uint64_t i = begin; i < end; ++i) {
      decltype(zero) value;
      std::memcpy(&value, got.data() + (i - begin) * sizeof value, sizeof value);
      const auto right = static_cast<decltype(zero)>(expected(owner, i));
      if (value == right) continue;
      if (result.wrong++ == 0) {
        result.first = i;
        result.got = static_cast<double>(value);
        result.expected = static_cast<double>(right);
      }
    }
  });
  return result;
}

}  // namespace banyan
