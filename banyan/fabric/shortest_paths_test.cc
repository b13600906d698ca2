#include "banyan/fabric/shortest_paths.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/links.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

TEST(LinksBetween, AreThoseOfTheOnlyShortestWay) {
  const Fabric fabric = generate_fabric("leaf-spine:leaves=2,hosts=2,spines=2@200Mb/s");
  const std::vector<std::string> names = link_names(fabric);
  const auto named = [&](const PathLinks& way) {
    std::string text;
    for (const uint32_t link : way.links) text += names.at(link) + " ";
    return text + (way.is_whole ? "whole" : "in part");
  };
  EXPECT_EQ(named(links_between(fabric, "gpu0", "gpu1", {})), "gpu0->leaf0 leaf0->gpu1 whole");
  EXPECT_EQ(named(links_between(fabric, "gpu0", "gpu3", {})), "gpu0->leaf0 leaf1->gpu3 in part") << "by either spine";
  std::vector<uint32_t> cables;
  for (const char* const cable : {"leaf1-spine1", "gpu0-leaf0", "leaf0-spine1", "gpu3-leaf1"}) {
    cables.push_back(cables_called(fabric, cable).at(0));
  }
  EXPECT_EQ(named(links_between(fabric, "gpu0", "gpu3", cables)),
            "gpu0->leaf0 leaf0->spine1 spine1->leaf1 leaf1->gpu3 whole");
  EXPECT_EQ(named(links_between(fabric, "gpu3", "gpu0", cables)),
            "gpu3->leaf1 leaf1->spine1 spine1->leaf0 leaf0->gpu0 whole");
  EXPECT_EQ(named(links_between(fabric, "gpu3", "gpu1", cables)), "whole") << "the cables do not lead there";
  EXPECT_EQ(named(links_between(fabric, "gpu3", "nobody", {})), "whole");
}

TEST(LinksBetween, GoThroughHostsWhereNoSwitchLeads) {
  const Fabric fabric = generate_fabric("ring:5@100Mb/s");
  EXPECT_EQ(links_between(fabric, "gpu0", "gpu2", {}).links.size(), 2u);
}

TEST(LinksAmong, AreSharedByTheHostsBehindThem) {
  const Fabric fabric = generate_fabric("leaf-spine:leaves=2,hosts=2,spines=2@200Mb/s");
  const std::vector<std::string> names = link_names(fabric);
  std::map<std::string, std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> ends;
  for (const LinkAmong& each : links_among(fabric, {"gpu0", "gpu1", "gpu3", "nobody"})) {
    ends[names.at(each.link)] = {each.from, each.to};
  }
  EXPECT_EQ(ends.size(), 14u) << "two for each host, and all between leaves and spines";
  const std::vector<uint32_t> left{0, 1}, right{2};
  EXPECT_EQ(ends.at("leaf0->spine1"), std::pair(left, right));
  EXPECT_EQ(ends.at("spine0->leaf0"), std::pair(right, left));
  EXPECT_EQ(ends.at("gpu3->leaf1"), std::pair(right, left));
}

TEST(CablesCalled, AreThoseOfLinksByAnyOfTheirNames) {
  const Fabric fabric = generate_fabric("leaf-spine:leaves=2,hosts=2,spines=2@200Mb/s");
  const std::vector<uint32_t> cable = cables_called(fabric, "leaf0-spine1");
  EXPECT_EQ(cable.size(), 1u);
  for (const char* const name : {"leaf0->spine1", "leaf0 -> spine1", "spine1->leaf0", "leaf0->spine1#0"}) {
    EXPECT_EQ(cables_called(fabric, name), cable) << name;
  }
}

}  // namespace
}  // namespace banyan::fabric
