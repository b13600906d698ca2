#include "banyan/plan/bound/fractions.h"

#include <algorithm>
#include <cmath>

#include "banyan/plan/lp/linear_program.h"

namespace banyan::plan {
namespace {

// Numbers that are taken for fractions: the denominator of each and of all, and how near they must be.
constexpr int64_t kMostDenominator = 5'000;
constexpr int64_t kMostCommon = int64_t{1} << 30;
constexpr double kNear = 1e-6;
// Otherwise multipliers are rounded to multiples of this part of the largest.
constexpr double kFineness = 0x1p20;

}  // namespace

std::optional<Integers> as_fractions(const std::vector<double>& values) {
  Integers result;
  for (const double value : values) {
    // The common denominator grows by what this value lacks; a value that is whole by now asks for nothing more.
    const double scaled = value * static_cast<double>(result.denominator);
    if (std::abs(scaled) > 0x1p50) return std::nullopt;
    const Fraction near = nearest_fraction(scaled, kMostDenominator);
    if (std::abs(near.to_double() - scaled) > kNear * std::max(1.0, std::abs(scaled) * 1e-3)) return std::nullopt;
    if (near.denominator() * result.denominator > kMostCommon) return std::nullopt;
    result.denominator *= static_cast<int64_t>(near.denominator());
  }
  for (const double value : values) {
    result.values.push_back(std::llround(value * static_cast<double>(result.denominator)));
  }
  return result;
}

std::vector<int64_t> in_parts_of_the_largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  std::vector<int64_t> result;
  for (const double value : values) result.push_back(most == 0 ? 0 : std::llround(value / most * kFineness));
  return result;
}

}  // namespace banyan::plan
