#include "banyan/codec/low_rank.h"

#include <limits>

#include "banyan/element/test_kernels.h"
#include "banyan/testing/test.h"

namespace banyan::codec::low_rank {
namespace {

using Floats = std::vector<float>;

constexpr uint32_t kSeed = 20261126;
const Shape kShapes[] = {{1, 1, 1},  {7, 5, 2},   {4, 9, 3},    {33, 17, 4},
                         {5, 64, 5}, {40, 31, 8}, {26, 30, 11}, {19, 40, 17}};

Floats random_floats(size_t count, uint32_t salt) {
  std::mt19937 random(kSeed + salt);
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Element (i, j) of left * right^T, or with other strides of other products, in float64.
double product(const Floats& left, size_t left_at, size_t left_step, const Floats& right, size_t right_at,
               size_t right_step, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    sum += static_cast<double>(left[left_at + i * left_step]) * static_cast<double>(right[right_at + i * right_step]);
  }
  return sum;
}

TEST(LowRank, ProductsAreThoseOfTheDefinition) {
  for (const Shape& shape : kShapes) {
    const auto [r, c, k] = shape;
    const Floats m = random_floats(r * c, 1), p = random_floats(r * k, 2), q = random_floats(c * k, 3);
    Floats p_found(r * k), q_found(c * k), m_found(r * c), left = m;
    multiply(shape, m, transposed(q, k), p_found);
    multiply_transposed(shape, m, p, q_found);
    expand(shape, p, q, 0.25F, m_found);
    subtract(shape, p, q, left);
    const double near = 1e-5;
    for (size_t i = 0; i < r; ++i) {
      for (size_t n = 0; n < k; ++n) EXPECT_NEAR(p_found[i * k + n], product(m, i * c, 1, q, n, k, c), near);
      for (size_t j = 0; j < c; ++j) {
        const double expected = product(p, i * k, 1, q, j * k, 1, k);
        EXPECT_NEAR(m_found[i * c + j], expected / 4, near);
        EXPECT_NEAR(left[i * c + j], static_cast<double>(m[i * c + j]) - expected, near);
      }
    }
    for (size_t j = 0; j < c; ++j) {
      for (size_t n = 0; n < k; ++n) EXPECT_NEAR(q_found[j * k + n], product(m, j, c, p, n, k, r), near);
    }
  }
}

// Of all products of one shape, in one row.
Floats products(const Shape& shape) {
  const auto [r, c, k] = shape;
  const Floats m = random_floats(r * c, 1), p = random_floats(r * k, 2), q = random_floats(c * k, 3);
  Floats p_found(r * k), q_found(c * k), m_found(r * c), left = m, all;
  multiply(shape, m, transposed(q, k), p_found);
  multiply_transposed(shape, m, p, q_found);
  expand(shape, p, q, 0.3F, m_found);
  subtract(shape, p, q, left);
  for (const Floats& some : {p_found, q_found, m_found, left}) all.insert(all.end(), some.begin(), some.end());
  return all;
}

class LowRankKernels : public element::Kernels {};

TEST_P(LowRankKernels, GiveTheBitsOfThePortableOnes) {
  for (size_t rows : {1, 3, 4, 9, 70}) {
    for (size_t columns : {1, 7, 8, 15, 16, 17, 33, 300, 4099}) {
      for (size_t rank : {1, 2, 3, 4, 5, 8, 11}) {
        const Shape shape{.rows = rows, .columns = columns, .rank = rank};
        const Floats found = products(shape);
        element::use_isa(element::Isa::portable);
        const Floats expected = products(shape);
        element::use_isa(GetParam());
        EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0)
            << rows << " x " << columns << ", rank " << rank;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Isas, LowRankKernels, ::testing::Values(element::Isa::avx2, element::Isa::avx512),
                         [](const auto& each) { return std::string(element::to_string(each.param)); });

// A product of rows that come in several calls is that of one call.
TEST(LowRank, RowsMayComeInParts) {
  const Shape shape{.rows = 37, .columns = 70, .rank = 5};
  const Floats m = random_floats(37 * 70, 1), q_rows = transposed(random_floats(70 * 5, 3), 5);
  Floats whole(37 * 5), parts(37 * 5);
  multiply(shape, m, q_rows, whole);
  for (size_t row = 0, rows = 0; row < shape.rows; row += rows) {
    rows = std::min<size_t>(10, shape.rows - row);
    multiply({.rows = rows, .columns = 70, .rank = 5}, std::span(m).subspan(row * 70, rows * 70), q_rows,
             std::span(parts).subspan(row * 5, rows * 5));
  }
  EXPECT_EQ(whole, parts);
}

TEST(LowRank, OrthonormalColumnsSpanWhatTheColumnsDid) {
  const size_t rows = 50, rank = 6;
  const Floats before = random_floats(rows * rank, 4);
  Floats after = before;
  EXPECT_TRUE(orthonormalise(after, rank).empty());
  for (size_t one = 0; one < rank; ++one) {
    for (size_t other = 0; other < rank; ++other) {
      EXPECT_NEAR(product(after, one, rank, after, other, rank, rows), one == other ? 1 : 0, 1e-6);
    }
  }
  for (size_t column = 0; column < rank; ++column) {  // what the projection leaves out
    for (size_t i = 0; i < rows; ++i) {
      double projected = 0;
      for (size_t k = 0; k < rank; ++k) {
        projected += product(after, k, rank, before, column, rank, rows) * static_cast<double>(after[i * rank + k]);
      }
      EXPECT_NEAR(projected, before[i * rank + column], 1e-5);
    }
  }
}

TEST(LowRank, DependentColumnsBecomeZeroAndAreNamed) {
  const size_t rows = 20, rank = 4;
  Floats matrix = random_floats(rows * rank, 5);
  for (size_t i = 0; i < rows; ++i) {
    matrix[i * rank + 1] = 0;
    matrix[i * rank + 3] = 2 * matrix[i * rank] - matrix[i * rank + 2];
  }
  EXPECT_EQ(orthonormalise(matrix, rank), (std::vector<size_t>{1, 3}));
  for (size_t i = 0; i < rows; ++i) {
    EXPECT_EQ(matrix[i * rank + 1], 0);
    EXPECT_EQ(matrix[i * rank + 3], 0);
  }
}

TEST(LowRank, LengthsFarFromOneDoNotOverflow) {
  for (const float scale : {1e-30F, 1e30F}) {
    Floats matrix = random_floats(40, 6);
    for (float& value : matrix) value *= scale;
    EXPECT_TRUE(orthonormalise(matrix, 2).empty());
    EXPECT_NEAR(product(matrix, 0, 2, matrix, 0, 2, 20), 1, 1e-6);
  }
}

TEST(LowRank, RandomColumnsHaveMeanZeroAndVarianceOneAndFollowFromTheSeed) {
  const size_t rows = 10'000, rank = 3;
  Floats matrix(rows * rank), again(rows * rank), other(rows * rank);
  for (size_t column = 0; column < rank; ++column) {
    fill_random(matrix, rank, column, 7);
    fill_random(again, rank, column, 7);
    fill_random(other, rank, column, 8);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < rows; ++i) {
      const double value = matrix[i * rank + column];
      sum += value;
      squares += value * value;
    }
    EXPECT_NEAR(sum / rows, 0, 4 / std::sqrt(rows));
    EXPECT_NEAR(squares / rows, 1, 4 * std::sqrt(2.0 / rows));
    // Columns and seeds are independent.
    EXPECT_NEAR(product(matrix, column, rank, matrix, (column + 1) % rank, rank, rows) / rows, 0, 4 / std::sqrt(rows));
    EXPECT_NEAR(product(matrix, column, rank, other, column, rank, rows) / rows, 0, 4 / std::sqrt(rows));
  }
  EXPECT_EQ(matrix, again);
}

TEST(LowRank, WhatIsNotFiniteIsFound) {
  Floats values = random_floats(100, 9);
  EXPECT_TRUE(are_finite(values));
  for (const float wrong : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    values[99] = wrong;
    EXPECT_FALSE(are_finite(values));
  }
}

}  // namespace
}  // namespace banyan::codec::low_rank
