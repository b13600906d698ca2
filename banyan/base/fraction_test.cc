#include "banyan/base/fraction.h"

#include "banyan/testing/test.h"

namespace banyan {
namespace {

TEST(Fraction, IsKeptInLowestTermsWithAPositiveDenominator) {
  EXPECT_EQ(Fraction(6, -4).to_string(), "-3/2");
  EXPECT_EQ(Fraction(0, 7), Fraction(0));
}

TEST(Fraction, ParsesWhatItPrints) {
  EXPECT_EQ(Fraction::parse("1040/3").to_string(), "1040/3");
  EXPECT_EQ(Fraction::parse("-2"), Fraction(-2));
  for (const char* bad : {"", "/", "1/", "1/0", "1.5", "x", "1/2/3", "--1"})
    EXPECT_THROW(Fraction::parse(bad), Error) << bad;
}

TEST(Fraction, ComparesLikeCrossMultiplicationOnRandomPairs) {
  const uint32_t seed = 20261120;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::uniform_int_distribution<int64_t> number(-50, 50), positive(1, 40);
  for (int i = 0; i < 20000; ++i) {
    const int64_t a = number(random), b = positive(random), c = number(random), d = positive(random);
    EXPECT_EQ(Fraction(a, b) < Fraction(c, d), a * d < c * b) << a << "/" << b << " " << c << "/" << d;
    EXPECT_EQ(Fraction(a, b) == Fraction(c, d), a * d == c * b);
    EXPECT_EQ(Fraction(a, b) + Fraction(c, d), Fraction(a * d + c * b, b * d));
    EXPECT_EQ(Fraction(a, b) * Fraction(c, d), Fraction(a * c, b * d));
  }
}

TEST(Fraction, ComparesWhereProductsWouldOverflow) {
  const int128 huge = (int128{1} << 126) - 1;
  EXPECT_LT(Fraction(huge - 1, huge), Fraction(huge, huge - 1));
  EXPECT_LT(Fraction(huge - 2, huge - 1), Fraction(huge - 1, huge));
  EXPECT_THROW(Fraction(huge, 1) * Fraction(huge, 1), Error);
}

}  // namespace
}  // namespace banyan
