#include "banyan/predict/codes/option_choice.h"

#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

constexpr uint32_t kBox = 1, kNetwork = 2, kCoder = 3;

double best_of_all(const std::vector<GradientBucket>& buckets, const std::vector<BucketOption>& options) {
  std::vector<uint32_t> choice(buckets.size(), 0);
  double best = walk_buckets(buckets, options, choice).seconds;
  for (;;) {
    size_t digit = 0;
    while (digit < choice.size() && ++choice[digit] == options.size()) choice[digit++] = 0;
    if (digit == choice.size()) return best;
    best = std::min(best, walk_buckets(buckets, options, choice).seconds);
  }
}

// None; a code encoded by the backward pass, or beside it; one between boxes only; one of a fifth of the bytes.
std::vector<BucketOption> options_of(double box, double network, double encode) {
  const double latency = 5e-5;
  return {
      {.name = "none", .stages = {{kBox, latency, box}, {kNetwork, latency, network}}},
      {.name = "all",
       .stages = {{kBackwardPass, 1e-5, encode},
                  {kBox, latency, box / 4},
                  {kNetwork, latency, network / 4},
                  {kCoder, 1e-5, encode}}},
      {.name = "beside",
       .stages = {{kCoder, 1e-5, 2 * encode},
                  {kBox, latency, box / 4},
                  {kNetwork, latency, network / 4},
                  {kCoder, 1e-5, encode}}},
      {.name = "between",
       .stages = {{kBox, latency, box},
                  {kCoder, 1e-5, encode / 4},
                  {kNetwork, latency, network / 4},
                  {kCoder, 1e-5, encode / 4}}},
      {.name = "few",
       .stages = {{kBackwardPass, 1e-5, 3 * encode}, {kNetwork, 2 * latency, network / 20}, {kCoder, 1e-5, encode}}}};
}

TEST(OptionChoice, IsWithinFivePercentOfTheBestOfAllChoices) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> size(1e-6), time(500);
    std::uniform_real_distribution<double> power(-1, 1);
    std::vector<GradientBucket> buckets(seed % 20 == 0 ? 8 : 1 + random() % 7);
    for (GradientBucket& bucket : buckets) bucket = {.bytes = size(random), .backward = time(random)};
    const std::vector<BucketOption> options = options_of(
        1e-10 * std::pow(10, power(random)), 1e-9 * std::pow(10, power(random)), 1e-10 * std::pow(10, power(random)));
    const OptionChoice found = choose_options(buckets, options);
    EXPECT_LE(found.seconds, best_of_all(buckets, options) * 1.05);
    EXPECT_DOUBLE_EQ(found.seconds, walk_buckets(buckets, options, found.options).seconds);
    for (uint32_t option = 0; option < options.size(); ++option) {
      const std::vector<uint32_t> one(buckets.size(), option);
      EXPECT_LE(found.seconds, walk_buckets(buckets, options, one).seconds * (1 + 1e-9)) << options[option].name;
    }
  }
}

TEST(OptionChoice, DoesNotCompressOnFastLinks) {
  const std::vector<GradientBucket> buckets(6, {.bytes = 25e6, .backward = 2e-3});
  const OptionChoice found = choose_options(buckets, options_of(1e-12, 1e-12, 1e-10));
  EXPECT_EQ(found.options, std::vector<uint32_t>(6, 0));
}

TEST(OptionChoice, CompressesAllOnSlowLinks) {
  const std::vector<GradientBucket> buckets(6, {.bytes = 25e6, .backward = 2e-3});
  const std::vector<BucketOption> options = options_of(1e-10, 1e-8, 1e-11);
  const OptionChoice found = choose_options(buckets, options);
  for (const uint32_t option : found.options) EXPECT_NE(option, 0u);
}

// The last bucket cannot hide behind anything; the first may.
TEST(OptionChoice, LeavesAloneWhatIsHidden) {
  const std::vector<GradientBucket> buckets = {
      {.bytes = 1e6, .backward = 1e-3}, {.bytes = 1e6, .backward = 1}, {.bytes = 40e6, .backward = 1}};
  const OptionChoice found = choose_options(buckets, options_of(1e-11, 2e-9, 1e-10));
  EXPECT_EQ(found.options[0], 0u);
  EXPECT_NE(found.options[2], 0u);
}

}  // namespace
}  // namespace banyan::predict
