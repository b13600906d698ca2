#include "banyan/sparse/selection.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/hash.h"
#include "banyan/element/isa.h"
#include "banyan/sparse/selection_kernels.h"

namespace banyan::sparse {
namespace {

constexpr size_t kBins = 1 << 16;
constexpr uint32_t kInfinite = 0x7f800000;
// Below so many values a sample is not worth it.
constexpr size_t kFewValues = 10'000;

uint32_t magnitude(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffff; }

const internal::Kernels& kernels() {
#ifdef BANYAN_X86_KERNELS
  const element::Isa isa = element::active_isa();
  if (isa == element::Isa::avx512) return internal::avx512_kernels();
  if (isa == element::Isa::avx2) return internal::avx2_kernels();
#endif
  return internal::portable_kernels();
}

// Where the largest values end: all above `least` are among them, and of those that are equal to it so many.
struct End {
  uint32_t least = 0;
  size_t ties = 0;
};

// The bin in which the `wanted` largest end, and how many of it are wanted. Bin 0 where there are not as many.
struct Bin {
  uint32_t index;
  size_t wanted;
};
Bin last_bin(std::span<const uint32_t> counts, size_t wanted) {
  for (auto bin = static_cast<uint32_t>(counts.size() - 1); bin > 0; --bin) {
    if (counts[bin] >= wanted) return {bin, wanted};
    wanted -= counts[bin];
  }
  return {0, wanted};
}

// Of the upper 16 bits. Two tables, since a bin that was just counted is not to be counted again at once.
std::vector<uint32_t> upper_histogram(std::span<const float> values) {
  std::vector<uint32_t> counts(kBins / 2), others(kBins / 2);
  size_t i = 0;
  for (; i + 2 <= values.size(); i += 2) {
    ++counts[magnitude(values[i]) >> 16];
    ++others[magnitude(values[i + 1]) >> 16];
  }
  if (i < values.size()) ++counts[magnitude(values[i]) >> 16];
  std::transform(counts.begin(), counts.end(), others.begin(), counts.begin(), std::plus<>());
  return counts;
}

End end_of_largest(std::span<const float> values, size_t most) {
  // 1. The bin of the upper bits in which the largest end.
  const Bin high = last_bin(upper_histogram(values), most);
  // 2. Within that bin, where they end by the lower bits.
  std::vector<uint32_t> lower(kBins);
  for (const float value : values) {
    const uint32_t bits = magnitude(value);
    if (bits >> 16 == high.index) ++lower[bits & (kBins - 1)];
  }
  const Bin low = last_bin(lower, high.wanted);
  // Zeros are never chosen, so there are no ties at 0.
  const uint32_t least = high.index << 16 | low.index;
  return {.least = least, .ties = least == 0 ? 0 : low.wanted};
}

float sum_at(std::span<const float> values, std::span<const float> residual, size_t i) {
  return residual.empty() ? values[i] : values[i] + residual[i];
}

// Magnitudes of `count` sums, one from each of as many equal stretches, at a place in it that is drawn: data that
// repeats itself looks like any other.
std::vector<uint32_t> sample_of(std::span<const float> values, std::span<const float> residual, size_t count) {
  std::vector<uint32_t> sample(count);
  const size_t stretch = values.size() / count;
  for (size_t i = 0; i < count; ++i) {
    const auto place = static_cast<size_t>((mix(i) >> 32) * stretch >> 32);
    sample[i] = magnitude(sum_at(values, residual, i * stretch + place));
  }
  return sample;
}

// That of the `rank`-th largest, from 1.
uint32_t magnitude_of_rank(std::vector<uint32_t>& sample, size_t rank) {
  const auto place = sample.begin() + static_cast<std::ptrdiff_t>(std::min(rank, sample.size()) - 1);
  std::nth_element(sample.begin(), place, sample.end(), std::greater<>());
  return *place;
}

// All sums of at least this magnitude; the residual has all sums that are finite.
void filter(std::span<const float> values, std::span<float> residual, uint32_t least, RowList& found) {
  // Piece by piece, so that what a kernel writes is still in a cache when it is appended.
  constexpr size_t kPiece = 8192;
  const internal::Kernels& build = kernels();
  const auto rows = std::make_unique_for_overwrite<uint32_t[]>(kPiece + internal::kFilterSlack);
  const auto sums = std::make_unique_for_overwrite<float[]>(kPiece + internal::kFilterSlack);
  found.rows.clear();
  found.values.clear();
  for (size_t first = 0; first < values.size(); first += kPiece) {
    const size_t count = build.filter({.values = values.data() + first,
                                       .residual = residual.empty() ? nullptr : residual.data() + first,
                                       .count = std::min(kPiece, values.size() - first),
                                       .first = static_cast<uint32_t>(first),
                                       .least = std::max(1U, least),
                                       .rows = rows.get(),
                                       .sums = sums.get()});
    found.rows.insert(found.rows.end(), rows.get(), rows.get() + count);
    found.values.insert(found.values.end(), sums.get(), sums.get() + count);
  }
}

// Some more than `most` values reach it, unless one is very unlucky: six standard deviations.
uint32_t cautious_threshold(std::span<const float> values, std::span<const float> residual, size_t most) {
  if (values.size() < kFewValues) return 1;
  std::vector<uint32_t> sample = sample_of(values, residual, std::max(kFewValues / 4, values.size() / 256));
  // The rank in the sample behind which `most` values end on average, and six standard deviations more.
  const double expected =
      static_cast<double>(most) * static_cast<double>(sample.size()) / static_cast<double>(values.size());
  const double rank = expected + 6 * std::sqrt(expected) + 8;
  if (rank > 0.5 * static_cast<double>(sample.size())) return 1;
  return std::max(1U, magnitude_of_rank(sample, static_cast<size_t>(rank)));
}

// The same by all sums, where `residual` has those that are finite and `found` the others.
void filter_again(std::span<const float> values, std::span<float> residual, size_t most, RowList& found) {
  // The residual lacks sums that are not finite. They take the places there while the threshold is looked for, and the
  // residual's own values come back afterwards.
  const RowList odd = found;
  std::vector<float> kept;
  for (size_t i = 0; i < odd.rows.size(); ++i) {
    if (std::isfinite(odd.values[i]) || residual.empty()) continue;
    kept.push_back(std::exchange(residual[odd.rows[i]], odd.values[i]));
  }
  // A histogram of all sums tells the bin in which the largest end, for certain.
  const std::span<const float> sums = residual.empty() ? values : residual;
  const Bin bin = last_bin(upper_histogram(sums), most);
  filter(sums, {}, bin.index << 16, found);
  auto next = kept.begin();
  for (size_t i = 0; i < odd.rows.size(); ++i) {
    if (std::isfinite(odd.values[i]) || residual.empty()) continue;
    residual[odd.rows[i]] = *next++;
  }
}

void keep_largest(RowList& list, size_t most) {
  if (list.rows.size() <= most) return;
  End end = end_of_largest(list.values, most);
  size_t kept = 0;
  for (size_t i = 0; i < list.rows.size(); ++i) {
    const uint32_t bits = magnitude(list.values[i]);
    // No branch: an entry that is not kept is written over by the next one. Ties of the least index are kept.
    const bool is_tie = bits == end.least && end.ties > 0;
    list.rows[kept] = list.rows[i];
    list.values[kept] = list.values[i];
    kept += static_cast<size_t>(bits > end.least || is_tie);
    end.ties -= static_cast<size_t>(is_tie);
  }
  list.rows.resize(kept);
  list.values.resize(kept);
}

void leave_nothing(const RowList& chosen, std::span<float> residual) {
  if (residual.empty()) return;
  for (size_t i = 0; i < chosen.rows.size(); ++i) {
    // A sum that is not finite did not get into the residual (filter).
    if (std::isfinite(chosen.values[i])) residual[chosen.rows[i]] = 0;
  }
}

void expect_fitting(std::span<const float> values, std::span<const float> residual) {
  CHECK(residual.empty() || residual.size() == values.size()) << residual.size() << " " << values.size();
  CHECK(values.size() <= UINT32_MAX) << values.size();
}

}  // namespace

void select_largest(std::span<const float> values, std::span<float> residual, size_t most, RowList& chosen) {
  expect_fitting(values, residual);
  // One pass by a guess from a sample. If too few reach it, a second pass by all sums: the result never depends on the
  // guess.
  const uint32_t threshold = cautious_threshold(values, residual, most);
  filter(values, residual, threshold, chosen);
  if (chosen.rows.size() < most && threshold > 1) filter_again(values, residual, most, chosen);
  keep_largest(chosen, most);
  leave_nothing(chosen, residual);
}

float sampled_threshold(std::span<const float> values, std::span<const float> residual, size_t most) {
  expect_fitting(values, residual);
  if (values.empty()) return std::bit_cast<float>(1U);
  // One in a hundred. Few values are all looked at.
  const size_t count = values.size() < kFewValues ? values.size() : values.size() / 100;
  std::vector<uint32_t> sample = sample_of(values, residual, count);
  const double rank =
      std::round(static_cast<double>(most) * static_cast<double>(count) / static_cast<double>(values.size()));
  const uint32_t bits = magnitude_of_rank(sample, std::max<size_t>(1, static_cast<size_t>(rank)));
  return std::bit_cast<float>(std::clamp(bits, 1U, kInfinite));
}

void select_above(std::span<const float> values, std::span<float> residual, float threshold, RowList& chosen) {
  expect_fitting(values, residual);
  filter(values, residual, std::min(magnitude(threshold), kInfinite), chosen);
  leave_nothing(chosen, residual);
}

}  // namespace banyan::sparse
