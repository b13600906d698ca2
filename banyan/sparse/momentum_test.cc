#include "banyan/sparse/momentum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace banyan::sparse {
namespace {

TEST(Momentum, IsCorrectedClippedAndClearedWhereSent) {
  const std::vector<float> gradient = {3, 4, 0};
  std::vector<float> m = {2, 0, 4}, v = {1, 1, 1};
  // Norm 5 is clipped to 10 / sqrt(16) = 2.5: half of it.
  add_gradient({.gradient = gradient, .momentum = m, .velocity = v, .factor = 0.5F, .largest_norm = 10, .ranks = 16});
  EXPECT_EQ(m, (std::vector<float>{2.5, 2, 2}));
  EXPECT_EQ(v, (std::vector<float>{3.5, 3, 3}));
  const std::vector<uint32_t> sent = {0, 2};
  clear_sent(sent, m, v);
  EXPECT_EQ(m, (std::vector<float>{0, 2, 0}));
  EXPECT_EQ(v, (std::vector<float>{0, 3, 0}));
}

TEST(Momentum, KeepsNaNOutOfTheMomentum) {
  const std::vector<float> gradient = {NAN, 4};
  std::vector<float> m = {2, 0}, v = {1, 1};
  add_gradient({.gradient = gradient, .momentum = m, .velocity = v, .factor = 0.5F, .largest_norm = 1, .ranks = 1});
  EXPECT_EQ(m, (std::vector<float>{2, 4}));
  EXPECT_TRUE(std::isnan(v[0]));
  EXPECT_EQ(v[1], 5);
}

}  // namespace
}  // namespace banyan::sparse
