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

}  // namespace
}  // namespace banyan::schedule
