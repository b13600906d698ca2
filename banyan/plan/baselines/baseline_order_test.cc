#include "banyan/plan/baselines/baseline_order.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

std::string names(const Fabric& fabric, std::span<const LinkId> links) {
  std::string result = links.empty() ? "" : fabric.name(fabric.link(links.front()).from);
  for (const LinkId id : links) result += " " + fabric.name(fabric.link(id).to);
  return result;
}

std::string route(std::string_view text, std::string_view from, std::string_view to) {
  const Fabric fabric = fabric::parse_fabric_text(text);
  std::vector<LinkId> way;
  fabric::Routing(fabric).find_first(fabric.at(from), fabric.at(to), way);
  return names(fabric, way);
}

TEST(BaselineRoutes, AreShortestThenWidestThenFirst) {
  EXPECT_EQ(route("a <-> b 1GB/s; a <-> sw 9GB/s; b <-> sw 9GB/s", "a", "b"), "a b");
  EXPECT_EQ(route("a <-> sw1 2GB/s; b <-> sw1 2GB/s; a <-> sw2 3GB/s; b <-> sw2 3GB/s", "a", "b"), "a sw2 b");
  EXPECT_EQ(route("a <-> sw2 2GB/s; b <-> sw2 2GB/s; a <-> sw1 2GB/s; b <-> sw1 2GB/s", "a", "b"), "a sw2 b");
  EXPECT_EQ(route("a <-> sw1 9GB/s; sw1 <-> sw2 1GB/s; sw1 <-> sw3 5GB/s; sw2 <-> sw4 9GB/s; sw3 <-> sw4 5GB/s;"
                  "sw4 <-> b 9GB/s",
                  "a", "b"),
            "a sw1 sw3 sw4 b");
}

TEST(BaselineRoutes, NeverPassThroughARank) {
  EXPECT_EQ(route("a <-> b 1GB/s; b <-> c 1GB/s", "a", "c"), "");
  EXPECT_EQ(route("a <-> sw1 1GB/s; sw1 <-> b 1GB/s; b <-> sw2 1GB/s; sw2 <-> c 1GB/s", "a", "c"), "");
  EXPECT_EQ(route("a -> sw1 1GB/s; sw1 -> b 1GB/s; b -> a 1GB/s", "a", "b"), "a sw1 b");
}

std::vector<uint32_t> ring(const Fabric& fabric, const Collective::Options& options = {}) {
  fabric::Routing routes(fabric);
  return ring_order(routes, fabric, Collective::make(fabric, options));
}

void expect_ring(const std::string& spec) {
  SCOPED_TRACE(spec);
  const Fabric fabric = fabric::generate_fabric(spec);
  fabric::Routing routes(fabric);
  const std::vector<uint32_t> order = ring(fabric);
  EXPECT_EQ(std::set<uint32_t>(order.begin(), order.end()).size(), fabric.ranks().size());
  ASSERT_EQ(order.size(), fabric.ranks().size());
  for (size_t i = 0; i < order.size(); ++i) {
    const NodeId from = fabric.ranks()[order[i]], to = fabric.ranks()[order[(i + 1) % order.size()]];
    EXPECT_TRUE(routes.width(from, to)) << fabric.name(from) << " " << fabric.name(to);
  }
}

TEST(RingOrder, IsFoundOnDirectConnectFabrics) {
  for (const char* spec : {"ring:8", "torus:4x4", "torus:5x7", "torus:8x8x8", "torus:16x16", "mesh:4x4", "mesh:5x4",
                           "hypercube:6", "circulant:16,3,4", "kautz:n=64,d=4", "mi250:1", "dgx1-v100:1"}) {
    expect_ring(spec);
  }
}

TEST(RingOrder, KeepsTheParticipantsOrderWhereItIsARing) {
  EXPECT_THAT(ring(fabric::generate_fabric("star:5")), ElementsAre(0, 1, 2, 3, 4));
}

TEST(RingOrder, EntersEachBoxOnceWhateverTheParticipantsOrder) {
  const Fabric fabric = fabric::generate_fabric("dgx-a100:2");
  std::vector<NodeId> interleaved;
  for (size_t i = 0; i < 8; ++i) interleaved.insert(interleaved.end(), {fabric.ranks()[i], fabric.ranks()[i + 8]});
  const std::vector<uint32_t> order = ring(fabric, {.ranks = interleaved});
  EXPECT_THAT(order, ElementsAre(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
}

TEST(RingOrder, StaysInsideABoxByDirectLinks) {
  const Fabric fabric = fabric::generate_fabric("mi250:2");
  fabric::Routing routes(fabric);
  const std::vector<uint32_t> order = ring(fabric);
  size_t across = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    std::vector<LinkId> links;
    routes.find_first(fabric.ranks()[order[i]], fabric.ranks()[order[(i + 1) % order.size()]], links);
    across += links.size() > 1 ? 1 : 0;
  }
  EXPECT_EQ(across, 2u);
}

TEST(RingOrder, HasNoNarrowHopWhereNicsAreAsWideAsLinksInsideABox) {
  const Fabric fabric = fabric::generate_fabric("mi250:2@100GB/s");
  fabric::Routing routes(fabric);
  const std::vector<uint32_t> order = ring(fabric);
  for (size_t i = 0; i < order.size(); ++i) {
    const NodeId from = fabric.ranks()[order[i]], to = fabric.ranks()[order[(i + 1) % order.size()]];
    EXPECT_GE(*routes.width(from, to), Bandwidth::gigabytes_per_second(100))
        << fabric.name(from) << " " << fabric.name(to);
  }
}

TEST(RingOrder, SaysWhenThereIsNone) {
  const auto refusal = [](const Fabric& fabric) -> std::string {
    try {
      ring(fabric);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(fabric::generate_fabric("mesh:3x3")), ::testing::StartsWith("no ring passes all 9 ranks"));
  EXPECT_THAT(refusal(fabric::parse_fabric_text("a <-> b 1GB/s; b <-> c 1GB/s; c <-> d 1GB/s")),
              ::testing::HasSubstr("no such route from d to a"));
}

TEST(FindOrder, IsExhaustiveOnSmallQuestions) {
  // Petersen's graph: every place has three ways on, and there is a path but no ring.
  OrderQuestion petersen{.successors = {{1, 4, 5},
                                        {0, 2, 6},
                                        {1, 3, 7},
                                        {2, 4, 8},
                                        {0, 3, 9},
                                        {0, 7, 8},
                                        {1, 8, 9},
                                        {2, 5, 9},
                                        {3, 5, 6},
                                        {4, 6, 7}}};
  EXPECT_TRUE(find_order(petersen).exhausted);
  petersen.closed = false;
  EXPECT_EQ(find_order(petersen).order.size(), 10u);
  EXPECT_THAT(find_order({.successors = {{1}, {2}, {0}}}).order, ElementsAre(0, 1, 2));
  EXPECT_TRUE(find_order({.successors = {{1}, {2}, {1}}}).exhausted);
}

}  // namespace
}  // namespace banyan::plan
