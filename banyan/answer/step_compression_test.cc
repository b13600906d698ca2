#include "banyan/answer/step_compression.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "banyan/answer/step_answer.h"
#include "banyan/base/error.h"
#include "banyan/fabric/read.h"

namespace banyan::answer {
namespace {

class Silent : public JobObserver {
 public:
  void begins(const char*) override {}
  void progress(double, Picoseconds) override {}
  bool stop() override { return false; }
};

StepAnswer step_on(const std::string& fabric, const std::string& compress, uint32_t dp) {
  TrainOptions options;
  options.layers = 8, options.hidden = 1024, options.dp = dp, options.gpu = "a100-80g";
  options.overlap_gradients = true;
  options.compress = compress;
  Silent silent;
  return predict_step(
      {.setup = make_train_setup(options), .fabric = fabric::load_fabric({.fabric = fabric}), .fabric_name = fabric},
      silent);
}

Picoseconds time_of(const StepAnswer& step) { return step.answer.simulation.prediction.time; }

TEST(StepCompression, CodesGradientsWhereLinksAreSlow) {
  const StepAnswer step = step_on("star:4@1Gb/s", "auto", 4);
  ASSERT_TRUE(step.compression);
  const StepCompression& compression = *step.compression;
  EXPECT_GT(compression.best, 0u) << compression.why;
  EXPECT_LT(time_of(step).count(), compression.tried.front().time.count() * 2 / 3) << compression.why;
  EXPECT_EQ(time_of(step), compression.tried[compression.best].time);
}

TEST(StepCompression, DoesNotCompressWhereLinksAreFast) {
  const StepAnswer step = step_on("dgx-a100:1", "auto", 8);
  ASSERT_TRUE(step.compression);
  EXPECT_EQ(step.compression->best, 0u) << step.compression->why;
  EXPECT_NE(step.compression->why.find("do not compress"), std::string::npos);
  for (const CompressedBucket& bucket : step.compression->buckets) EXPECT_FALSE(bucket.codec);
}

TEST(StepCompression, IsNeverSlowerThanNoneByItsOwnModel) {
  for (const char* const fabric : {"star:4@100Gb/s", "star:4@10Gb/s", "star:4@400Gb/s"}) {
    const StepAnswer step = step_on(fabric, "auto", 4);
    EXPECT_LE(time_of(step), step.compression->tried.front().time) << fabric;
  }
}

TEST(StepCompression, WithoutCodesIsTheStepAsItIs) {
  EXPECT_EQ(time_of(step_on("star:4@1Gb/s", "none", 4)), time_of(step_on("star:4@1Gb/s", "", 4)));
}

TEST(StepCompression, OfANamedCodeAllBucketsHaveIt) {
  const StepAnswer step = step_on("star:4@1Gb/s", "int4", 4);
  ASSERT_TRUE(step.compression);
  ASSERT_FALSE(step.compression->buckets.empty());
  const codec::Codec int4{.code = codec::ValueCode::int4};
  for (const CompressedBucket& bucket : step.compression->buckets) {
    EXPECT_EQ(bucket.codec, int4);
    EXPECT_EQ(bucket.wire_bytes, coded_bytes(int4, bucket.gradients.elements));
  }
  EXPECT_NE(step.question.training.find("\"compression\""), std::string::npos);
}

Picoseconds time_of(const StepCompression& compression, const std::string& name) {
  for (const TriedCompression& each : compression.tried) {
    if (each.name == name) return each.time;
  }
  ADD_FAILURE() << "no candidate " << name;
  return Picoseconds(0);
}

TEST(StepCompression, ChoosesNoCutThatIsWorseThanBucketsAsTheyWere) {
  for (const char* const fabric : {"star:4@1Gb/s", "star:4@10Gb/s", "star:4@40Gb/s", "star:4@400Gb/s"}) {
    for (const char* const compress : {"auto", "int8"}) {
      SCOPED_TRACE(std::string(fabric) + ", " + compress);
      const StepAnswer step = step_on(fabric, compress, 4);
      const StepCompression& compression = *step.compression;
      ASSERT_EQ(compression.cuts.size(), 2u);
      EXPECT_EQ(compression.cuts[0].code, "none");
      EXPECT_EQ(time_of(step), compression.tried[compression.best].time) << "the step is that which was simulated";
      if (compress == std::string("int8")) {
        EXPECT_LE(time_of(step), time_of(compression, "int8"));
      }
      EXPECT_LE(time_of(step), compression.tried.front().time);
      // Of one stage without a code the programme leaves nothing out, so that no other cut is quicker when simulated.
      const CutBuckets& dense = compression.cuts[0];
      EXPECT_LE(static_cast<double>(dense.anew.count()),
                static_cast<double>(std::min(dense.as_they_were, dense.with_cap).count()) * 1.001);
      for (const CutBuckets& cut : compression.cuts) {
        EXPECT_EQ(cut.as_they_were, time_of(compression, cut.code));
        EXPECT_EQ(cut.anew, time_of(compression, cut.code + ", buckets cut anew"));
        EXPECT_EQ(cut.with_cap, time_of(compression, cut.code + ", buckets of " + cut.cap.to_string()));
      }
    }
  }
}

TEST(StepCompression, CutsAnewAllGradientsAndNoOthers) {
  TrainOptions options;
  options.layers = 8, options.hidden = 1024, options.dp = 4, options.pp = 2, options.gpu = "a100-80g";
  options.overlap_gradients = true, options.compress = "int8", options.bucket = Bytes(1 << 20);
  Silent silent;
  const StepAnswer step = predict_step({.setup = make_train_setup(options),
                                        .fabric = fabric::load_fabric({.fabric = "star:8@10Gb/s"}),
                                        .fabric_name = "star"},
                                       silent);
  const StepCompression& compression = *step.compression;
  for (const CutBuckets& cut : compression.cuts) {
    ASSERT_EQ(cut.bytes.size(), 2u);
    for (uint32_t stage = 0; stage < 2; ++stage) {
      uint64_t of_cut = 0, of_buckets = 0;
      for (const uint64_t bytes : cut.bytes[stage]) of_cut += bytes;
      for (const CompressedBucket& bucket : compression.buckets) {
        if (bucket.gradients.stage == stage) of_buckets += bucket.gradients.bytes;
      }
      EXPECT_EQ(of_cut, of_buckets) << "stage " << stage;
    }
  }
}

TEST(StepCompression, CutsNothingAnewWhereAllIsReducedAtTheEnd) {
  TrainOptions options;
  options.layers = 8, options.hidden = 1024, options.dp = 4, options.gpu = "a100-80g", options.compress = "int8";
  Silent silent;
  const StepAnswer step = predict_step({.setup = make_train_setup(options),
                                        .fabric = fabric::load_fabric({.fabric = "star:4@1Gb/s"}),
                                        .fabric_name = "star"},
                                       silent);
  EXPECT_TRUE(step.compression->cuts.empty());
  EXPECT_EQ(step.compression->tried.size(), 2u);
}

TEST(StepCompression, RefusesListsAndSpeedsWithoutACode) {
  EXPECT_THROW(step_on("star:4@1Gb/s", "int8,int4", 4), Error);
  TrainOptions options;
  options.layers = 8, options.hidden = 1024, options.codec_speed = "20GB/s";
  EXPECT_THROW(make_train_setup(options), Error);
}

}  // namespace
}  // namespace banyan::answer
