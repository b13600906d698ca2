#include "banyan/plan/planner.h"

#include "banyan/fabric/generate.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

const CollectiveKind kKinds[] = {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                 CollectiveKind::all_reduce, CollectiveKind::broadcast,
                                 CollectiveKind::reduce,     CollectiveKind::all_to_all};

TEST(Planners, AreKnownByTheirNames) {
  ASSERT_FALSE(planners().empty());
  EXPECT_EQ(planners().front().name, "forest");
  for (const Planner& planner : planners()) EXPECT_EQ(&planner_named(planner.name), &planner) << planner.name;
}

TEST(Planners, AMistypedNameIsRefusedWithTheNearestAndAllOthers) {
  try {
    planner_named("duoble-binary-tree");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'double-binary-tree'?"));
    EXPECT_THAT(error.what(), HasSubstr("known: forest, "));
  }
}

// A switch with eight ranks, and eight ranks joined directly.
TEST(Planners, EachPlansEveryCollectiveOrSaysWhyNot) {
  for (const char* spec : {"star:8@10GB/s", "kautz:n=8,d=3@10GB/s"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    for (const Planner& planner : planners()) {
      for (const CollectiveKind kind : kKinds) {
        const Collective collective = Collective::make(fabric, {.kind = kind});
        try {
          EXPECT_TRUE(verify(make_plan(planner, fabric, collective)).valid) << planner.name;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::unsupported) << planner.name << ": " << error.what();
          EXPECT_FALSE(error.message().empty());
        }
      }
    }
  }
}

TEST(Planners, TwoTierIsForAllToAllBetweenBoxes) {
  const Fabric boxes = fabric::generate_fabric("dgx-h100:2");
  const Planner& planner = planner_named("two-tier");
  // Each rank sends a sixteenth of its bytes to each of eight ranks of the other box: 8 / 16 of M by 50 GB/s.
  EXPECT_EQ(seconds_per_byte(make_plan(planner, boxes, Collective::make(boxes, {.kind = CollectiveKind::all_to_all}))),
            Fraction(1, 100'000'000'000));
  EXPECT_THROW(make_plan(planner, boxes, Collective::make(boxes, {})), Error);
}

// A schedule with a wrong claim: one byte takes a second on no link of this fabric.
TEST(PlannersDeathTest, APlanThatTheVerifierRejectsEndsTheProcess) {
  const Fabric fabric = fabric::generate_fabric("ring:4@1GB/s");
  const Schedule schedule = make_plan(planner_named("ring"), fabric, Collective::make(fabric, {}));
  EXPECT_DEATH(check_own_plan(schedule, "ring", Fraction(1)), "the verifier rejects a plan of planner ring");
}

}  // namespace
}  // namespace banyan::plan
