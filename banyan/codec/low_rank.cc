#include "banyan/codec/low_rank.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "banyan/base/check.h"
#include "banyan/codec/codec_kernels.h"

namespace banyan::codec::low_rank {
namespace {

using internal::LowRankKernels;
using internal::LowRankPart;

// Rows of M are taken so many values at a time, for all panels of columns of P and Q: the second finds them in a cache.
constexpr size_t kCacheValues = 16 << 10;
// Of a column's length: what is left of it beyond the columns before, if less, is rounding.
constexpr double kDependent = 1e-6;

// A part of M, by where its rows and its columns of P and Q begin.
struct Part {
  LowRankPart size;
  size_t m, p, q_rows;
  const LowRankKernels& kernels;
  size_t first;  // column of P
};

// Calls use(part) for all of M, by rows and then by columns of P.
template <typename Use>
void for_parts(const Shape& shape, const Use& use) {
  // As many rows as fit a cache, in fours.
  const size_t at_once = std::max<size_t>(4, kCacheValues / std::max<size_t>(shape.columns, 1) / 4 * 4);
  for (size_t row = 0; row < shape.rows; row += at_once) {
    for (size_t first = 0; first < shape.rank; first += internal::kLowRankPanel) {
      const size_t count = std::min(internal::kLowRankPanel, shape.rank - first);
      use(Part{.size = {.rows = std::min(at_once, shape.rows - row), .columns = shape.columns, .stride = shape.rank},
               .m = row * shape.columns,
               .p = row * shape.rank + first,
               .q_rows = first * shape.columns,
               .kernels = internal::active_kernels().low_rank[count - 1],
               .first = first});
    }
  }
}

void expect(const Shape& shape, size_t m, size_t p, size_t q) {
  CHECK(m == shape.rows * shape.columns && p == shape.rows * shape.rank && q == shape.columns * shape.rank)
      << shape.rows << " x " << shape.columns << ", rank " << shape.rank << ": " << m << ", " << p << ", " << q;
}

// Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014: its mixing function.
uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

}  // namespace

std::vector<float> transposed(std::span<const float> matrix, size_t rank) {
  CHECK(rank > 0);
  const size_t rows = matrix.size() / rank;
  std::vector<float> columns(matrix.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t k = 0; k < rank; ++k) columns[k * rows + i] = matrix[i * rank + k];
  }
  return columns;
}

void multiply(const Shape& shape, std::span<const float> m, std::span<const float> q_rows, std::span<float> p) {
  expect(shape, m.size(), p.size(), q_rows.size());
  for_parts(shape,
            [&](const Part& part) { part.kernels.multiply(part.size, &m[part.m], &q_rows[part.q_rows], &p[part.p]); });
}

void multiply_transposed(const Shape& shape, std::span<const float> m, std::span<const float> p, std::span<float> q) {
  expect(shape, m.size(), p.size(), q.size());
  // Sums are kept by columns of Q, as the kernels read and write them, and turned at the end.
  std::vector<float> q_rows(q.size());
  for_parts(shape, [&](const Part& part) {
    part.kernels.add_transposed(part.size, &m[part.m], &p[part.p], &q_rows[part.q_rows]);
  });
  for (size_t j = 0; j < shape.columns; ++j) {
    for (size_t k = 0; k < shape.rank; ++k) q[j * shape.rank + k] = q_rows[k * shape.columns + j];
  }
}

void expand(const Shape& shape, std::span<const float> p, std::span<const float> q, float scale, std::span<float> m) {
  expect(shape, m.size(), p.size(), q.size());
  const std::vector<float> q_rows = transposed(q, shape.rank);
  for_parts(shape, [&](const Part& part) {
    // The first panel writes M, later ones add to it.
    part.kernels.expand[part.first == 0 ? 0 : 1](part.size, &p[part.p], &q_rows[part.q_rows], scale, &m[part.m]);
  });
}

void subtract(const Shape& shape, std::span<const float> p, std::span<const float> q, std::span<float> m) {
  expect(shape, m.size(), p.size(), q.size());
  const std::vector<float> q_rows = transposed(q, shape.rank);
  for_parts(shape, [&](const Part& part) {
    part.kernels.expand[1](part.size, &p[part.p], &q_rows[part.q_rows], -1, &m[part.m]);
  });
}

void add(std::span<const float> left, std::span<const float> right, std::span<float> sums) {
  CHECK(left.size() == sums.size() && right.size() == sums.size());
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = left[i] + right[i];
}

std::vector<size_t> orthonormalise(std::span<float> matrix, size_t rank) {
  const size_t rows = matrix.size() / rank;
  // float64 throughout, and sums in a fixed order: the same bits everywhere.
  std::vector<double> columns(matrix.size());  // one after the other
  for (size_t i = 0; i < rows; ++i) {
    for (size_t k = 0; k < rank; ++k) columns[k * rows + i] = static_cast<double>(matrix[i * rank + k]);
  }
  const auto product = [&](size_t one, size_t other) {
    double sum = 0;
    for (size_t i = 0; i < rows; ++i) sum += columns[one * rows + i] * columns[other * rows + i];
    return sum;
  };
  std::vector<size_t> dependent;
  for (size_t k = 0; k < rank; ++k) {
    const double length = std::sqrt(product(k, k));
    // Gram-Schmidt twice: once leaves rounding of the size of what was taken away.
    for (int time = 0; time < 2; ++time) {
      for (size_t before = 0; before < k; ++before) {
        const double share = product(before, k);
        for (size_t i = 0; i < rows; ++i) columns[k * rows + i] -= share * columns[before * rows + i];
      }
    }
    // A column of which hardly anything is left depends on those before it; dividing by that would blow rounding up.
    const double left = std::sqrt(product(k, k));
    const bool is_dependent = !(left > kDependent * length);
    if (is_dependent) dependent.push_back(k);
    for (size_t i = 0; i < rows; ++i) {
      double& value = columns[k * rows + i];
      value = is_dependent ? 0 : value / left;
      matrix[i * rank + k] = static_cast<float>(value);
    }
  }
  return dependent;
}

void fill_random(std::span<float> matrix, size_t rank, size_t column, uint64_t seed) {
  const uint64_t start = mixed(mixed(seed + 0x9e3779b97f4a7c15U) + column);
  for (size_t i = 0; i < matrix.size() / rank; ++i) {
    // Twelve uniform numbers have a sum of mean 6 and variance 1.
    int64_t sum = 0;
    for (uint64_t j = 0; j < 6; ++j) {  // two of 32 bits from each
      const uint64_t bits = mixed(start + 0x9e3779b97f4a7c15U * (6 * i + j + 1));
      sum += static_cast<int64_t>(bits >> 32) + static_cast<int64_t>(bits & 0xffffffffU);
    }
    matrix[i * rank + column] = static_cast<float>(static_cast<double>(sum) * 0x1p-32 - 6);
  }
}

bool are_finite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000;
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return (std::bit_cast<uint32_t>(value) & kExponent) != kExponent; });
}

}  // namespace banyan::codec::low_rank
