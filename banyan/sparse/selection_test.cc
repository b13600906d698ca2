#include "banyan/sparse/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace banyan::sparse {
namespace {

// By a stable sort; whole numbers, so that sums are exact and many are equal.
TEST(SelectLargest, IsThatOfAStableSortAndLosesNothing) {
  std::mt19937_64 random(6);
  for (const int range : {1, 3, 1'000'000}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{33}, size_t{10'007}}) {
      for (const size_t most : {size_t{0}, size_t{1}, count / 100, count / 2, count, count + 5}) {
        std::vector<float> values(count), residual(count), sums(count);
        for (size_t i = 0; i < count; ++i) {
          values[i] = static_cast<float>(static_cast<int>(random() % (2 * range + 1)) - range);
          residual[i] = static_cast<float>(static_cast<int>(random() % (2 * range + 1)) - range);
          sums[i] = values[i] + residual[i];
        }
        std::vector<uint32_t> order(count);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](uint32_t a, uint32_t b) { return std::fabs(sums[a]) > std::fabs(sums[b]); });
        order.resize(std::min(count, most));
        while (!order.empty() && sums[order.back()] == 0) order.pop_back();
        std::sort(order.begin(), order.end());
        std::vector<float> left = sums;
        for (const uint32_t i : order) left[i] = 0;

        const RowList chosen = select_largest(values, residual, most);
        ASSERT_EQ(chosen.rows, order) << "range " << range << ", " << most << " of " << count;
        for (size_t i = 0; i < order.size(); ++i) ASSERT_EQ(chosen.values[i], sums[order[i]]);
        ASSERT_EQ(residual, left);
      }
    }
  }
}

TEST(SelectLargest, SendsWhatIsNotFiniteAndKeepsItOutOfTheResidual) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {1, NAN, 3, -kInfinity, 5, NAN};
  std::vector<float> residual = {1, 7, 0, 8, 1, NAN};
  const RowList chosen = select_largest(values, residual, 4);
  EXPECT_EQ(chosen.rows, (std::vector<uint32_t>{1, 3, 4, 5}));
  EXPECT_TRUE(std::isnan(chosen.values[0]) && std::isinf(chosen.values[1]) && std::isnan(chosen.values[3]));
  EXPECT_EQ(residual, (std::vector<float>{2, 7, 3, 8, 0, 0}));
}

}  // namespace
}  // namespace banyan::sparse
