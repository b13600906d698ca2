#include "banyan/predict/codes/bucket_cuts.h"

#include <limits>

#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

// All cuts, each by the walk, which knows nothing of pairs.
double best_of_all(const std::vector<GradientBucket>& tensors, const CutCosts& costs, uint32_t most) {
  const std::vector<BucketOption> options = {
      {.name = "coded",
       .stages = {{.resource = kBackwardPass, .fixed = costs.encode_fixed, .per_byte = costs.encode_per_byte},
                  {.resource = 1, .fixed = costs.link_fixed, .per_byte = costs.link_per_byte}}}};
  double best = std::numeric_limits<double>::infinity();
  for (uint32_t cuts = 0; cuts < (1u << (tensors.size() - 1)); ++cuts) {
    std::vector<uint32_t> sizes{1};
    for (size_t i = 0; i + 1 < tensors.size(); ++i) {
      if ((cuts >> i & 1) != 0) sizes.push_back(0);
      ++sizes.back();
    }
    if (sizes.size() > most) continue;
    const std::vector<uint32_t> choice(sizes.size(), 0);
    best = std::min(best, walk_buckets(joined(tensors, sizes), options, choice).seconds);
  }
  return best;
}

TEST(BucketCuts, AreTheBestOfAllCuts) {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> size(1e-6), time(1000);
    std::uniform_real_distribution<double> factor(0, 2);
    std::vector<GradientBucket> tensors(seed <= 4 ? 16 : 1 + random() % 12);
    for (GradientBucket& tensor : tensors) tensor = {.bytes = size(random), .backward = time(random)};
    const CutCosts costs{.encode_fixed = factor(random) * 2e-4,
                         .encode_per_byte = factor(random) * 1e-10,
                         .link_fixed = factor(random) * 5e-4,
                         .link_per_byte = factor(random) * 1e-9};
    const auto all = static_cast<uint32_t>(tensors.size());
    for (const uint32_t most : {1u, std::min(3u, all), all}) {
      const BucketCuts found = cut_buckets(tensors, costs, most);
      EXPECT_NEAR(found.seconds, best_of_all(tensors, costs, most), 1e-12);
      EXPECT_LE(found.sizes.size(), most);
      EXPECT_EQ(std::accumulate(found.sizes.begin(), found.sizes.end(), 0u), all);
    }
  }
}

TEST(BucketCuts, JoinWhereLatencyIsAllThatCounts) {
  const std::vector<GradientBucket> tensors(12, {.bytes = 1000, .backward = 1e-6});
  EXPECT_EQ(cut_buckets(tensors, {.link_fixed = 1e-3, .link_per_byte = 1e-10}).sizes, std::vector<uint32_t>{12});
}

TEST(BucketCuts, SendTensorByTensorWhereNothingIsFixed) {
  const std::vector<GradientBucket> tensors(6, {.bytes = 1e6, .backward = 1e-3});
  const BucketCuts cuts = cut_buckets(tensors, {.link_per_byte = 1e-9});
  EXPECT_EQ(cuts.sizes, std::vector<uint32_t>(6, 1));
  EXPECT_NEAR(cuts.seconds, 7e-3, 1e-12);
}

}  // namespace
}  // namespace banyan::predict
