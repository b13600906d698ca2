#include "banyan/sparse/selection.h"

#include <limits>

#include "banyan/element/test_kernels.h"
#include "banyan/testing/test.h"

namespace banyan::sparse {
namespace {

class Selection : public element::Kernels {};
INSTANTIATE_TEST_SUITE_P(Isas, Selection,
                         ::testing::Values(element::Isa::portable, element::Isa::avx2, element::Isa::avx512),
                         [](const auto& each) { return std::string(element::to_string(each.param)); });

// By a stable sort.
std::vector<uint32_t> largest(const std::vector<float>& sums, size_t most) {
  std::vector<uint32_t> order(sums.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return std::fabs(sums[a]) > std::fabs(sums[b]); });
  order.resize(std::min(sums.size(), most));
  while (!order.empty() && sums[order.back()] == 0) order.pop_back();
  std::sort(order.begin(), order.end());
  return order;
}

void expect_largest(const std::vector<float>& values, const std::vector<float>& kept, size_t most) {
  std::vector<float> residual = kept, sums = values;
  for (size_t i = 0; i < kept.size(); ++i) sums[i] += kept[i];
  const std::vector<uint32_t> order = largest(sums, most);
  std::vector<float> left = sums;
  for (const uint32_t i : order) left[i] = 0;

  const RowList chosen = select_largest(values, residual, most);
  ASSERT_EQ(chosen.rows, order) << most << " of " << values.size();
  for (size_t i = 0; i < order.size(); ++i) ASSERT_EQ(chosen.values[i], sums[order[i]]);
  if (!kept.empty()) {
    ASSERT_EQ(residual, left);
  }
}

// Whole numbers, so that sums are exact and many are equal.
std::vector<float> whole_numbers(size_t count, int range, std::mt19937_64& random) {
  std::vector<float> values(count);
  for (float& value : values)
    value = static_cast<float>(static_cast<int>(random() % (2 * static_cast<unsigned>(range) + 1)) - range);
  return values;
}

TEST_P(Selection, OfTheLargestIsThatOfAStableSortAndLosesNothing) {
  std::mt19937_64 random(6);
  for (const int range : {1, 3, 1'000'000}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{33}, size_t{10'007}, size_t{40'001}}) {
      for (const size_t most : {size_t{0}, size_t{1}, count / 1000, count / 100, count / 2, count, count + 5}) {
        const std::vector<float> values = whole_numbers(count, range, random);
        expect_largest(values, whole_numbers(count, range, random), most);
        expect_largest(values, {}, most);
      }
    }
  }
}

// Data that a sample says nothing of: the large values are where it does not look, or all are alike, or most are zero.
TEST_P(Selection, OfTheLargestDoesNotDependOnTheSample) {
  constexpr size_t kCount = 60'000;
  std::mt19937_64 random(7);
  std::vector<float> one_stretch(kCount), alike(kCount, -2.0F), sparse(kCount), in_order(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    one_stretch[i] = i / 300 == 70 ? 1000.0F + static_cast<float>(i % 300) : 1.0F / static_cast<float>(1 + i % 977);
    if (random() % 3000 == 0) sparse[i] = static_cast<float>(random() % 100);
    in_order[i] = static_cast<float>(i);
  }
  for (const auto& values : {one_stretch, alike, sparse, in_order}) {
    for (const size_t most : {size_t{1}, size_t{150}, size_t{299}, size_t{600}, size_t{20'000}}) {
      expect_largest(values, {}, most);
      expect_largest(values, whole_numbers(kCount, 3, random), most);
      expect_largest(std::vector<float>(kCount), values, most);
    }
  }
}

TEST_P(Selection, SendsWhatIsNotFiniteOfManyValuesFirst) {
  std::vector<float> values(50'000), residual(values.size(), 0.5F);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
  for (size_t i = 77; i < values.size(); i += 5000) values[i] = i % 2 == 0 ? NAN : HUGE_VALF;
  values[4] = std::numeric_limits<float>::max();
  residual[4] = values[4];  // its sum is infinite
  const RowList chosen = select_largest(values, residual, 400);
  ASSERT_EQ(chosen.rows.size(), 400u);
  EXPECT_EQ(std::count_if(chosen.values.begin(), chosen.values.end(), [](float v) { return !std::isfinite(v); }), 11);
  EXPECT_EQ(residual[77], 0.5F);
  EXPECT_EQ(residual[4], values[4]);
  EXPECT_EQ(residual[1500], 500.5F);
  EXPECT_EQ(residual[999], 0.0F);
  EXPECT_TRUE(std::all_of(residual.begin(), residual.end(), [](float v) { return std::isfinite(v); }));
}

// Also where sums are zero, denormal or of either sign; every length of the last piece.
TEST_P(Selection, AboveAThresholdTakesAllThatReachIt) {
  std::mt19937_64 random(8);
  for (size_t count = 0; count < 70; ++count) {
    std::vector<float> values = whole_numbers(count, 4, random), residual = whole_numbers(count, 4, random), sums, left;
    std::vector<uint32_t> rows;
    for (size_t i = 0; i < count; ++i) {
      const float sum = values[i] + residual[i];
      const bool is_chosen = std::fabs(sum) >= 3;
      if (is_chosen) {
        rows.push_back(static_cast<uint32_t>(i));
        sums.push_back(sum);
      }
      left.push_back(is_chosen ? 0 : sum);
    }
    EXPECT_EQ(select_above(values, residual, 3), (RowList{rows, sums}));
    EXPECT_EQ(residual, left);
  }
  const std::vector<float> tiny = {0, -0.0F, 1e-45F, -1e-45F, HUGE_VALF, -1};
  EXPECT_EQ(select_above(tiny, {}, 0).rows, (std::vector<uint32_t>{2, 3, 4, 5}));
  EXPECT_EQ(select_above(tiny, {}, HUGE_VALF).rows, (std::vector<uint32_t>{4}));
}

// The mean of many draws is what was asked for, and no index is preferred.
TEST(SampledThreshold, IsReachedByAboutAsManyAsWanted) {
  constexpr size_t kCount = 400'000, kMost = 4000;
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  double number = 0, place = 0;
  constexpr int kDraws = 20;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<float> values(kCount), residual(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      values[i] = normal(random);
      residual[i] = normal(random);
    }
    const float threshold = sampled_threshold(values, residual, kMost);
    const RowList chosen = select_above(values, residual, threshold);
    number += static_cast<double>(chosen.rows.size()) / kDraws;
    for (const uint32_t row : chosen.rows) place += row / static_cast<double>(chosen.rows.size()) / kDraws / kCount;
  }
  const double deviation = 10 * std::sqrt(double{kMost});
  EXPECT_NEAR(number, kMost, 4 * deviation / std::sqrt(double{kDraws}));
  EXPECT_NEAR(place, 0.5, 4 * 0.29 / std::sqrt(double{kMost} * kDraws));
  EXPECT_EQ(sampled_threshold({}, {}, 5), std::numeric_limits<float>::denorm_min());
  const std::vector<float> few = {3, -9, 1, 5};
  EXPECT_EQ(sampled_threshold(few, {}, 2), 5);
  EXPECT_EQ(sampled_threshold(std::vector<float>(4, NAN), {}, 2), HUGE_VALF);
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
