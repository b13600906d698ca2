#include "banyan/plan/baselines/pairwise.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

Collective all_to_all(const Fabric& fabric, std::vector<uint64_t> traffic = {}) {
  return Collective::make(fabric, {.kind = CollectiveKind::all_to_all, .traffic = std::move(traffic)});
}

TEST(Pairwise, SendsEveryShardDirectlyThroughSwitches) {
  const Fabric fabric = fabric::generate_fabric("star:8@1GB/s");
  const Schedule schedule = plan_pairwise(fabric, all_to_all(fabric));
  EXPECT_TRUE(verify(schedule, Fraction(7, 8'000'000'000)).valid);
  EXPECT_EQ(schedule.chunk_count(), 56u);
  EXPECT_EQ(heights(schedule).max, 1u);
}

TEST(Pairwise, RanksForwardWhereThereAreNoSwitches) {
  const Fabric fabric = fabric::generate_fabric("torus:4x4");
  const Schedule schedule = plan_pairwise(fabric, all_to_all(fabric));
  EXPECT_TRUE(verify(schedule).valid);
  EXPECT_EQ(heights(schedule).max, 4u);
}

TEST(Pairwise, LeavesOutPairsWithoutTraffic) {
  const Fabric fabric = fabric::generate_fabric("star:3@1GB/s");
  const Schedule schedule = plan_pairwise(fabric, all_to_all(fabric, {0, 2, 0, 0, 9, 0, 1, 0, 0}));
  EXPECT_TRUE(verify(schedule).valid);
  EXPECT_EQ(schedule.chunk_count(), 2u);
}

TEST(Pairwise, NamesTheRankInTheWay) {
  const Fabric fabric = fabric::parse_fabric_text("a <-> b 1GB/s; b <-> c 1GB/s");
  const Collective collective =
      Collective::make(fabric, {.kind = CollectiveKind::all_to_all, .ranks = {fabric.at("a"), fabric.at("c")}});
  try {
    plan_pairwise(fabric, collective);
    ADD_FAILURE() << "planned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("from a to c passes through b, which does not take part"));
  }
}

}  // namespace
}  // namespace banyan::plan
