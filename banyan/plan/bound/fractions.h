// Floating-point answers of linear programs, taken for exact numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace banyan::plan {

struct Integers {
  std::vector<int64_t> values;
  int64_t denominator = 1;
};

// Nothing when the values are no fractions with a small common denominator.
std::optional<Integers> as_fractions(const std::vector<double>& values);

// Each in parts of 2^-20 of the largest.
std::vector<int64_t> in_parts_of_the_largest(const std::vector<double>& values);

}  // namespace banyan::plan
