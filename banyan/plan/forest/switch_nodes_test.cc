#include "banyan/plan/forest/switch_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "banyan/base/error.h"
#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/random_fabric.h"
#include "banyan/testing/tree_program.h"

namespace banyan::plan {
namespace {

Collective collective_of(const Fabric& fabric, CollectiveKind kind) {
  return Collective::make(fabric, {.kind = kind});
}

// Ranks that hang on switches alone, with links that differ by direction: where powers matter most.
std::optional<Fabric> random_switched_fabric(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](uint64_t below) { return static_cast<uint32_t>(random() % below); };
  const uint32_t ranks = 2 + pick(5), switches = 1 + pick(4), most = 1 + pick(4);
  const bool is_even = pick(2) == 0;
  Fabric::Builder builder;
  for (uint32_t i = 0; i < ranks; ++i) builder.add_rank("r" + std::to_string(i));
  for (uint32_t i = 0; i < switches; ++i) {
    builder.add_node({.name = "sw" + std::to_string(i),
                      .kind = fabric::NodeKind::switch_,
                      .multicast = pick(4) != 0,
                      .reduce = pick(4) != 0});
  }
  const auto join = [&](uint32_t a, uint32_t b) {
    const Bandwidth forth = Bandwidth::gigabytes_per_second(1 + pick(most));
    builder.add_link({.from = NodeId{a}, .to = NodeId{b}, .bandwidth = forth});
    const Bandwidth back = Bandwidth::gigabytes_per_second(1 + pick(most));
    if (is_even || pick(3) != 0) builder.add_link({.from = NodeId{b}, .to = NodeId{a}, .bandwidth = is_even ? forth : back});
  };
  for (uint32_t i = 0; i < ranks; ++i) {
    for (uint32_t n = 1 + pick(3); n > 0; --n) join(i, ranks + pick(switches));
  }
  for (uint32_t n = pick(2 * switches); n > 0; --n) {
    const uint32_t a = pick(switches), b = pick(switches);
    if (a != b) join(ranks + a, ranks + b);
  }
  try {
    return std::move(builder).build();
  } catch (const Error&) {
    return std::nullopt;  // some rank cannot reach another
  }
}

TEST(SwitchNodesXX, Stats2) {
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::broadcast, CollectiveKind::reduce}) {
  int same = 0, all = 0, bound_same = 0, oracle_is_bound = 0, refused = 0;
  double worst = 1;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const auto made = random_switched_fabric(seed);
    if (!made) continue;
    const Fabric fabric = *made;
    const auto both = std::ranges::any_of(fabric.nodes(), [](const Node& n) { return n.multicast || n.reduce;});
    if (!both) continue;
    const Collective collective = collective_of(fabric, kind);
    try {
    const ForestPlan plan = plan_forest(fabric, collective);
    const auto verdict = schedule::verify(plan.schedule, plan.seconds_per_byte);
    EXPECT_TRUE(verdict.valid) << verdict.reason << " seed " << seed;
    const double best = banyan::testing::best_trees_throughput(fabric, collective);
    const double ours = 1 / plan.seconds_per_byte.to_double(), bound = 1 / plan.bound.seconds_per_byte.to_double();
    ++all;
    EXPECT_LE(ours, best * (1 + 1e-6)) << seed;
    EXPECT_LE(best, bound * (1 + 1e-6)) << seed;
    same += ours >= best * (1 - 1e-6);
    if (ours < best * (1 - 1e-6)) printf("seed %d: %g of %g, bound %g\n", (int)seed, ours * 1e-9, best * 1e-9, bound * 1e-9);
    bound_same += ours >= bound * (1 - 1e-6);
    oracle_is_bound += best >= bound * (1 - 1e-6);
    worst = std::min(worst, ours / best);
    } catch (const Error& e) { ++refused; if (refused < 3) printf("%s\n", e.what()); }
  }
  printf("%d: %d of %d best, %d reach bound, oracle %d, worst %g refused %d\n", int(kind), same, all, bound_same, oracle_is_bound, worst, refused);
  }
}

}  // namespace
}  // namespace banyan::plan
