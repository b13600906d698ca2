#include "banyan/codec/low_rank.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "banyan/base/check.h"

namespace banyan::codec::low_rank {
namespace {

// Columns of P and Q are taken so many at a time, rows of M, too: what is loaded once is used four times.
constexpr size_t kPanel = 8, kRowsAtOnce = 4;
// Of a column's length: what is left of it beyond the columns before, if less, is rounding.
constexpr double kDependent = 1e-6;

template <size_t kColumns, size_t kRows>
void multiply_rows(const Shape& shape, const float* m, const float* q, float* p) {
  float sums[kRows][kColumns] = {};
  for (size_t j = 0; j < shape.columns; ++j) {
    for (size_t i = 0; i < kRows; ++i) {
      const float value = m[i * shape.columns + j];
      for (size_t k = 0; k < kColumns; ++k) sums[i][k] += value * q[j * shape.rank + k];
    }
  }
  for (size_t i = 0; i < kRows; ++i) std::copy_n(sums[i], kColumns, p + i * shape.rank);
}

template <size_t kColumns, size_t kRows>
void multiply_rows_transposed(const Shape& shape, const float* m, const float* p, float* q) {
  float of_rows[kRows][kColumns];
  for (size_t i = 0; i < kRows; ++i) std::copy_n(p + i * shape.rank, kColumns, of_rows[i]);
  for (size_t j = 0; j < shape.columns; ++j) {
    float sums[kColumns];
    std::copy_n(q + j * shape.rank, kColumns, sums);
    for (size_t i = 0; i < kRows; ++i) {
      const float value = m[i * shape.columns + j];
      for (size_t k = 0; k < kColumns; ++k) sums[k] += value * of_rows[i][k];
    }
    std::copy_n(sums, kColumns, q + j * shape.rank);
  }
}

// Calls it with a number of columns that the compiler knows, for each panel, at its first column.
template <template <size_t> class Body, typename... Arguments>
void for_panels(size_t rank, const Arguments&... arguments) {
  for (size_t first = 0; first < rank; first += kPanel) {
    switch (std::min(kPanel, rank - first)) {
      case 1:
        Body<1>::run(first, arguments...);
        break;
      case 2:
        Body<2>::run(first, arguments...);
        break;
      case 3:
        Body<3>::run(first, arguments...);
        break;
      case 4:
        Body<4>::run(first, arguments...);
        break;
      case 5:
        Body<5>::run(first, arguments...);
        break;
      case 6:
        Body<6>::run(first, arguments...);
        break;
      case 7:
        Body<7>::run(first, arguments...);
        break;
      default:
        Body<8>::run(first, arguments...);
    }
  }
}

template <size_t kColumns>
struct Multiply {
  static void run(size_t first, const Shape& shape, const float* m, const float* q, float* p) {
    size_t i = 0;
    for (; i + kRowsAtOnce <= shape.rows; i += kRowsAtOnce) {
      multiply_rows<kColumns, kRowsAtOnce>(shape, m + i * shape.columns, q + first, p + i * shape.rank + first);
    }
    for (; i < shape.rows; ++i) {
      multiply_rows<kColumns, 1>(shape, m + i * shape.columns, q + first, p + i * shape.rank + first);
    }
  }
};

template <size_t kColumns>
struct MultiplyTransposed {
  static void run(size_t first, const Shape& shape, const float* m, const float* p, float* q) {
    size_t i = 0;
    for (; i + kRowsAtOnce <= shape.rows; i += kRowsAtOnce) {
      multiply_rows_transposed<kColumns, kRowsAtOnce>(shape, m + i * shape.columns, p + i * shape.rank + first,
                                                      q + first);
    }
    for (; i < shape.rows; ++i) {
      multiply_rows_transposed<kColumns, 1>(shape, m + i * shape.columns, p + i * shape.rank + first, q + first);
    }
  }
};

std::vector<float> transposed(const Shape& shape, std::span<const float> q) {
  std::vector<float> rows(q.size());
  for (size_t j = 0; j < shape.columns; ++j) {
    for (size_t k = 0; k < shape.rank; ++k) rows[k * shape.columns + j] = q[j * shape.rank + k];
  }
  return rows;
}

// sums[j] = the product of a row of P and row j of Q, of columns first to first + kColumns; added to what is there.
template <size_t kColumns>
struct AddProducts {
  static void run(size_t first, const Shape& shape, const float* p, const float* q_rows, float* sums) {
    float of_row[kColumns];
    std::copy_n(p + first, kColumns, of_row);
    const float* const from = q_rows + first * shape.columns;
    for (size_t j = 0; j < shape.columns; ++j) {
      float sum = sums[j];
      for (size_t k = 0; k < kColumns; ++k) sum += of_row[k] * from[k * shape.columns + j];
      sums[j] = sum;
    }
  }
};

// Calls use(i, row i of p q^T) for each row.
template <typename Use>
void for_rows(const Shape& shape, std::span<const float> p, std::span<const float> q, const Use& use) {
  CHECK(p.size() == shape.rows * shape.rank && q.size() == shape.columns * shape.rank);
  const std::vector<float> q_rows = transposed(shape, q);
  std::vector<float> row(shape.columns);
  for (size_t i = 0; i < shape.rows; ++i) {
    std::fill(row.begin(), row.end(), 0.0F);
    for_panels<AddProducts>(shape.rank, shape, p.data() + i * shape.rank, q_rows.data(), row.data());
    use(i, row);
  }
}

// Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014: its mixing function.
uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

}  // namespace

void multiply(const Shape& shape, std::span<const float> m, std::span<const float> q, std::span<float> p) {
  CHECK(m.size() == shape.rows * shape.columns && q.size() == shape.columns * shape.rank &&
        p.size() == shape.rows * shape.rank);
  for_panels<Multiply>(shape.rank, shape, m.data(), q.data(), p.data());
}

void multiply_transposed(const Shape& shape, std::span<const float> m, std::span<const float> p, std::span<float> q) {
  CHECK(m.size() == shape.rows * shape.columns && q.size() == shape.columns * shape.rank &&
        p.size() == shape.rows * shape.rank);
  std::fill(q.begin(), q.end(), 0.0F);
  for_panels<MultiplyTransposed>(shape.rank, shape, m.data(), p.data(), q.data());
}

void expand(const Shape& shape, std::span<const float> p, std::span<const float> q, float scale, std::span<float> m) {
  CHECK(m.size() == shape.rows * shape.columns);
  for_rows(shape, p, q, [&](size_t i, const std::vector<float>& row) {
    float* const to = m.data() + i * shape.columns;
    for (size_t j = 0; j < row.size(); ++j) to[j] = row[j] * scale;
  });
}

void subtract(const Shape& shape, std::span<const float> p, std::span<const float> q, std::span<float> m) {
  CHECK(m.size() == shape.rows * shape.columns);
  for_rows(shape, p, q, [&](size_t i, const std::vector<float>& row) {
    float* const from = m.data() + i * shape.columns;
    for (size_t j = 0; j < row.size(); ++j) from[j] -= row[j];
  });
}

void add(std::span<const float> left, std::span<const float> right, std::span<float> sums) {
  CHECK(left.size() == sums.size() && right.size() == sums.size());
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = left[i] + right[i];
}

std::vector<size_t> orthonormalise(std::span<float> matrix, size_t rank) {
  const size_t rows = matrix.size() / rank;
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
    for (int time = 0; time < 2; ++time) {
      for (size_t before = 0; before < k; ++before) {
        const double share = product(before, k);
        for (size_t i = 0; i < rows; ++i) columns[k * rows + i] -= share * columns[before * rows + i];
      }
    }
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
