#include "banyan/answer/planned_collectives.h"

#include "banyan/fabric/generate.h"
#include "banyan/plan/bound/bound.h"
#include "banyan/testing/test.h"

namespace banyan::answer {
namespace {

predict::CollectiveCall all_gather(const Fabric& fabric, uint64_t bytes) {
  return {.kind = CollectiveKind::all_gather, .members = fabric.ranks(), .bytes = bytes};
}

// Seconds that the busiest link needs for the bytes which a footprint puts on it.
double busiest_seconds(const Fabric& fabric, const predict::Footprint& footprint) {
  double most = 0;
  for (const predict::FluidHop& hop : footprint.hops) {
    const auto rate = static_cast<double>(fabric.links()[hop.link].bandwidth.bytes_per_second());
    most = std::max(most, hop.coefficient / rate);
  }
  return most;
}

TEST(PlannedCollectives, OfTheForestLoadLinksAsTheBoundSays) {
  const Fabric fabric = fabric::generate_fabric("mi250:2");
  const auto plans = make_plans_by("forest", fabric);
  const double bound = plan::compute_bound(fabric, Collective::make(fabric, {})).seconds_per_byte.to_double();
  for (const uint64_t bytes : {uint64_t{1} << 20, uint64_t{3} << 30}) {
    EXPECT_NEAR(busiest_seconds(fabric, plans->footprint(all_gather(fabric, bytes))),
                bound * static_cast<double>(bytes), 1e-9 * bound * static_cast<double>(bytes));
  }
}

TEST(PlannedCollectives, EveryPlannerCanBeNamed) {
  const Fabric fabric = fabric::generate_fabric("star:8");
  for (const char* name : {"rings", "forest", "ring", "double-binary-tree"}) {
    EXPECT_FALSE(make_plans_by(name, fabric)->footprint(all_gather(fabric, 1 << 20)).hops.empty()) << name;
  }
}

predict::CollectiveCall all_to_all(const Fabric& fabric, uint64_t bytes) {
  return {.kind = CollectiveKind::all_to_all, .members = fabric.ranks(), .bytes = bytes};
}

TEST(PlannedCollectives, OfAllToAllsAreThoseOfTheFlowWhereItIsQuicker) {
  const Fabric torus = fabric::generate_fabric("torus:4x4@1GB/s");
  const double bytes = 1 << 30;
  // Half a byte of M crosses each link; straight, the first of several shortest ways is taken.
  for (const char* name : {"forest", "ring", "flow"}) {
    const predict::Footprint footprint = make_plans_by(name, torus)->footprint(all_to_all(torus, 1 << 30));
    EXPECT_NEAR(busiest_seconds(torus, footprint), 0.5e-9 * bytes, 1e-6) << name;
  }
  EXPECT_GT(busiest_seconds(torus, make_plans_by("rings", torus)->footprint(all_to_all(torus, 1 << 30))), 0.6);
  EXPECT_GT(busiest_seconds(torus, make_plans_by("pairwise", torus)->footprint(all_to_all(torus, 1 << 30))), 0.6);
  const auto forest = make_plans_by("forest", torus);
  EXPECT_EQ(forest->messages()->transfers(all_to_all(torus, 1 << 20), {}).first_links().size(), 64u);
}

TEST(PlannedCollectives, OfAllToAllsGoStraightWhereThatIsAsQuick) {
  const Fabric boxes = fabric::generate_fabric("dgx-a100:2");
  const predict::Footprint planned = make_plans_by("forest", boxes)->footprint(all_to_all(boxes, 1 << 20)),
                           straight = make_plans_by("rings", boxes)->footprint(all_to_all(boxes, 1 << 20));
  EXPECT_EQ(planned.latency, straight.latency);
  ASSERT_EQ(planned.hops.size(), straight.hops.size());
  for (size_t i = 0; i < planned.hops.size(); ++i) EXPECT_EQ(planned.hops[i].coefficient, straight.hops[i].coefficient);
  // Where ranks that take no part stand between, nothing else can be done.
  const Fabric ring = fabric::generate_fabric("ring:6");
  const std::vector<NodeId> some{ring.ranks()[0], ring.ranks()[2], ring.ranks()[4]};
  EXPECT_FALSE(make_plans_by("forest", ring)
                   ->footprint({.kind = CollectiveKind::all_to_all, .members = some, .bytes = 100})
                   .hops.empty());
}

TEST(PlannedCollectives, OfAPlannerOfAllToAllsAreRingsElsewhere) {
  const Fabric star = fabric::generate_fabric("star:4");
  EXPECT_EQ(make_plans_by("flow", star)->footprint(all_gather(star, 1 << 20)).latency,
            make_plans_by("rings", star)->footprint(all_gather(star, 1 << 20)).latency);
}

TEST(PlannedCollectives, RefuseAnUnknownNameWithTheNearest) {
  try {
    make_plans_by("forst", fabric::generate_fabric("star:4"));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("unknown algorithm 'forst' (did you mean 'forest'?) (known: rings, forest, "));
  }
}

}  // namespace
}  // namespace banyan::answer
