#include "banyan/predict/codes/measured_step.h"

#include "banyan/predict/codes/step_meter.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

const CodeLaw kInt8{.name = "int8", .share = 0.25, .work = 1e-10, .work_between_boxes = 0.8e-10, .loss = 0.0075};
const CodeLaw kHalf{.name = "bfloat16", .share = 0.5, .work = 1e-10, .loss = 0.001};
const CodeLaw kInt4{.name = "int4", .share = 0.13, .work = 1e-10, .loss = 0.1};

// A step as an oracle would have it: buckets that are there at equal distances, one link, in their order.
struct World {
  std::vector<double> bytes;
  double backward = 0;  // of each bucket but the first
  double rest = 0;      // of a step, after the last allreduce
  double latency = 0, per_byte = 0;

  double step(const std::vector<double>& shares, const std::vector<double>& work) const {
    double now = 0, link = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      now += (i > 0 ? backward : 0) + bytes[i] * work[i];
      link = std::max(link, now) + latency + bytes[i] * per_byte * shares[i];
    }
    return std::max(now, link) + rest;
  }
  double step(const CodeLaw& law) const {
    return step(std::vector<double>(bytes.size(), law.share), std::vector<double>(bytes.size(), law.work));
  }
  double step() const { return step(CodeLaw{}); }

  // As a meter sees it.
  void measure(StepMeter& meter, double begin) const {
    meter.begin_step(begin);
    std::vector<double> ends;
    double link = begin;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const double there = begin + static_cast<double>(i) * backward;
      EXPECT_EQ(meter.begin_bucket(bytes[i], there), i);
      link = std::max(link, there) + latency + bytes[i] * per_byte;
      ends.push_back(link);
    }
    for (size_t i = 0; i < ends.size(); ++i) meter.end_bucket(i, ends[i]);
  }
  MeasuredStep measured() const {
    StepMeter meter;
    double now = 17;
    for (int i = 0; i < 5; ++i, now += step()) measure(meter, now);
    meter.begin_step(now);
    EXPECT_EQ(meter.steps(), 5U);
    MeasuredStep found = meter.medians();
    found.latency = latency;
    return found;
  }
};

const World kSlow{.bytes = {1e6, 25e6, 25e6}, .backward = 0.01, .rest = 0.02, .latency = 1e-4, .per_byte = 1e-8};

TEST(MeasuredStep, FindsTheLinksOfTheStep) {
  const MeasuredStep step = kSlow.measured();
  EXPECT_NEAR(step.period, kSlow.step(), 1e-9);
  EXPECT_NEAR(seconds_per_byte(step), kSlow.per_byte, 1e-12);
  EXPECT_NEAR(step.buckets[2].begin, 0.02, 1e-9);
}

TEST(MeasuredStep, PredictsEveryCodeAsTheOracleDoes) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> size(1e-6);
    std::uniform_real_distribution<double> power(-2, 2);
    World world{.bytes = std::vector<double>(1 + random() % 9),
                .backward = 1e-3 * std::pow(10, power(random)),
                .rest = 1e-2 * std::pow(10, power(random)),
                .latency = 1e-5 * std::pow(10, power(random)),
                .per_byte = 1e-9 * std::pow(10, power(random))};
    for (double& bytes : world.bytes) bytes = size(random);
    const std::vector<CodeLaw> codes = {kHalf, kInt8, kInt4};
    const StepChoice choice = choose_codes(world.measured(), codes);
    ASSERT_GE(choice.candidates.size(), 4U);
    EXPECT_EQ(choice.candidates[0].name, "none");
    EXPECT_NEAR(choice.candidates[0].seconds, world.step(), 1e-6 * world.step());
    for (size_t i = 0; i < codes.size(); ++i) {
      EXPECT_NEAR(choice.candidates[i + 1].seconds, world.step(codes[i]), 1e-6 * world.step()) << codes[i].name;
    }
    // What is chosen is never slower than none, gains enough, and is as quick as the rule wants.
    const double chosen = choice.chosen().seconds;
    EXPECT_LE(chosen, world.step() * (choice.best == 0 ? 1 + 1e-9 : 1 - kLeastGainOfCode));
    EXPECT_LE(choice.chosen().loss, kMostLossOfAuto);
    std::vector<double> shares, work;
    for (const uint32_t code : choice.chosen().codes) {
      shares.push_back(code == 0 ? 1 : codes[code - 1].share);
      work.push_back(code == 0 ? 0 : codes[code - 1].work);
    }
    EXPECT_NEAR(chosen, world.step(shares, work), 1e-6 * world.step());
  }
}

// Codes between boxes, by closed forms: of one bucket; of buckets that are far apart; and of buckets that wait for the
// links between boxes only.
struct BoxedWorld {
  World world;
  MeasuredStep::Boxes boxes;

  double work(double bytes) const { return bytes * kInt8.work_between_boxes / boxes.ranks; }
  double inside(double bytes) const { return boxes.inside.latency + boxes.inside.per_byte * bytes; }
  double across(double bytes) const {
    return boxes.across.latency + boxes.across.per_byte * bytes * kInt8.share / boxes.ranks;
  }
  StepCandidate predicted() const {
    MeasuredStep step = world.measured();
    step.boxes = boxes;
    const StepChoice choice = choose_codes(step, std::vector<CodeLaw>{kInt8});
    EXPECT_GE(choice.candidates.size(), 3U);
    EXPECT_EQ(choice.candidates[1].name, "int8");
    EXPECT_FALSE(choice.candidates[1].is_between_boxes);
    EXPECT_NEAR(choice.candidates[1].seconds, world.step(kInt8), 1e-6 * world.step());  // as without boxes
    EXPECT_TRUE(choice.candidates[2].is_between_boxes);
    return choice.candidates[2];
  }
};

TEST(MeasuredStep, PredictsCodesBetweenBoxes) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> power(-1, 1);
    const auto about = [&](double middle) { return middle * std::pow(10, power(random)); };
    BoxedWorld boxed{.world = {.bytes = std::vector<double>(1 + random() % 6),
                               .backward = 0,
                               .rest = about(1e-2),
                               .latency = about(1e-5),
                               .per_byte = about(1e-9)},
                     .boxes = {.ranks = 2 + static_cast<uint32_t>(random() % 7),
                               .inside = {.latency = about(1e-5), .per_byte = about(1e-10)},
                               .across = {.latency = about(1e-4), .per_byte = about(1e-9)}}};
    std::vector<double>& bytes = boxed.world.bytes;
    double longest = 0, of_across = 0;
    for (double& one : bytes) {
      one = about(1e7);
      longest = std::max(longest, boxed.work(one) + 2 * boxed.inside(one) + boxed.across(one) + one * 1e-8);
    }
    boxed.world.backward = 2 * longest;
    const StepCandidate apart = boxed.predicted();
    EXPECT_EQ(apart.name, "int8 between boxes");
    EXPECT_EQ(apart.codes, std::vector<uint32_t>(bytes.size(), 1));
    EXPECT_EQ(apart.loss, kInt8.loss);
    // Codes delay the backward pass by all buckets before, too.
    double end = 2 * longest * static_cast<double>(bytes.size() - 1);
    for (const double one : bytes) end += boxed.work(one);
    end += 2 * boxed.inside(bytes.back()) + boxed.across(bytes.back());
    EXPECT_NEAR(apart.seconds, end + boxed.world.rest, 1e-6 * apart.seconds);

    // All are there at once, equal, and quick in the box.
    std::fill(bytes.begin(), bytes.end(), 1e7);
    boxed.world.backward = 0;
    boxed.boxes.inside = {.latency = 0, .per_byte = boxed.across(1e7) / 1e7 / 100};
    for (const double one : bytes) of_across += boxed.across(one);
    end = boxed.work(1e7) + 2 * boxed.inside(1e7) + of_across;
    if (boxed.work(1e7) < boxed.across(1e7) / 2) {
      EXPECT_NEAR(boxed.predicted().seconds, end + boxed.world.rest, 1e-6 * end);
    }
  }
}

TEST(MeasuredStep, TakesBoxesWhereTheyAreQuickInside) {
  const std::vector<CodeLaw> codes = {kHalf, kInt8};
  MeasuredStep step = kSlow.measured();
  step.boxes = {.ranks = 4,
                .inside = {.latency = 1e-5, .per_byte = 1e-10},
                .across = {.latency = 1e-4, .per_byte = 4 * kSlow.per_byte / 2}};  // half as much goes over the cable
  EXPECT_EQ(choose_codes(step, codes).chosen().name, "int8 between boxes");
  EXPECT_LT(choose_codes(step, codes).chosen().seconds, kSlow.step(kInt8) * 0.8);
  step.boxes->inside.per_byte = kSlow.per_byte;  // as slow as the cable
  EXPECT_EQ(choose_codes(step, codes).chosen().name, "int8");
  EXPECT_EQ(choose_codes(step, codes).candidates.size(), 5U);
}

TEST(MeasuredStep, SaysNoWhereTheLinkIsFast) {
  World fast = kSlow;
  fast.per_byte = 1e-10;
  const StepChoice choice = choose_codes(fast.measured(), std::vector<CodeLaw>{kHalf, kInt8});
  EXPECT_EQ(choice.chosen().name, "none");
}

TEST(MeasuredStep, TakesWhatLosesMuchWhenItMay) {
  const std::vector<CodeLaw> codes = {kHalf, kInt8, kInt4};
  EXPECT_EQ(choose_codes(kSlow.measured(), codes).chosen().name, "int8");
  EXPECT_EQ(choose_codes(kSlow.measured(), codes, {.most_loss = 0.2}).chosen().name, "int4");
  EXPECT_EQ(choose_codes(kSlow.measured(), codes, {.most_loss = 0.2, .least_gain = 0.9}).chosen().name, "none");
}

TEST(MeasuredStep, LeavesHiddenBucketsAloneWhereACoreWorksLongForACode) {
  // The first is there and gone before the second, and would only delay the backward pass.
  const World world{.bytes = {20e6, 25e6}, .backward = 0.5, .rest = 0.01, .latency = 1e-4, .per_byte = 2e-8};
  CodeLaw slow = kInt8;
  slow.work = 6e-9;
  const StepChoice choice = choose_codes(world.measured(), std::vector<CodeLaw>{slow});
  EXPECT_EQ(choice.chosen().name, "int8 where it gains");
  EXPECT_EQ(choice.chosen().codes, (std::vector<uint32_t>{0, 1}));
  EXPECT_NEAR(choice.chosen().seconds, world.step({1, 0.25}, {0, slow.work}), 1e-6);
  EXPECT_LT(choice.chosen().seconds, world.step(slow) * 0.97);
  EXPECT_LT(world.step(slow), world.step());
}

TEST(StepMeter, TakesMediansAndForgetsOtherBuckets) {
  StepMeter meter;
  World other = kSlow;
  other.bytes = {51e6};
  double now = 1;
  other.measure(meter, now);
  now += 100;  // as when a model is judged in between
  kSlow.measure(meter, now);
  now += kSlow.step();
  kSlow.measure(meter, now);
  now += kSlow.step();
  kSlow.measure(meter, now);
  meter.begin_step(now + kSlow.step());
  const MeasuredStep found = meter.medians();
  EXPECT_EQ(meter.steps(), 4U);
  EXPECT_NEAR(found.period, kSlow.step(), 1e-9);
  ASSERT_EQ(found.buckets.size(), 3U);
  EXPECT_NEAR(found.buckets[0].seconds, 1e-4 + 1e6 * 1e-8, 1e-9);
  meter.clear();
  EXPECT_EQ(meter.steps(), 0U);
}

TEST(CodeRule, TakesTheOneThatLosesLeastOfTheQuick) {
  const std::vector<TimedCode> ways = {{.seconds = 1, .loss = 0.01, .is_coded = true},
                                       {.seconds = 2},
                                       {.seconds = 1.02, .loss = 0.001, .is_coded = true},
                                       {.seconds = 0.5, .loss = 0.1, .is_coded = true}};
  EXPECT_EQ(best_by_rule(ways).best, 2U);
  EXPECT_EQ(best_by_rule(ways).quickest, 0U);
  EXPECT_EQ(best_by_rule(ways, {.most_loss = 0.2}).best, 3U);
  EXPECT_EQ(best_by_rule(ways, {.least_gain = 0.6}).best, 1U);
  EXPECT_EQ(best_by_rule(ways, {.most_loss = 0}).quickest, std::nullopt);
}

}  // namespace
}  // namespace banyan::predict
