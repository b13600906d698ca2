#include "banyan/plan/compare.h"

#include "banyan/base/check.h"
#include "banyan/fabric/edit.h"
#include "banyan/fabric/generate.h"
#include "banyan/plan/baselines/baselines.h"
#include "banyan/plan/planner.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

const std::vector<Bytes> kSizes{Bytes{1'000'000}, Bytes{1'000'000'000}};

// With the bidirectional ring in the place of the forest: it is optimal here.
std::vector<ComparisonRow> compare_on_ring(CollectiveKind kind) {
  const Fabric fabric = fabric::generate_fabric("ring:8@1GB/s");
  const Collective collective = Collective::make(fabric, {.kind = kind});
  return compare_planners(plan_baseline(Baseline::bidirectional_ring, fabric, collective),
                          {.bound = compute_bound(fabric, collective),
                           .sizes = kSizes,
                           .model = {.per_message = std::chrono::microseconds(10)}});
}

const ComparisonRow& row_of(const std::vector<ComparisonRow>& rows, const std::string& planner) {
  const auto found = std::ranges::find(rows, planner, &ComparisonRow::planner);
  CHECK(found != rows.end()) << planner;
  return *found;
}

TEST(Compare, ListsTheForestAndThenEveryOtherPlanner) {
  std::vector<std::string> planners;
  for (const ComparisonRow& row : compare_on_ring(CollectiveKind::all_gather)) planners.push_back(row.planner);
  EXPECT_THAT(planners, ::testing::ElementsAre("forest", "forest-1-tree", "low-forest", "ring", "bidirectional-ring",
                                               "binary-tree", "double-binary-tree", "recursive-doubling",
                                               "hierarchical-ring", "nccl-rings", "bfb"));
}

TEST(Compare, MeasuresEachAgainstTheBound) {
  const std::vector<ComparisonRow> rows = compare_on_ring(CollectiveKind::all_gather);
  EXPECT_EQ(rows[0].seconds_per_byte, Fraction(7, 16'000'000'000));
  EXPECT_DOUBLE_EQ(rows[0].over_bound, 1);
  const ComparisonRow& ring = row_of(rows, "ring");
  EXPECT_DOUBLE_EQ(ring.over_bound, 2);
  EXPECT_EQ(ring.heights.max, 7u);
  EXPECT_EQ(ring.chunks, 8u);
  EXPECT_EQ(row_of(rows, "bidirectional-ring").chunks, 16u);
  EXPECT_EQ(row_of(rows, "low-forest").heights.max, 4u);
  ASSERT_EQ(ring.estimate_seconds.size(), 2u);
  EXPECT_DOUBLE_EQ(ring.estimate_seconds[0], 7 * 10e-6 + 1e-3 * 7 / 8);
  EXPECT_DOUBLE_EQ(ring.estimate_seconds[1], 7 * 10e-6 + 1.0 * 7 / 8);
}

// A rank without a NIC of its own is two hops from all others. The packer finds no trees that low, however much time it
// gives to links; breadth-first trees are.
TEST(Compare, LowForestsAreAsLowAsAnyOnBrokenFabrics) {
  const fabric::FabricEdit fails[] = {{.kind = fabric::FabricEdit::Kind::fail, .text = "gpu20-ib0"}};
  const Fabric fabric = fabric::edit_fabric(fabric::generate_fabric("mi250:2"), fails);
  const Collective collective = Collective::make(fabric, {.kind = CollectiveKind::all_reduce});
  const Schedule schedule = make_plan(planner_named("low-forest"), fabric, collective);
  EXPECT_TRUE(schedule::verify(schedule).valid);
  EXPECT_EQ(schedule::heights(schedule).max, 4u);
}

// The forest packs the same shortest ways on a ring; the diameter is 4.
TEST(Compare, HasBreadthFirstBroadcastsWhereRanksAreJoinedDirectly) {
  const std::vector<ComparisonRow> rows = compare_on_ring(CollectiveKind::all_gather);
  EXPECT_EQ(rows.back().planner, "bfb");
  EXPECT_DOUBLE_EQ(rows.back().over_bound, 1);
  EXPECT_EQ(rows.back().heights.max, 4u);
}

TEST(Compare, CountsBothPhasesOfAnAllreduce) {
  const std::vector<ComparisonRow> rows = compare_on_ring(CollectiveKind::all_reduce);
  EXPECT_EQ(rows[0].seconds_per_byte, Fraction(14, 16'000'000'000));
  EXPECT_DOUBLE_EQ(rows[0].over_bound, 1);
  EXPECT_EQ(rows[0].heights.max, 14u);
}

TEST(Compare, SaysWhyABaselineCannotRun) {
  const std::vector<ComparisonRow> rows = compare_on_ring(CollectiveKind::all_gather);
  EXPECT_THAT(row_of(rows, "binary-tree").why_not, ::testing::HasSubstr("without passing through a rank"));
  EXPECT_THAT(row_of(rows, "hierarchical-ring").why_not, ::testing::HasSubstr("one box"));
  EXPECT_TRUE(row_of(rows, "binary-tree").estimate_seconds.empty());
  EXPECT_THAT(row_of(rows, "ring").why_not, ::testing::IsEmpty());
}

}  // namespace
}  // namespace banyan::plan
