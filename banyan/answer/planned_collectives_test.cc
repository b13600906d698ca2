#include "banyan/answer/planned_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/base/error.h"
#include "banyan/fabric/generate.h"
#include "banyan/plan/bound/bound.h"

namespace banyan::answer {
namespace {

using ::testing::HasSubstr;

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
