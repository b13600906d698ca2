#include "banyan/schedule/schedule.h"

#include "banyan/fabric/text.h"
#include "banyan/schedule/cost.h"
#include "banyan/testing/test.h"

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

TEST(Schedule, CountsTiedMessagesOnce) {
  EXPECT_EQ(message_counts(star_allgather()).most_of_a_rank, 2u);
  EXPECT_EQ(message_counts(star_allgather()).rounds, 1u);
  Schedule::Builder builder(kStar, Collective::make(kStar, {}));
  const std::vector<RouteId> from_a{builder.add_route(std::vector<LinkId>{LinkId{0}, LinkId{3}})},
      from_b{builder.add_route(std::vector<LinkId>{LinkId{2}, LinkId{1}})};
  const std::vector<uint32_t> third{3};
  builder.add_chunk({.root = kStar.at("a"), .units = 1, .out_tree = from_a, .out_steps = third});
  builder.add_chunk({.root = kStar.at("a"), .units = 1, .out_tree = from_a, .out_steps = third});
  builder.add_chunk({.root = kStar.at("b"), .units = 2, .out_tree = from_b});
  const MessageCounts counts = message_counts(std::move(builder).build());
  EXPECT_EQ(counts.most_of_a_rank, 1u);
  EXPECT_EQ(counts.rounds, 3u);
}

// a, b and c in a line, ab 0, ba 1, bc 2, cb 3.
const Fabric kLine = fabric::parse_fabric_text("a <-> b 1GB/s; b <-> c 1GB/s");

Schedule line_all_to_all() {
  Schedule::Builder builder(kLine, Collective::make(kLine, {.kind = CollectiveKind::all_to_all}));
  std::vector<RouteId> hop;
  for (const uint32_t link : {0u, 1u, 2u, 3u}) hop.push_back(builder.add_route(std::vector<LinkId>{LinkId{link}}));
  const auto add = [&](const char* root, uint64_t units, const std::vector<RouteId>& path) {
    builder.add_chunk({.root = kLine.at(root), .units = units, .out_tree = path});
  };
  add("c", 4, {hop[3]});
  add("c", 4, {hop[3], hop[1]});
  add("a", 1, {hop[0], hop[2]});
  add("a", 4, {hop[0]});
  add("a", 3, {hop[0], hop[2]});
  add("b", 4, {hop[2]});
  add("b", 4, {hop[1]});
  return std::move(builder).build();
}

TEST(Schedule, LaysAnAllToAllOutByRootAndTarget) {
  const Schedule schedule = line_all_to_all();
  EXPECT_EQ(schedule.target(0), kLine.at("b"));
  EXPECT_EQ(schedule.target(1), kLine.at("c"));
  EXPECT_EQ(schedule.target(6), kLine.at("b"));
  EXPECT_EQ(schedule.block_range(0, 10), std::pair(uint64_t{0}, uint64_t{10}));
  EXPECT_EQ(schedule.block_range(1, 10), std::pair(uint64_t{0}, uint64_t{2}));
  EXPECT_EQ(schedule.block_range(2, 10), std::pair(uint64_t{2}, uint64_t{10}));
  EXPECT_EQ(heights(schedule).max, 2u);
  // M is three blocks; two cross each link.
  EXPECT_EQ(seconds_per_byte(schedule), Fraction(2, 3'000'000'000));
}

TEST(Schedule, ChunksOfAnAllToAllLeadToAnotherRank) {
  Schedule::Builder builder(kLine, Collective::make(kLine, {.kind = CollectiveKind::all_to_all}));
  const std::vector<RouteId> forth{builder.add_route(std::vector<LinkId>{LinkId{0}})},
      round{forth[0], builder.add_route(std::vector<LinkId>{LinkId{1}})};
  EXPECT_THROW(builder.add_chunk({.root = kLine.at("a"), .units = 1}), Error);
  EXPECT_THROW(builder.add_chunk({.root = kLine.at("a"), .units = 1, .out_tree = round}), Error);
  builder.add_chunk({.root = kLine.at("a"), .units = 1, .out_tree = forth});
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
