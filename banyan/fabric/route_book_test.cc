#include "banyan/fabric/route_book.h"

#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

Fabric parallel_cables() {
  return parse_fabric_text("a <-> sw 1GB/s; a <-> sw 1GB/s; sw <-> b 1GB/s; b -> c 1GB/s; c -> a 1GB/s", "test");
}

TEST(Cables, PairsTheLinksOfBothDirections) {
  const Fabric fabric = parallel_cables();
  const Cables cables(fabric);
  ASSERT_EQ(cables.all().size(), 5u);
  const Cable& second = cables[1];
  EXPECT_EQ(second.ordinal, 1u);
  EXPECT_TRUE(second.forth && second.back);
  EXPECT_EQ(cables.of(*second.forth), 1u);
  EXPECT_EQ(cables.of(*second.back), 1u);
  EXPECT_EQ(name_of(second, fabric, true), "a-sw#1");
  const Cable& one_way = cables[3];  // b -> c
  EXPECT_NE(one_way.forth.has_value(), one_way.back.has_value());
  EXPECT_EQ(one_way.other_end(fabric.at("b")), fabric.at("c"));
  for (uint32_t link = 0; link < fabric.links().size(); ++link) {
    const Cable& cable = cables[cables.of(LinkId{link})];
    EXPECT_EQ(cable.from(fabric.links()[link].from), LinkId{link});
  }
}

TEST(RouteBook, FindsAPathInBothDirectionsAndSurvivesItsFile) {
  const Fabric fabric = parallel_cables();
  RouteBook book;
  book.add({.from = fabric.at("a"), .to = fabric.at("b"), .cables = {0, 2}}, {.from = "10.0.0.1", .to = "10.0.0.2"});
  book.add({.from = fabric.at("b"), .to = fabric.at("a"), .cables = {2, 1}}, {.from = "10.0.0.4", .to = "10.0.0.3"});
  book.add({.from = fabric.at("b"), .to = fabric.at("c"), .cables = {3}}, {.from = "fd00::1", .to = "fd00::2"});
  const RouteBook read = RouteBook::parse(book.format(fabric), fabric, "routes.json");
  for (const RouteBook* each : {static_cast<const RouteBook*>(&book), &read}) {
    const RouteBook::Addresses forth{.from = "10.0.0.3", .to = "10.0.0.4"}, back{.from = "10.0.0.4", .to = "10.0.0.3"};
    EXPECT_EQ(each->size(), 3u);
    EXPECT_EQ(each->find({.from = fabric.at("a"), .to = fabric.at("b"), .cables = {1, 2}}), forth);
    EXPECT_EQ(each->find({.from = fabric.at("b"), .to = fabric.at("a"), .cables = {2, 1}}), back);
    EXPECT_EQ(each->find({.from = fabric.at("a"), .to = fabric.at("b"), .cables = {2, 1}}), std::nullopt);
  }
}

TEST(RouteBook, TellsAllPathsBetweenTwoRanksTheShortestFirst) {
  const Fabric fabric = parallel_cables();
  const NodeId a = fabric.at("a"), b = fabric.at("b"), c = fabric.at("c");
  RouteBook book;
  book.add({.from = a, .to = b, .cables = {4, 3}}, {.from = "10.0.0.5", .to = "10.0.0.6"});
  book.add({.from = a, .to = b, .cables = {0, 2, 1}}, {.from = "10.0.0.7", .to = "10.0.0.8"});
  book.add({.from = b, .to = a, .cables = {2, 0}}, {.from = "10.0.0.2", .to = "10.0.0.1"});
  book.add({.from = b, .to = c, .cables = {3}}, {.from = "10.0.0.3", .to = "10.0.0.4"});
  const auto cables_between = [&](NodeId from, NodeId to) {
    std::vector<std::vector<uint32_t>> all;
    for (const RouteBook::Path& path : book.paths(from, to)) {
      EXPECT_EQ(path.from, from);
      EXPECT_EQ(path.to, to);
      EXPECT_TRUE(book.find(path));
      all.push_back(path.cables);
    }
    return all;
  };
  using Lists = std::vector<std::vector<uint32_t>>;
  EXPECT_EQ(cables_between(a, b), (Lists{{0, 2}, {4, 3}, {0, 2, 1}}));
  EXPECT_EQ(cables_between(b, a), (Lists{{2, 0}, {3, 4}, {1, 2, 0}})) << "in the same order, turned round";
  EXPECT_EQ(cables_between(c, b), (Lists{{3}}));
  EXPECT_EQ(cables_between(a, c), Lists{});
}

TEST(RouteBook, NamesWhatIsWrong) {
  const Fabric fabric = parallel_cables();
  const auto refused = [&](const std::string& routes) {
    try {
      RouteBook::parse("{\"banyan\": \"routes/1\", \"routes\": [" + routes + "]}", fabric, "routes.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused(R"({"path": ["a", "sw", "b"], "addresses": ["10.0.0.1", "10.0.0.2"]})"), "accepted");
  EXPECT_THAT(refused(R"({"path": ["a", "sv", "b"], "addresses": ["10.0.0.1", "10.0.0.2"]})"),
              HasSubstr("routes.json: routes[0].path[1]: node 'sv' is not declared"));
  EXPECT_THAT(refused(R"({"path": ["a", "b"], "addresses": ["10.0.0.1", "10.0.0.2"]})"), HasSubstr("no cable 0"));
  EXPECT_THAT(refused(R"({"path": ["a", "sw"], "addresses": ["10.0.0.1", "10.0.0.2"]})"), HasSubstr("end at ranks"));
  EXPECT_THAT(refused(R"({"path": ["a"], "addresses": ["10.0.0.1", "10.0.0.2"]})"), HasSubstr("at least two"));
  EXPECT_THAT(refused(R"({"path": ["a", "sw", "b"], "cables": [2, 0], "addresses": ["10.0.0.1", "10.0.0.2"]})"),
              HasSubstr("no cable 2"));
  EXPECT_THAT(refused(R"({"path": ["a", "sw", "b"], "cables": [0], "addresses": ["10.0.0.1", "10.0.0.2"]})"),
              HasSubstr("one number for each"));
  EXPECT_THAT(refused(R"({"path": ["a", "sw", "b"], "addresses": ["10.0.0.1"]})"), HasSubstr("two of the ends"));
  EXPECT_THAT(refused(R"({"path": ["a", "sw", "b"], "addresses": ["10.0.0.1", "host"]})"), HasSubstr("no IP address"));
  EXPECT_THAT(refused(R"({"path": ["a", "sw", "b"], "adresses": []})"), HasSubstr("unknown key 'adresses'"));
  EXPECT_THAT(refused("]"), HasSubstr("is not JSON"));
  EXPECT_THROW(RouteBook::parse("[]", fabric, ""), Error);
  EXPECT_THROW(RouteBook::parse("{\"banyan\": \"fabric/1\", \"routes\": []}", fabric, ""), Error);
}

}  // namespace
}  // namespace banyan::fabric
