// Matrices of bytes whose amounts are up to 10^18 apart: each is planned, none ends the process.

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/flow/all_to_all.h"
#include "banyan/plan/flow/test_path_oracle.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/random_fabric.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

constexpr int kMatrices = 1000;
constexpr double kFarFromBound = 1e-6;

Fabric fabric_of(uint64_t seed, std::mt19937_64& random) {
  switch (random() % 4) {
    case 0:
      return fabric::generate_fabric("ring:" + std::to_string(3 + random() % 6));
    case 1:
      return fabric::generate_fabric(random() % 2 ? "rail:boxes=2,gpus=2" : "full:" + std::to_string(2 + random() % 3));
    default:
      return banyan::testing::random_fabric({.ranks = 2 + static_cast<uint32_t>(random() % 4),
                                             .switches = static_cast<uint32_t>(random() % 3),
                                             .extra_cables = static_cast<uint32_t>(random() % 5),
                                             .max_gigabytes = 1 + static_cast<uint32_t>(random() % 9),
                                             .directed = random() % 2 == 0,
                                             .seed = seed});
  }
}

// Small and large amounts mixed: ones, the largest, and any size between them.
std::vector<uint64_t> traffic_of(size_t ranks, std::mt19937_64& random) {
  const double digits = static_cast<double>(random() % 19);
  const uint64_t largest = static_cast<uint64_t>(std::pow(10.0, digits));
  const bool has_few_large = digits > 17;  // all together have at most 2^62
  std::vector<uint64_t> traffic;
  size_t large = 0;
  for (size_t i = 0; i < ranks * ranks; ++i) {
    const double share = static_cast<double>(random() % 1001) / 1000;
    uint64_t amount = static_cast<uint64_t>(std::pow(10.0, digits * share));
    if (random() % 3 == 0) amount = random() % 2;
    if (random() % 5 == 0) amount = largest;
    if (amount > largest / 100 && has_few_large && ++large > 3) amount = 1;
    traffic.push_back(amount);
  }
  traffic[1] = largest;
  return traffic;
}

struct Tally {
  int planned = 0, refused = 0;
};

void plan_matrix(uint64_t seed, Tally& tally) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const Fabric fabric = fabric_of(seed, random);
  const Collective collective = Collective::make(
      fabric, {.kind = CollectiveKind::all_to_all, .traffic = traffic_of(fabric.ranks().size(), random)});
  const std::optional<double> expected = oracle_seconds_per_byte(fabric, collective);
  ASSERT_TRUE(expected);
  try {
    const FlowPlan plan = plan_all_to_all(fabric, collective);
    const schedule::Verdict verdict = verify(plan.schedule, plan.seconds_per_byte);  // every pair, to the last part
    EXPECT_TRUE(verdict.valid) << verdict.reason;
    EXPECT_TRUE(holds(plan.lengths, fabric, collective));
    EXPECT_NEAR(plan.bound.to_double() / *expected, 1, kFarFromBound);
    EXPECT_LE((plan.seconds_per_byte / plan.bound).to_double(), 1 + kFarFromBound);
    ++tally.planned;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the exact bound needs more than 128 bits: the traffic of "));
    ++tally.refused;
  }
}

TEST(TrafficRatio, MatricesOfAnyRatioArePlannedToTheByte) {
  Tally tally;
  for (uint64_t seed = 1; seed <= kMatrices; ++seed) plan_matrix(seed, tally);
  EXPECT_LE(tally.refused * 100, kMatrices);
  EXPECT_EQ(tally.planned + tally.refused, kMatrices);
}

// The two from outside: a byte beside a gigabyte, and many of them.
TEST(TrafficRatio, AByteBesideAGigabyteIsPlanned) {
  const Fabric fabric = fabric::generate_fabric("full:3@1GB/s");
  const Collective collective = Collective::make(
      fabric, {.kind = CollectiveKind::all_to_all, .traffic = {0, 1, 1'000'000'000, 1, 0, 1, 1, 1, 0}});
  const FlowPlan plan = plan_all_to_all(fabric, collective);
  const schedule::Verdict verdict = verify(plan.schedule, plan.seconds_per_byte);
  EXPECT_TRUE(verdict.valid) << verdict.reason;
  // The billion and the two bytes of the first rank leave it by two links; M is a third of 1,000,000,005 bytes.
  EXPECT_NEAR(plan.bound.to_double(), 500'000'001.0 * 3 / 1'000'000'005 / 1e9, 1e-15);
  EXPECT_LE((plan.seconds_per_byte / plan.bound).to_double(), 1 + kFarFromBound);
}

TEST(TrafficRatio, NamesTheTwoAmountsThatAreTooFarApart) {
  const Fabric fabric = fabric::parse_fabric_text("a <-> b 999999937B/s; b <-> c 999999929B/s; a <-> c 999999893B/s");
  try {
    Collective::make(
        fabric, {.kind = CollectiveKind::all_to_all, .traffic = {0, 3, (uint64_t{1} << 60) + 1, 1, 0, 1, 1, 1, 0}});
    ADD_FAILURE() << "made";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("traffic of 1152921504606846977 from rank 0 to rank 2 and of 1 from "
                                                   "rank 1 to rank 0 is too far apart"));
  }
}

}  // namespace
}  // namespace banyan::plan
