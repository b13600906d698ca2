#include "banyan/predict/codes/bucket_walk.h"

#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

constexpr uint32_t kLink = 1, kBeside = 2;

TEST(BucketWalk, LinksServeOneBucketAfterTheOther) {
  const std::vector<GradientBucket> buckets = {{.bytes = 10, .backward = 1}, {.bytes = 30, .backward = 1}};
  const std::vector<BucketOption> options = {{.name = "dense", .stages = {{kLink, 0.5, 0.1}}}};
  const BucketWalk walk = walk_buckets(buckets, options, std::vector<uint32_t>{0, 0});
  EXPECT_DOUBLE_EQ(walk.end[0], 2.5);  // 1 + 0.5 + 1
  EXPECT_DOUBLE_EQ(walk.end[1], 6.0);  // behind it
  EXPECT_DOUBLE_EQ(walk.seconds, 6.0);
}

TEST(BucketWalk, EncodingByTheBackwardPassMakesAllLater) {
  const std::vector<GradientBucket> buckets(3, {.bytes = 1, .backward = 1});
  const std::vector<BucketOption> options = {{.name = "dense", .stages = {{kLink, 0, 0.1}}},
                                             {.name = "coded", .stages = {{kBackwardPass, 0, 0.5}, {kLink, 0, 0.1}}},
                                             {.name = "beside", .stages = {{kBeside, 0, 0.5}, {kLink, 0, 0.1}}}};
  EXPECT_DOUBLE_EQ(walk_buckets(buckets, options, std::vector<uint32_t>{0, 0, 0}).seconds, 3.1);
  EXPECT_DOUBLE_EQ(walk_buckets(buckets, options, std::vector<uint32_t>{1, 1, 0}).seconds, 4.1);
  EXPECT_DOUBLE_EQ(walk_buckets(buckets, options, std::vector<uint32_t>{2, 2, 0}).seconds, 3.1);
}

TEST(BucketWalk, WorkAsideHoldsUpWhatFollows) {
  const std::vector<GradientBucket> buckets(3, {.bytes = 2, .backward = 1});
  const std::vector<BucketOption> options = {
      {.name = "dense", .stages = {{kLink, 0, 0.1}}},
      {.name = "aside", .stages = {{kLink, 0, 0.1}}, .aside = {kBackwardPass, 0.25, 0.5}}};
  const BucketWalk walk = walk_buckets(buckets, options, std::vector<uint32_t>{1, 0, 1});
  EXPECT_EQ(walk.begin, (std::vector<double>{1, 3.25, 4.25}));
  EXPECT_DOUBLE_EQ(walk.end[2], 4.45);
  EXPECT_DOUBLE_EQ(walk.seconds, 5.5) << "the backward pass ends behind the work for the last";
}

TEST(BucketWalk, KnowsWhatIsHidden) {
  // The first two leave the link long before the last, which is large, is there.
  const std::vector<GradientBucket> buckets = {
      {.bytes = 1, .backward = 1}, {.bytes = 1, .backward = 1}, {.bytes = 50, .backward = 5}};
  const std::vector<BucketOption> options = {{.name = "dense", .stages = {{kLink, 0, 0.1}}}};
  const BucketWalk walk = walk_buckets(buckets, options, std::vector<uint32_t>{0, 0, 0});
  EXPECT_EQ(walk.is_hidden, (std::vector<bool>{true, true, false}));
}

}  // namespace
}  // namespace banyan::predict
