#include "banyan/plan/repair/repair.h"

#include <gmock/gmock.h>

#include <chrono>
#include <ctime>
#include <iostream>
#include <random>

#include "banyan/base/error.h"
#include "banyan/fabric/edit.h"
#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/baselines/baselines.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/random_fabric.h"

namespace banyan::plan {
namespace {

TEST(Repair, Probe) {
  using K = fabric::FabricEdit::Kind;
  for (const auto& [spec, edit] : std::vector<std::pair<std::string, fabric::FabricEdit>>{
           {"dgx-h100:8", {K::fail, "gpu3-ib0"}},
           {"mi250:4", {K::fail, "gpu0-gpu1"}},
           {"torus:8x8", {K::fail, "x0y0-x1y0"}},
           {"leaf-spine:leaves=8,hosts=8,spines=8", {K::fail, "leaf0-spine0"}},
           {"leaf-spine:leaves=8,hosts=8,spines=4", {K::fail, "leaf0-spine0"}},
           {"dgx-h100:8", {K::degrade, "gpu3-ib0=20GB/s"}}, {"dgx-h100:8", {K::remove, "gpu3"}}}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                      CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::reduce}) {
      const ForestPlan plan = plan_forest(fabric, Collective::make(fabric, {.kind = kind}));
      const Fabric broken = fabric::edit_fabric(fabric, std::vector{edit});
      const clock_t begun = clock();
      const Repair repair = repair_plan(plan.schedule, broken);
      const double ms = 1e3 * static_cast<double>(clock() - begun) / CLOCKS_PER_SEC;
      const auto verdict = verify(repair.schedule, repair.seconds_per_byte);
      std::cout << spec << " " << edit.text << " " << to_string(kind) << ": kept " << repair.trees_kept << " moved "
                << repair.trees_moved << " chunks " << plan.schedule.chunk_count() << "->"
                << repair.schedule.chunk_count() << " height " << heights(plan.schedule).max << "->"
                << heights(repair.schedule).max << " of bound "
                << repair.bound.seconds_per_byte.to_double() / repair.seconds_per_byte.to_double() << " " << ms
                << " ms " << verdict.valid << verdict.reason << std::endl;
    }
  }
}

}  // namespace
}  // namespace banyan::plan
