#include "banyan/answer/predicted_plans.h"

#include "banyan/fabric/generate.h"
#include "banyan/plan/planner.h"
#include "banyan/testing/test.h"

namespace banyan::answer {
namespace {

class EndsAtOnce : public predict::SimulationObserver {
 public:
  void progress(double, Picoseconds) override {}
  bool stop() override { return true; }
};

// On two boxes of eight.
std::vector<NamedPlan> plans_of(std::initializer_list<const char*> planners) {
  const Fabric fabric = fabric::generate_fabric("dgx-a100:2");
  const Collective collective = Collective::make(fabric, {.kind = CollectiveKind::all_reduce});
  std::vector<NamedPlan> plans;
  for (const char* name : planners) {
    plans.push_back({name, std::make_shared<const Schedule>(make_plan(plan::planner_named(name), fabric, collective))});
  }
  return plans;
}

TEST(PredictedPlans, NamesTheQuickestForEachSize) {
  const auto plans = plans_of({"hierarchical-ring", "binary-tree"});
  const std::vector<Bytes> sizes = {Bytes(64), Bytes(64 << 20)};
  const std::vector<TimedSize> timed = time_sizes(plans, sizes, {});
  ASSERT_EQ(timed.size(), 2);
  EXPECT_EQ(timed[0].best, 1) << "few hops for few bytes";
  EXPECT_EQ(timed[1].best, 0) << "NVLink within each box for many";
  const predict::ReportInput report = report_of(plans, timed, "two boxes");
  EXPECT_THAT(report.prediction.title,
              StartsWith("allreduce of 64 B to 64 MiB on two boxes; links under hierarchical-ring"));
  EXPECT_EQ(report_of(plans, {&timed[1], 1}, "two boxes").prediction.title,
            "allreduce of 64 MiB on two boxes, hierarchical-ring");
  EXPECT_EQ(report.points.size(), 4);
  EXPECT_EQ(report.prediction.time, timed[1].timed[0].simulation.time);
}

TEST(PredictedPlans, StopsWhereItIsInterrupted) {
  const auto plans = plans_of({"hierarchical-ring", "binary-tree"});
  EndsAtOnce observer;
  const std::vector<Bytes> sizes = {Bytes(1 << 20), Bytes(2 << 20)};
  const std::vector<TimedSize> timed = time_sizes(plans, sizes, {.observer = &observer});
  ASSERT_EQ(timed.size(), 1);
  EXPECT_FALSE(timed[0].is_complete());
  const predict::ReportInput report = report_of(plans, timed, "two boxes");
  EXPECT_FALSE(report.prediction.complete);
  EXPECT_TRUE(report.points.empty());
}

TEST(PredictedPlans, DoublesSizesUpToTheLast) {
  EXPECT_THAT(doubling_sizes(Bytes(3), Bytes(13)), ElementsAre(Bytes(3), Bytes(6), Bytes(12)));
  EXPECT_EQ(doubling_sizes(Bytes(1), Bytes(uint64_t{1} << 63)).size(), 64);
  EXPECT_THROW(doubling_sizes(Bytes(0), Bytes(8)), Error);
  EXPECT_THROW(doubling_sizes(Bytes(16), Bytes(8)), Error);
}

}  // namespace
}  // namespace banyan::answer
