#include "banyan/sparse/selection.h"

#include <bit>
#include <cmath>

#include "banyan/base/check.h"

namespace banyan::sparse {
namespace {

constexpr size_t kBins = 1 << 16;

uint32_t magnitude(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffff; }

// The bin in which the `wanted` largest end, and how many of it are wanted. Bin 0 where there are not as many.
struct Bin {
  uint32_t index;
  size_t wanted;
};
Bin last_bin(const std::vector<uint32_t>& counts, size_t wanted) {
  for (auto bin = static_cast<uint32_t>(counts.size() - 1); bin > 0; --bin) {
    if (counts[bin] >= wanted) return {bin, wanted};
    wanted -= counts[bin];
  }
  return {0, wanted};
}

}  // namespace

RowList select_largest(std::span<const float> values, std::span<float> residual, size_t most) {
  CHECK(residual.empty() || residual.size() == values.size()) << residual.size() << " " << values.size();
  CHECK(values.size() <= UINT32_MAX) << values.size();
  const auto sum_at = [&](size_t i) { return residual.empty() ? values[i] : values[i] + residual[i]; };

  std::vector<uint32_t> upper(kBins / 2), lower(kBins);
  for (size_t i = 0; i < values.size(); ++i) ++upper[magnitude(sum_at(i)) >> 16];
  const Bin high = last_bin(upper, most);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bits = magnitude(sum_at(i));
    if (bits >> 16 == high.index) ++lower[bits & (kBins - 1)];
  }
  const Bin low = last_bin(lower, high.wanted);
  const uint32_t threshold = high.index << 16 | low.index;
  size_t ties = threshold == 0 ? 0 : low.wanted;

  RowList chosen;
  for (size_t i = 0; i < values.size(); ++i) {
    const float sum = sum_at(i);
    const uint32_t bits = magnitude(sum);
    const bool is_chosen = bits > threshold || (bits == threshold && ties > 0);
    if (is_chosen) {
      if (bits == threshold) --ties;
      chosen.rows.push_back(static_cast<uint32_t>(i));
      chosen.values.push_back(sum);
    }
    if (residual.empty()) continue;
    if (std::isfinite(sum)) {
      residual[i] = is_chosen ? 0 : sum;
    } else if (!std::isfinite(residual[i])) {
      residual[i] = 0;
    }
  }
  return chosen;
}

}  // namespace banyan::sparse
