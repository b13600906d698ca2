// Broadcast and reduce: trees of one root, by exchanges (exchange.h) or over hubs (hubs.h).

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/random_fabric.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

// The height of a plan that the verifier accepts and that reaches the bound.
uint32_t checked_height(const Fabric& fabric, CollectiveKind kind, NodeId root) {
  const ForestPlan plan = plan_forest(fabric, Collective::make(fabric, {.kind = kind, .root = root}));
  const schedule::Verdict verdict = verify(plan.schedule, plan.seconds_per_byte);
  EXPECT_TRUE(verdict.valid) << verdict.reason;
  EXPECT_EQ(plan.seconds_per_byte, plan.bound.seconds_per_byte);
  return heights(plan.schedule).max;
}

struct Height {
  const char* fabric;
  uint32_t most;
};

std::ostream& operator<<(std::ostream& out, const Height& height) { return out << height.fabric; }

class FromEveryRoot : public ::testing::TestWithParam<Height> {};

TEST_P(FromEveryRoot, BroadcastAndReduceAreLowAtTheBound) {
  const Fabric fabric = fabric::generate_fabric(GetParam().fabric);
  for (const NodeId root : fabric.ranks()) {
    for (const CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce}) {
      SCOPED_TRACE(::testing::Message() << to_string(kind) << " of " << fabric.name(root));
      EXPECT_LE(checked_height(fabric, kind, root), GetParam().most);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FromEveryRoot,
                         ::testing::Values(Height{"star:8", 2}, Height{"full:6", 2}, Height{"hypercube:6", 7},
                                           Height{"torus:8x8", 9}, Height{"torus:4x4x4", 7}, Height{"dgx-h100:8", 4},
                                           Height{"leaf-spine:leaves=8,hosts=8,spines=4", 3},
                                           Height{"leaf-spine:leaves=8,hosts=8,spines=2", 3}, Height{"fat-tree:k=4", 2},
                                           Height{"rail:boxes=4,gpus=4", 4}, Height{"dgx1-v100:2", 3}));

class FromSomeRoots : public ::testing::TestWithParam<Height> {};

TEST_P(FromSomeRoots, BroadcastIsLowAtTheBound) {
  const Fabric fabric = fabric::generate_fabric(GetParam().fabric);
  for (const NodeId root : {fabric.ranks().front(), fabric.ranks()[fabric.ranks().size() / 3], fabric.ranks().back()}) {
    SCOPED_TRACE(::testing::Message() << "from " << fabric.name(root));
    EXPECT_LE(checked_height(fabric, CollectiveKind::broadcast, root), GetParam().most);
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FromSomeRoots,
                         ::testing::Values(Height{"dgx-h100:64", 4}, Height{"fat-tree:k=8", 2},
                                           Height{"torus:8x8x8", 14},
                                           Height{"leaf-spine:leaves=16,hosts=16,spines=8", 3},
                                           Height{"rail:boxes=16,gpus=8,spines=2", 4},
                                           Height{"dragonfly:groups=17,routers=4,hosts=4", 4}, Height{"torus:4x8", 7},
                                           Height{"mi250:4", 12}, Height{"mi250:8", 15}));

TEST(Broadcast, ReachesTheBoundOnRandomFabrics) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Fabric fabric = banyan::testing::random_fabric({.ranks = 3 + static_cast<uint32_t>(random() % 14),
                                                          .switches = static_cast<uint32_t>(random() % 4),
                                                          .extra_cables = static_cast<uint32_t>(random() % 20),
                                                          .max_gigabytes = 1 + static_cast<uint32_t>(random() % 8),
                                                          .directed = random() % 2 == 0,
                                                          .seed = seed});
    const CollectiveKind kind = random() % 2 == 0 ? CollectiveKind::broadcast : CollectiveKind::reduce;
    checked_height(fabric, kind, fabric.ranks()[random() % fabric.ranks().size()]);
  }
}

// Of a plan that the verifier accepts.
uint32_t height_with(const char* spec, const ForestOptions& options, double* part_of_bound = nullptr) {
  const Fabric fabric = fabric::generate_fabric(spec);
  const Collective broadcast = Collective::make(fabric, {.kind = CollectiveKind::broadcast});
  const ForestPlan plan = plan_forest(fabric, broadcast, options);
  const schedule::Verdict verdict = verify(plan.schedule, plan.seconds_per_byte);
  EXPECT_TRUE(verdict.valid) << verdict.reason;
  if (part_of_bound) *part_of_bound = plan.bound.seconds_per_byte.to_double() / plan.seconds_per_byte.to_double();
  return heights(plan.schedule).max;
}

TEST(Broadcast, KeepsTheBoundBelowTheHeightsThatItReachesAnyway) {
  for (const Height& limit : {Height{"star:8", 2}, Height{"torus:8x8", 9}, Height{"dgx-h100:8", 4},
                              Height{"leaf-spine:leaves=8,hosts=8,spines=2", 3}, Height{"mi250:2", 10}}) {
    SCOPED_TRACE(limit.fabric);
    double part = 0;
    EXPECT_LE(height_with(limit.fabric, {.max_height = limit.most}, &part), limit.most);
    EXPECT_EQ(part, 1);
  }
}

TEST(Broadcast, AFixedNumberOfTreesIsLow) {
  const auto low = [](const char* spec, uint64_t trees) { return height_with(spec, {.trees = trees}); };
  EXPECT_LE(low("torus:8x8", 4), 9u);
  EXPECT_LE(low("dgx-h100:8", 56), 4u);
  EXPECT_LE(low("dgx-h100:8", 100), 6u);
  EXPECT_LE(low("star:8", 7), 2u);
  EXPECT_LE(low("star:8", 64), 2u);
}

class HeardPhases : public PlanObserver {
 public:
  void phase_begins(Phase phase) override { phase_ = phase; }
  void progress(double fraction) override {
    reports_ += phase_ == Phase::one_root ? 1 : 0;
    EXPECT_TRUE(fraction >= 0 && fraction <= 1) << fraction;
  }
  int reports() const { return reports_; }

 private:
  Phase phase_ = Phase::bound;
  int reports_ = 0;  // while trees of one root are planned
};

TEST(Broadcast, TellsOfItsProgress) {
  for (const char* spec : {"torus:8x8x8", "dgx-h100:8", "mi250:4"}) {
    HeardPhases heard;
    height_with(spec, {.observer = &heard});
    EXPECT_GE(heard.reports(), 10) << spec;
  }
}

TEST(Broadcast, IsTheSameEveryTime) {
  for (const char* spec : {"torus:4x4", "dgx-h100:4", "mi250:2"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    const Collective broadcast = Collective::make(fabric, {.kind = CollectiveKind::broadcast});
    const ForestPlan a = plan_forest(fabric, broadcast), b = plan_forest(fabric, broadcast);
    ASSERT_EQ(a.schedule.chunk_count(), b.schedule.chunk_count());
    for (size_t i = 0; i < a.schedule.chunk_count(); ++i)
      EXPECT_TRUE(std::ranges::equal(a.schedule.chunk(i).out_tree, b.schedule.chunk(i).out_tree));
  }
}

TEST(Broadcast, AWideRootServesEverybodyItself) {
  std::string text = "root <-> sw 700 Gb/s;";
  for (int leaf = 0; leaf < 7; ++leaf) text += "leaf" + std::to_string(leaf) + " <-> sw 100 Gb/s;";
  const Fabric fabric = fabric::parse_fabric_text(text);
  EXPECT_EQ(checked_height(fabric, CollectiveKind::broadcast, fabric.ranks().front()), 1u);
}

}  // namespace
}  // namespace banyan::plan
