#include "banyan/sparse/momentum.h"

#include "banyan/sparse/selection.h"
#include "banyan/testing/test.h"

namespace banyan::sparse {
namespace {

TEST(Momentum, IsCorrectedClippedAndClearedWhereSent) {
  std::vector<float> gradient = {3, 4, 0}, m = {2, 0, 4};
  // Norm 5 is clipped to 10 / sqrt(16) = 2.5: half of it.
  add_to_momentum({.gradient = gradient, .momentum = m, .factor = 0.5F, .largest_norm = 10, .ranks = 16});
  EXPECT_EQ(m, (std::vector<float>{2.5, 2, 2}));
  EXPECT_EQ(gradient, m);
  clear_sent(std::vector<uint32_t>{0, 2}, m);
  EXPECT_EQ(m, (std::vector<float>{0, 2, 0}));
}

TEST(Momentum, KeepsNaNOut) {
  std::vector<float> gradient = {NAN, 4}, m = {2, 0};
  add_to_momentum({.gradient = gradient, .momentum = m, .factor = 0.5F, .largest_norm = 1, .ranks = 1});
  EXPECT_EQ(m, (std::vector<float>{2, 4}));
  EXPECT_TRUE(std::isnan(gradient[0]));
  EXPECT_EQ(gradient[1], 4);
}

// A gradient that is sent late by selection arrives with all the momentum that it would have had: over many steps the
// sum of what is sent, and of what is kept, is that of momentum itself.
TEST(Momentum, IsNotLostByWhatIsSentLate) {
  std::vector<float> m(100), v(100), sent(100), gradient(100), expected_m(100), expected(100);
  for (int step = 0; step < 40; ++step) {
    for (size_t i = 0; i < 100; ++i) {
      gradient[i] = static_cast<float>((i * 7 + static_cast<size_t>(step) * 3) % 11) - 5;
      expected_m[i] = 0.5F * expected_m[i] + gradient[i];
      expected[i] += expected_m[i];
    }
    add_to_momentum({.gradient = gradient, .momentum = m, .factor = 0.5F});
    const RowList chosen = select_largest(gradient, v, 10);
    for (size_t k = 0; k < chosen.rows.size(); ++k) {
      const uint32_t i = chosen.rows[k];
      // Masking forgets m's tail, as the paper has it: add it to what is expected no more.
      expected[i] -= expected_m[i] - m[i];
      expected_m[i] = 0;
      sent[i] += chosen.values[k];
    }
    clear_sent(chosen.rows, m);
  }
  for (size_t i = 0; i < 100; ++i) ASSERT_NEAR(sent[i] + v[i], expected[i], 1e-3) << i;
}

}  // namespace
}  // namespace banyan::sparse
