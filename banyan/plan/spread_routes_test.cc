#include "banyan/plan/spread_routes.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/baselines/test_baselines.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

constexpr CollectiveKind kAllKinds[] = {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                        CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::reduce};

Schedule ring(const Fabric& fabric, CollectiveKind kind = CollectiveKind::all_reduce) {
  return plan_baseline(Baseline::ring, fabric, Collective::make(fabric, {.kind = kind}));
}

// The share of the buffer that crosses a link.
double crosses(const Schedule& schedule, const std::string& from, const std::string& to) {
  const std::vector<uint64_t> loads = schedule::link_loads(schedule);
  for (uint32_t link = 0; link < loads.size(); ++link) {
    const Link& each = schedule.fabric().link(LinkId{link});
    if (schedule.fabric().name(each.from) == from && schedule.fabric().name(each.to) == to) {
      return static_cast<double>(loads[link]) / static_cast<double>(schedule.total_units());
    }
  }
  ADD_FAILURE() << "no link " << from << " -> " << to;
  return 0;
}

TEST(SpreadRoutes, ARingCrossesBothSpinesAlike) {
  const Fabric fabric = fabric::generate_fabric("leaf-spine:leaves=2,hosts=2,spines=2,uplink=200Mb/s@400Mb/s");
  const Schedule plain = ring(fabric);
  EXPECT_DOUBLE_EQ(crosses(plain, "leaf0", "spine0"), 1.5);
  EXPECT_DOUBLE_EQ(crosses(plain, "leaf0", "spine1"), 0);
  const Schedule spread = spread_routes(ring(fabric));
  for (const char* spine : {"spine0", "spine1"}) {
    for (const char* leaf : {"leaf0", "leaf1"}) {
      EXPECT_DOUBLE_EQ(crosses(spread, leaf, spine), 0.75) << leaf << " " << spine;
      EXPECT_DOUBLE_EQ(crosses(spread, spine, leaf), 0.75) << leaf << " " << spine;
    }
  }
  EXPECT_EQ(schedule::seconds_per_byte(plain), schedule::seconds_per_byte(spread) * Fraction(2, 1));
}

TEST(SpreadRoutes, EachChunkCrossesBothSpinesAtOnce) {
  const Fabric fabric = fabric::generate_fabric("leaf-spine:leaves=2,hosts=2,spines=2,uplink=200Mb/s@400Mb/s");
  const Schedule plain = ring(fabric), spread = spread_routes(ring(fabric));
  ASSERT_EQ(spread.chunk_count(), 2 * plain.chunk_count());
  for (size_t i = 0; i < spread.chunk_count(); i += 2) {
    const Chunk one = spread.chunk(i), other = spread.chunk(i + 1);
    EXPECT_EQ(one.root, other.root);
    EXPECT_EQ(one.units, other.units);
    for (size_t edge = 0; edge < one.out_tree.size(); ++edge) {
      const Route first = spread.route(one.out_tree[edge]), second = spread.route(other.out_tree[edge]);
      EXPECT_EQ(std::pair(first.from, first.to), std::pair(second.from, second.to));
      if (first.links.size() == 4) {
        EXPECT_NE(first.links[1], second.links[1]) << "the same spine";
      }
    }
  }
}

TEST(SpreadRoutes, AlsoWhereTheSpinesDoNotDecideHowLongACallTakes) {
  const Fabric fabric = fabric::generate_fabric("leaf-spine:leaves=2,hosts=2,spines=2,uplink=800Mb/s@400Mb/s");
  EXPECT_DOUBLE_EQ(crosses(spread_routes(ring(fabric)), "leaf0", "spine1"), 0.75);
}

TEST(SpreadRoutes, ThickerWaysCarryMore) {
  const Fabric fabric = fabric::parse_fabric_text(
      "a <-> swl 9GB/s; b <-> swr 9GB/s; swl <-> sw1 1GB/s; sw1 <-> swr 1GB/s; swl <-> sw2 3GB/s; sw2 <-> swr 3GB/s",
      "test");
  Schedule::Builder builder(fabric, Collective::make(fabric, {.kind = CollectiveKind::broadcast}));
  const auto link = [&](const char* from, const char* to) {
    for (uint32_t each = 0; each < fabric.links().size(); ++each) {
      if (fabric.name(fabric.link(LinkId{each}).from) == from && fabric.name(fabric.link(LinkId{each}).to) == to) {
        return LinkId{each};
      }
    }
    ADD_FAILURE() << "no link " << from << " -> " << to;
    return LinkId{0};
  };
  const std::vector<LinkId> way = {link("a", "swl"), link("swl", "sw1"), link("sw1", "swr"), link("swr", "b")};
  const std::vector<RouteId> tree = {builder.add_route(way)};
  for (int chunk = 0; chunk < 4; ++chunk) builder.add_chunk({.root = fabric.ranks()[0], .units = 1, .out_tree = tree});
  const Schedule spread = spread_routes(std::move(builder).build());
  EXPECT_DOUBLE_EQ(crosses(spread, "swl", "sw1"), 0.25);
  EXPECT_DOUBLE_EQ(crosses(spread, "swl", "sw2"), 0.75);
}

TEST(SpreadRoutes, PassTheVerifierAndNeverLoadTheWorstLinkMore) {
  for (const char* spec : {"leaf-spine:leaves=2,hosts=2,spines=2", "leaf-spine:leaves=4,hosts=4,spines=2", "dgx-a100:2",
                           "fat-tree:k=4", "rail:boxes=2,gpus=4", "torus:3x3", "star:5"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    for (const Baseline baseline : kAllBaselines) {
      for (const CollectiveKind kind : kAllKinds) {
        SCOPED_TRACE(::testing::Message() << spec << " " << to_string(baseline) << " " << to_string(kind));
        std::optional<Schedule> plain;
        try {
          plain = plan_baseline(baseline, fabric, Collective::make(fabric, {.kind = kind}));
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::unsupported);
          continue;
        }
        const Schedule spread = spread_routes(*plain);
        const schedule::Verdict verdict = verify(spread, schedule::seconds_per_byte(spread));
        EXPECT_TRUE(verdict.valid) << verdict.reason;
        EXPECT_LE(schedule::seconds_per_byte(spread), schedule::seconds_per_byte(*plain));
        EXPECT_EQ(schedule::heights(spread).max, schedule::heights(*plain).max);
      }
    }
  }
}

TEST(SpreadRoutes, AForestOnTheseSpinesIsSpreadAlready) {
  const Fabric fabric = fabric::generate_fabric("leaf-spine:leaves=2,hosts=2,spines=2,uplink=200Mb/s@400Mb/s");
  const Schedule forest = plan_forest(fabric, Collective::make(fabric, {.kind = CollectiveKind::all_reduce})).schedule;
  const Schedule spread = spread_routes(forest);
  EXPECT_EQ(schedule::link_loads(spread), schedule::link_loads(forest));
}

}  // namespace
}  // namespace banyan::plan
