#include "lab/shared_hosts.h"

#include "banyan/fabric/cables.h"
#include "banyan/fabric/read.h"
#include "banyan/testing/test.h"
#include "lab/lab_plan.h"

namespace banyan::lab {
namespace {

Fabric network(const char* text = "a <-> sw 1GB/s; b <-> sw 1GB/s; c <-> sw 2GB/s") {
  return fabric::load_fabric({.fabric = text});
}

TEST(SharedHosts, PutRanksBehindASwitchInPlaceOfTheHost) {
  const SharedHosts hosts(network(), {2, 1, 3});
  const Fabric& fabric = hosts.fabric();
  std::vector<std::string> names;
  for (const NodeId rank : fabric.ranks()) names.push_back(fabric.name(rank));
  EXPECT_THAT(names, ElementsAre("a.0", "a.1", "b.0", "c.0", "c.1", "c.2"));
  EXPECT_EQ(fabric.links().size(), 6u + 2u * 6u);
  EXPECT_FALSE(fabric.is_rank(fabric.at("a")));
  for (const NodeId rank : fabric.ranks()) {
    ASSERT_EQ(fabric.out_links(rank).size(), 1u);
    EXPECT_EQ(fabric.link(fabric.out_links(rank)[0]).bandwidth, SharedHosts::inner_bandwidth());
  }
}

TEST(SharedHosts, KeepTheNumbersOfTheNetwork) {
  const SharedHosts hosts(network("ring:5@100Mb/s"), {1, 2, 3, 4, 5});
  const Fabric &small = hosts.network(), &large = hosts.fabric();
  for (uint32_t node = 0; node < small.nodes().size(); ++node) {
    EXPECT_EQ(small.name(NodeId{node}), large.name(NodeId{node}));
  }
  const fabric::Cables cables(small), all(large);
  ASSERT_LT(cables.all().size(), all.all().size());
  for (uint32_t cable = 0; cable < cables.all().size(); ++cable) {
    EXPECT_EQ(name_of(cables[cable], small, false), name_of(all[cable], large, false));
  }
}

TEST(SharedHosts, KnowThePlaceOfEveryRank) {
  const SharedHosts hosts(network(), {2, 1, 3});
  const auto text = [&](uint32_t rank) {
    const SharedHosts::Place& place = hosts.place(rank);
    return hosts.network().name(place.host) + " " + std::to_string(place.local) + "/" +
           std::to_string(place.local_size);
  };
  EXPECT_EQ(text(0), "a 0/2");
  EXPECT_EQ(text(1), "a 1/2");
  EXPECT_EQ(text(2), "b 0/1");
  EXPECT_EQ(text(5), "c 2/3");
}

TEST(SharedHosts, OfOneRankEachAreTheNetwork) {
  for (const std::vector<uint32_t>& one_each : {std::vector<uint32_t>{}, std::vector<uint32_t>{1, 1, 1}}) {
    const SharedHosts hosts(network(), one_each);
    EXPECT_EQ(hosts.fabric().fingerprint(), hosts.network().fingerprint());
    EXPECT_THAT(hosts.ranks_per_host(), IsEmpty());
    EXPECT_EQ(hosts.place(2).local_size, 1u);
  }
}

TEST(SharedHosts, GiveEveryPairOfRanksTheRoutesOfTheirHosts) {
  const SharedHosts hosts(network("leaf-spine:leaves=2,hosts=1,spines=2"), {2, 3});
  const fabric::RouteBook between_hosts = LabPlan(hosts.network()).route_book();
  const fabric::RouteBook book = hosts.spread(between_hosts);
  ASSERT_EQ(between_hosts.size(), 2u);  // by each spine
  EXPECT_EQ(book.size(), 2u * 3u * between_hosts.size());
  const Fabric& fabric = hosts.fabric();
  const fabric::Cables cables(fabric);
  for (const fabric::RouteBook::Path& path : book.paths(fabric.ranks()[1], fabric.ranks()[4])) {
    ASSERT_EQ(path.cables.size(), 6u);
    EXPECT_EQ(name_of(cables[path.cables.front()], fabric, false), "gpu0-gpu0.1");
    EXPECT_EQ(name_of(cables[path.cables.back()], fabric, false), "gpu1-gpu1.2");
    const std::vector<uint32_t> outside(path.cables.begin() + 1, path.cables.end() - 1);
    EXPECT_EQ(book.find(path), between_hosts.find({.from = NodeId{0}, .to = NodeId{1}, .cables = outside}));
  }
  // It is a book that ranks can read.
  EXPECT_EQ(fabric::RouteBook::parse(book.format(fabric), fabric, "routes.json").size(), book.size());
  EXPECT_THAT(book.paths(fabric.ranks()[0], fabric.ranks()[1]), IsEmpty());
}

TEST(SharedHosts, ReadOneNumberForAllOrOneEach) {
  EXPECT_THAT(SharedHosts::parse("2", 3), ElementsAre(2, 2, 2));
  EXPECT_THAT(SharedHosts::parse("2,1,3", 3), ElementsAre(2, 1, 3));
  EXPECT_THAT(SharedHosts::parse("1", 3), IsEmpty());
  for (const char* wrong : {"", "0", "2,0,1", "two", "2,,1", "65", "-1", "2,1"}) {
    EXPECT_THAT(testing::error_of([&] { SharedHosts::parse(wrong, 3); }, ErrorCode::invalid_input),
                HasSubstr("--ranks-per-host"))
        << wrong;
  }
}

TEST(SharedHosts, RefuseWhatDoesNotFitTheNetwork) {
  const auto refusal = [](const Fabric& given, const std::vector<uint32_t>& counts) {
    return testing::error_of([&] { const SharedHosts hosts(given, counts); }, ErrorCode::invalid_input);
  };
  EXPECT_THAT(refusal(network(), {2, 1}), HasSubstr("2 numbers of ranks, but there are 3 hosts"));
  EXPECT_THAT(refusal(network(), {2, 0, 1}), HasSubstr("a host has 1 to 64 ranks, not 0"));
  EXPECT_THAT(refusal(network(), {2, 65, 1}), HasSubstr("not 65"));
  EXPECT_THAT(refusal(network("a <-> b 1GB/s; b <-> a.1 1GB/s"), {2, 1, 1}), HasSubstr("a.1"));
}

}  // namespace
}  // namespace banyan::lab
