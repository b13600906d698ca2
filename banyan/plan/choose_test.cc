#include "banyan/plan/choose.h"

#include "banyan/fabric/generate.h"
#include "banyan/plan/bound/bound.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

std::vector<Candidate> candidates_on(const std::string& spec, CollectiveKind kind) {
  const Fabric fabric = fabric::generate_fabric(spec);
  return plan_candidates(fabric, Collective::make(fabric, {.kind = kind}));
}

TEST(Choose, TakesTheOptimumForLargeMessagesAndLowTreesForSmallOnes) {
  const auto candidates = candidates_on("mi250:2", CollectiveKind::all_reduce);
  ASSERT_GE(candidates.size(), 2u);
  const Schedule& large = choose(candidates, Bytes(uint64_t{1} << 30)).schedule;
  const Schedule& small = choose(candidates, Bytes(64)).schedule;
  EXPECT_EQ(seconds_per_byte(large), compute_bound(large.fabric(), large.collective()).seconds_per_byte);
  EXPECT_LT(heights(small).max, heights(large).max);
}

// Both are optimal, but in the trees every rank receives from all others at once.
TEST(Choose, TakesTheRingForLargeMessagesWhereItIsAsQuickAsTheForest) {
  const auto candidates = candidates_on("leaf-spine:leaves=4,hosts=4,spines=2", CollectiveKind::all_gather);
  EXPECT_EQ(choose(candidates, Bytes(uint64_t{1} << 30)).planner, "ring");
  EXPECT_NE(choose(candidates, Bytes(64)).planner, "ring");
  const Schedule& large = choose(candidates, Bytes(uint64_t{1} << 30)).schedule;
  EXPECT_EQ(seconds_per_byte(large), compute_bound(large.fabric(), large.collective()).seconds_per_byte);
}

TEST(Choose, EveryCandidateIsRightAndBestForSomeSize) {
  for (const std::string spec : {"ring:5", "star:6", "leaf-spine:leaves=2,hosts=3,spines=2", "torus:3x3"}) {
    for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                      CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::reduce}) {
      const auto candidates = candidates_on(spec, kind);
      ASSERT_FALSE(candidates.empty()) << spec;
      for (size_t i = 0; i < candidates.size(); ++i) {
        EXPECT_TRUE(verify(candidates[i].schedule).valid) << spec << " " << candidates[i].planner;
        if (i == 0) continue;
        const Schedule &before = candidates[i - 1].schedule, &after = candidates[i].schedule;
        EXPECT_LT(estimate_seconds(after, Bytes(0)), estimate_seconds(before, Bytes(0))) << spec;
        EXPECT_GE(seconds_per_byte(after).to_double() * 1.0501, seconds_per_byte(before).to_double()) << spec;
      }
    }
  }
}

}  // namespace
}  // namespace banyan::plan
