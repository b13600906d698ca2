#include "banyan/schedule/schedule.h"

#include <gtest/gtest.h>

#include "banyan/base/error.h"
#include "banyan/fabric/text.h"
#include "banyan/schedule/cost.h"

namespace banyan::schedule {
namespace {

// a -> sw -> b is link 0, 3; b -> sw -> a is 2, 1.
const Fabric kStar = fabric::parse_fabric_text("a <-> sw 1GB/s; b <-> sw 2GB/s");

Schedule star_allgather() {
  Schedule::Builder builder(kStar, Collective::make(kStar, {}));
  const std::vector<LinkId> forth{LinkId{0}, LinkId{3}}, back{LinkId{2}, LinkId{1}};
  const std::vector<RouteId> from_a{builder.add_route(forth)}, from_b{builder.add_route(back)};
  builder.add_chunk({.root = kStar.at("b"), .units = 2, .out_tree = from_b});
  builder.add_chunk({.root = kStar.at("a"), .units = 1, .out_tree = from_a});
  builder.add_chunk({.root = kStar.at("a"), .units = 1, .out_tree = from_a});
  return std::move(builder).build();
}

TEST(Schedule, LaysChunksOutShardByShard) {
  const Schedule schedule = star_allgather();
  EXPECT_EQ(schedule.chunk(0).root, kStar.at("a"));
  EXPECT_EQ(schedule.element_range(0, 7), std::pair(uint64_t{0}, uint64_t{1}));
  EXPECT_EQ(schedule.element_range(1, 7), std::pair(uint64_t{1}, uint64_t{3}));
  EXPECT_EQ(schedule.element_range(2, 7), std::pair(uint64_t{3}, uint64_t{7}));
  EXPECT_EQ(schedule.shard_range(0, 7), std::pair(uint64_t{0}, uint64_t{3}));
  EXPECT_EQ(schedule.shard_range(1, 7), std::pair(uint64_t{3}, uint64_t{7}));
}

TEST(Schedule, CostsWhatItsMostLoadedLinkCosts) {
  const Schedule schedule = star_allgather();
  EXPECT_EQ(link_loads(schedule), (std::vector<uint64_t>{2, 2, 2, 2}));
  EXPECT_EQ(seconds_per_byte(schedule), Fraction(1, 2'000'000'000));
  EXPECT_EQ(heights(schedule).max, 1u);
}

TEST(Schedule, RefusesRoutesThatAreNoPaths) {
  Schedule::Builder builder(kStar, Collective::make(kStar, {}));
  EXPECT_THROW(builder.add_route({}), Error);
  EXPECT_THROW(builder.add_route(std::vector<LinkId>{LinkId{0}, LinkId{2}}), Error);
  EXPECT_THROW(builder.add_route(std::vector<LinkId>{LinkId{9}}), Error);
  EXPECT_THROW(builder.add_chunk({.root = kStar.at("sw"), .units = 1}), Error);
  EXPECT_THROW(builder.add_chunk({.root = kStar.at("a"), .units = 0}), Error);
}

// Files may say anything; the verifier refuses this one.
TEST(Schedule, CountsLoadsBeyond64Bits) {
  Schedule::Builder builder(kStar, Collective::make(kStar, {.kind = CollectiveKind::broadcast}));
  const RouteId route = builder.add_route(std::vector<LinkId>{LinkId{0}, LinkId{3}});
  const std::vector<RouteId> again(9, route);
  builder.add_chunk({.root = kStar.at("a"), .units = uint64_t{1} << 62, .out_tree = again});
  EXPECT_EQ(seconds_per_byte(std::move(builder).build()), Fraction(9, 1'000'000'000));
}

TEST(Schedule, KeepsStepsOfTheTreesThatHaveSome) {
  Schedule::Builder builder(kStar, Collective::make(kStar, {}));
  const std::vector<RouteId> from_a{builder.add_route(std::vector<LinkId>{LinkId{0}, LinkId{3}})};
  const std::vector<RouteId> from_b{builder.add_route(std::vector<LinkId>{LinkId{2}, LinkId{1}})};
  const std::vector<uint32_t> step{7};
  builder.add_chunk({.root = kStar.at("a"), .units = 1, .out_tree = from_a});
  builder.add_chunk({.root = kStar.at("b"), .units = 1, .out_tree = from_b, .out_steps = step});
  builder.add_chunk({.root = kStar.at("b"), .units = 1, .out_tree = from_b});
  const Schedule schedule = std::move(builder).build();
  EXPECT_EQ(schedule.chunk(0).out_steps[0], 0u);
  EXPECT_EQ(schedule.chunk(1).out_steps[0], 7u);
  EXPECT_EQ(schedule.chunk(2).out_steps[0], 0u);
}

TEST(Schedule, OrdersChunksByRootWhereAsked) {
  Schedule::Builder builder(kStar, Collective::make(kStar, {.kind = CollectiveKind::all_reduce}));
  builder.reserve({.routes = 2, .route_links = 4, .chunks = 3, .edges = 6});
  const std::vector<RouteId> forth{builder.add_route(std::vector<LinkId>{LinkId{0}, LinkId{3}})};
  const std::vector<RouteId> back{builder.add_route(std::vector<LinkId>{LinkId{2}, LinkId{1}})};
  builder.add_chunk({.root = kStar.at("b"), .units = 1, .in_tree = forth, .out_tree = back});
  builder.add_chunk({.root = kStar.at("a"), .units = 2, .in_tree = back, .out_tree = forth});
  builder.add_chunk({.root = kStar.at("a"), .units = 3, .in_tree = back, .out_tree = forth});
  builder.order_by_root();
  const Schedule schedule = std::move(builder).build();
  EXPECT_EQ(schedule.chunk(0).units, 2u);
  EXPECT_EQ(schedule.chunk(1).units, 3u);
  EXPECT_EQ(schedule.chunk(2).root, kStar.at("b"));
}

}  // namespace
}  // namespace banyan::schedule
