#include "banyan/answer/step_compression.h"

#include "banyan/answer/step_answer.h"
#include "banyan/fabric/read.h"
#include "banyan/testing/test.h"

namespace banyan::answer {
namespace {

class Silent : public JobObserver {
 public:
  void begins(const char*) override {}
  void progress(double, Picoseconds) override {}
  bool stop() override { return false; }
};

StepAnswer step_on(const std::string& fabric, const std::string& compress, uint32_t dp) {
  predict::TrainOptions options;
  options.layers = 8, options.hidden = 1024, options.config.dp = dp, options.gpu = "a100-80g";
  options.config.overlap_gradients = true;
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
  predict::TrainOptions options;
  options.layers = 8, options.hidden = 1024, options.config.dp = 4, options.config.pp = 2, options.gpu = "a100-80g";
  options.config.overlap_gradients = true, options.compress = "int8", options.config.bucket = Bytes(1 << 20);
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
  predict::TrainOptions options;
  options.layers = 8, options.hidden = 1024, options.config.dp = 4, options.gpu = "a100-80g", options.compress = "int8";
  Silent silent;
  const StepAnswer step = predict_step({.setup = make_train_setup(options),
                                        .fabric = fabric::load_fabric({.fabric = "star:4@1Gb/s"}),
                                        .fabric_name = "star"},
                                       silent);
  EXPECT_TRUE(step.compression->cuts.empty());
  EXPECT_EQ(step.compression->tried.size(), 2u);
}

// ---- Codes between boxes ----

predict::TrainOptions eight_replicas(const std::string& compress, const std::string& codec_speed = "") {
  predict::TrainOptions options;
  options.layers = 2, options.hidden = 1024, options.vocab = 4096, options.config.dp = 8, options.gpu = "a100-80g";
  options.config.overlap_gradients = true, options.config.bucket = Bytes(20 << 20);
  options.compress = compress, options.codec_speed = codec_speed;
  return options;
}

StepAnswer step_of(const predict::TrainOptions& options, const std::string& fabric) {
  Silent silent;
  return predict_step(
      {.setup = make_train_setup(options), .fabric = fabric::load_fabric({.fabric = fabric}), .fabric_name = fabric},
      silent);
}

predict::Prediction simulated(const TrainSetup& setup, const Fabric& fabric, const predict::GradientPlan& plan) {
  const predict::TrainingStep step = generate_compressed_step(setup.config, setup.device, plan);
  const JobQuestion question{.title = "step",
                             .fabric = fabric,
                             .jobs = {place_job(step.job, fabric, {}, {})},
                             .communication = {.links = setup.device.links, .measured = {}}};
  Silent silent;
  return simulate_question(question, {}, silent).simulation.prediction;
}

bool has_candidate(const StepAnswer& step, const std::string& name) {
  return std::any_of(step.compression->tried.begin(), step.compression->tried.end(),
                     [&](const TriedCompression& each) { return each.name == name; });
}

// Two boxes of four hosts, each with one uplink.
const char* const kSlowUplinks = "leaf-spine:leaves=2,hosts=4,spines=1,uplink=10Gb/s@400Gb/s";
const char* const kSlowBoxes = "leaf-spine:leaves=2,hosts=4,spines=1,uplink=400Gb/s@10Gb/s";

// Of one bucket behind the backward pass: of M bytes, so many bytes over the busiest link at its efficiency, and a
// latency for each doubling of the ranks.
TEST(StepCompression, BetweenBoxesABucketTakesWhatItsFiveStagesTake) {
  predict::TrainOptions options = eight_replicas("int8", "100GB/s,200GB/s,50GB/s");
  options.config.overlap_gradients = false;
  const StepAnswer step = step_of(options, kSlowUplinks);
  ASSERT_EQ(step.compression->buckets.size(), 1u);
  const predict::ReducedGradients& gradients = step.compression->buckets[0].gradients;
  const predict::Device& device = step.setup.device;
  const double latency = 1e-12 * static_cast<double>(device.links.latency.count());
  const double port = 50e9 * device.links.scale_up, uplink = 1.25e9 * device.links.network;
  const auto bytes = static_cast<double>(gradients.bytes);
  const uint64_t share = (gradients.elements + 3) / 4;
  const double values = 4.0 * static_cast<double>(share);
  const double coded = static_cast<double>(codec::coded_bytes({.code = codec::ValueCode::int8}, share));
  const double launch =
      1e-12 * static_cast<double>(predict::cost_on(device, {.code = codec::ValueCode::int8}).launch.count());
  // Of two boxes each rank owns half of its share.
  const double encode = values / 2 / 100e9 + launch;
  const double decode = values / 2 / 50e9 + values / 2 / 100e9 + values / 200e9 + 3 * launch;
  const double in_box = 2 * latency + 0.75 * bytes / port;
  const double between = latency + 4 * 2 * 0.5 * coded / uplink;  // four shares on the uplink, each way
  const double flat = 3 * latency + 2 * 7.0 / 8 * bytes / uplink;
  const auto time = [&](const char* name) {
    for (const TriedCompression& each : step.compression->tried) {
      if (each.name == name) return 1e-12 * static_cast<double>(each.time.count());
    }
    return 0.0;
  };
  EXPECT_NEAR(time("int8, between boxes") - time("none"), in_box + encode + between + decode + in_box - flat,
              1e-6 * flat);
  const CompressedBucket& bucket = step.compression->buckets[0];
  EXPECT_TRUE(bucket.is_between_boxes) << step.compression->why;
  EXPECT_NEAR(bucket.coded_seconds, in_box + encode + between + decode + in_box, 1e-6 * flat);
  EXPECT_NEAR(bucket.dense_seconds, flat, 1e-6 * flat);
  EXPECT_EQ(bucket.wire_bytes, 4 * static_cast<uint64_t>(coded));
}

TEST(StepCompression, BetweenBoxesUplinksCarryTheCodeAlone) {
  const TrainSetup setup = make_train_setup(eight_replicas("int8"));
  const Fabric fabric = fabric::load_fabric({.fabric = kSlowUplinks});
  const predict::TrainingStep dense = generate_compressed_step(setup.config, setup.device, {.box_ranks = 4});
  const codec::Codec int8{.code = codec::ValueCode::int8};
  predict::GradientPlan plan{.box_ranks = 4};
  double coded = 0, as_they_are = 0;
  ASSERT_GT(dense.reduced[0].size(), 1u);
  for (const predict::ReducedGradients& each : dense.reduced[0]) {
    coded += 4 * static_cast<double>(coded_bytes(int8, (each.elements + 3) / 4));
    as_they_are += static_cast<double>(each.bytes);
  }
  plan.codes.emplace_back(dense.reduced[0].size(),
                          predict::GradientCode{.cost = cost_on(setup.device, int8), .is_between_boxes = true});
  const predict::Prediction prediction = simulated(setup, fabric, plan);
  size_t uplinks = 0;
  for (size_t i = 0; i < fabric.links().size(); ++i) {
    const Link& link = fabric.links()[i];
    if (fabric.is_rank(link.from) || fabric.is_rank(link.to)) {
      EXPECT_NEAR(prediction.links[i].bytes, 2 * 0.75 * as_they_are + coded / 4, 1e-6 * as_they_are);
    } else {
      EXPECT_NEAR(prediction.links[i].bytes, coded, 1e-6 * coded) << "allreduce of two: as much each way as there is";
      ++uplinks;
    }
  }
  EXPECT_EQ(uplinks, 4u);
}

TEST(StepCompression, BetweenBoxesIsQuickerWhereCodingIsSlowAndSlowerWhereBoxesAre) {
  // Each rank has a network card of its own, so that two levels gain nothing but work.
  const StepAnswer work = step_of(
      [] {
        predict::TrainOptions options = eight_replicas("int8", "20GB/s");
        options.config.dp = 16;
        return options;
      }(),
      "dgx-a100:2@10Gb/s");
  EXPECT_LT(time_of(*work.compression, "int8, between boxes").count(),
            time_of(*work.compression, "int8").count() * 9 / 10);
  EXPECT_NE(work.compression->tried[work.compression->best].name.find("int8, between boxes"), std::string::npos);
  for (const CompressedBucket& bucket : work.compression->buckets) EXPECT_TRUE(bucket.is_between_boxes);

  const StepAnswer boxes = step_of(eight_replicas("int8"), kSlowBoxes);
  EXPECT_LT(time_of(*boxes.compression, "int8").count(),
            time_of(*boxes.compression, "int8, between boxes").count() * 9 / 10);
  for (const CompressedBucket& bucket : boxes.compression->buckets) EXPECT_FALSE(bucket.is_between_boxes);
}

TEST(StepCompression, HasNoLevelBetweenBoxesWhereThereIsNone) {
  const auto has_level = [](const predict::TrainOptions& options, const char* fabric) {
    return has_candidate(step_of(options, fabric), "int8, between boxes");
  };
  EXPECT_TRUE(has_level(eight_replicas("int8"), kSlowUplinks));
  EXPECT_FALSE(has_level(eight_replicas("int8"), "star:8")) << "one switch";
  EXPECT_FALSE(has_level(eight_replicas("int8"), "dgx-a100:2")) << "all in one box of two";
  EXPECT_FALSE(has_level(eight_replicas("int8"), "leaf-spine:leaves=8,hosts=1,spines=1")) << "a box for each";
  predict::TrainOptions slices = eight_replicas("int8");
  slices.config.tp = 4, slices.config.dp = 2;
  EXPECT_FALSE(has_level(slices, kSlowUplinks)) << "a replica for each box";
  predict::TrainOptions uneven = eight_replicas("int8");
  uneven.config.dp = 6;
  EXPECT_FALSE(has_level(uneven, kSlowUplinks)) << "four and two";
  predict::TrainOptions zero = eight_replicas("int8");
  zero.config.zero = 1;
  EXPECT_FALSE(has_level(zero, kSlowUplinks));
}

// Against the simulation of all choices among none and two codes at both levels.
TEST(StepCompression, ByBucketIsAlmostTheBestOfAllChoicesOfCodeAndLevel) {
  size_t mixed = 0;
  for (const char* const fabric_name :
       {kSlowUplinks, kSlowBoxes, "leaf-spine:leaves=2,hosts=4,spines=2,uplink=100Gb/s@50Gb/s", "dgx-a100:2@10Gb/s"}) {
    for (const char* const speed : {"", "200GB/s", "20GB/s"}) {
      SCOPED_TRACE(std::string(fabric_name) + ", codec speed " + speed);
      predict::TrainOptions options = eight_replicas("auto", speed);
      if (std::string(fabric_name).starts_with("dgx")) options.config.dp = 16;
      const StepAnswer step = step_of(options, fabric_name);
      const uint32_t box_ranks = options.config.dp / 2;
      const Fabric fabric = fabric::load_fabric({.fabric = fabric_name});
      const predict::TrainingStep dense =
          generate_compressed_step(step.setup.config, step.setup.device, {.box_ranks = box_ranks});
      const size_t buckets = dense.reduced[0].size();
      ASSERT_GE(buckets, 2u);
      ASSERT_LE(buckets, 3u);
      std::vector<std::optional<predict::GradientCode>> choices = {std::nullopt};
      for (const codec::ValueCode code : {codec::ValueCode::bfloat16, codec::ValueCode::int8}) {
        predict::CodecCost cost = predict::cost_on(step.setup.device, {.code = code});
        if (step.setup.codec_speed) cost.speed = *step.setup.codec_speed;
        choices.push_back(predict::GradientCode{.cost = cost});
        choices.push_back(predict::GradientCode{.cost = cost, .is_between_boxes = true});
      }
      Picoseconds best = Picoseconds::max();
      std::vector<size_t> digits(buckets, 0), of_best;
      for (size_t digit = 0; digit < buckets;) {
        predict::GradientPlan plan{.box_ranks = box_ranks};
        plan.codes.emplace_back();
        for (const size_t each : digits) plan.codes.back().push_back(choices[each]);
        const Picoseconds time = simulated(step.setup, fabric, plan).time;
        if (time < best) best = time, of_best = digits;
        for (digit = 0; digit < buckets && ++digits[digit] == choices.size(); ++digit) digits[digit] = 0;
      }
      std::string in_words = "the best by bucket:";
      for (const size_t each : of_best) in_words += " " + std::to_string(each);
      SCOPED_TRACE(in_words);
      EXPECT_LE(static_cast<double>(time_of(*step.compression, "by bucket").count()),
                static_cast<double>(best.count()) * 1.05);
      EXPECT_LE(static_cast<double>(time_of(step).count()), static_cast<double>(best.count()) * 1.031);
      mixed += std::any_of(of_best.begin(), of_best.end(), [&](size_t each) { return each != of_best.front(); });
    }
  }
  EXPECT_GT(mixed, 0u) << "somewhere buckets are better coded each for itself";
}

TEST(StepCompression, RefusesListsAndSpeedsWithoutACode) {
  EXPECT_THROW(step_on("star:4@1Gb/s", "int8,int4", 4), Error);
  predict::TrainOptions options;
  options.layers = 8, options.hidden = 1024, options.codec_speed = "20GB/s";
  EXPECT_THROW(make_train_setup(options), Error);
}

}  // namespace
}  // namespace banyan::answer
