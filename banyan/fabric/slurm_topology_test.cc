#include "banyan/fabric/slurm_topology.h"

#include "banyan/fabric/test_rates.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

constexpr Bandwidth kPort = Bandwidth::gigabits_per_second(400);

Fabric parse_slurm(const std::string& text) {
  std::vector<std::string> notes;
  return parse_slurm_topology({text, "topology.conf", kPort}, notes);
}

std::string slurm_error(const std::string& text, std::optional<Bandwidth> port = kPort) {
  std::vector<std::string> notes;
  return testing::error_of([&] { parse_slurm_topology({text, "topology.conf", port}, notes); });
}

TEST(SlurmTopology, ReadsATreeOfSwitches) {
  const Fabric fabric = parse_slurm(corpus_file("slurm/tree.conf"));
  EXPECT_THAT(names_of(fabric, NodeKind::rank), ElementsAre("tux0", "tux1", "tux2", "tux3", "tux4", "tux5", "tux6",
                                                            "tux08", "gpu01", "gpu02", "r1n1", "r1n2", "r2n1", "r2n2"));
  EXPECT_THAT(names_of(fabric, NodeKind::switch_),
              ElementsAre("leaf0", "leaf1", "leaf2", "leaf3", "group0", "group1", "core"));
  EXPECT_DOUBLE_EQ(rate_between(fabric, "tux08", "leaf1"), 50);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "leaf0", "group0"), 200) << "as much as its four nodes have";
  EXPECT_DOUBLE_EQ(rate_between(fabric, "leaf2", "group1"), 100);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "core", "group1"), 300);
  EXPECT_EQ(fabric.links().size(), 2u * (14 + 4 + 2));
}

TEST(SlurmTopology, JoinsBlocksByANetwork) {
  std::vector<std::string> notes;
  const Fabric fabric = parse_slurm_topology({corpus_file("slurm/blocks.conf"), "topology.conf", kPort}, notes);
  EXPECT_EQ(fabric.ranks().size(), 36u);
  EXPECT_THAT(names_of(fabric, NodeKind::switch_), ElementsAre("rack1", "rack2", "network"));
  EXPECT_DOUBLE_EQ(rate_between(fabric, "n18", "rack1"), 50);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "rack2", "network"), 900);
  EXPECT_THAT(notes, Contains(HasSubstr("blocks are joined by a network that never blocks")));
}

TEST(SlurmTopology, TakesLinkSpeedsOfLeavesAsProportions) {
  const Fabric fabric = parse_slurm(corpus_file("slurm/speeds.conf"));
  EXPECT_DOUBLE_EQ(rate_between(fabric, "a0", "s0"), 50);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "b0", "s1"), 100);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "s1", "top"), 200);
}

TEST(SlurmTopology, AsksForTheBandwidthThatTheFileLacks) {
  EXPECT_THAT(slurm_error(corpus_file("slurm/tree.conf"), std::nullopt),
              AllOf(HasSubstr("does not say how fast links are"), HasSubstr("topology.conf@400Gb/s")));
}

TEST(SlurmTopology, RefusesListsOfTooManyNamesBeforeItMakesThem) {
  EXPECT_THAT(slurm_error(corpus_file("slurm/huge.conf")),
              HasSubstr("line 2: list 'node[1-100000000]' makes more than 1000000 nodes, switches included"));
  EXPECT_THAT(slurm_error("SwitchName=s0 Nodes=a[1-1000000]"), HasSubstr("more than 1000000 nodes"));
  EXPECT_THAT(slurm_error("SwitchName=s0 Nodes=a[1-9]\nSwitchName=s1 Nodes=b[1-999990]"),
              HasSubstr("line 2: list 'b[1-999990]' makes more than 1000000 nodes"));
  EXPECT_THAT(slurm_error("SwitchName=s0 Switches=s[1-999],s[1-999999999999999999]"), HasSubstr("more than 1000000"));
  EXPECT_THAT(slurm_error("SwitchName=s0 Nodes=" + std::string(200, 'a') + "[1-100000]"),
              HasSubstr("has a name of more than 200 bytes"));
}

TEST(SlurmTopology, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(slurm_error("SwitchName=s0 Nodes=a[0-1]\nSwitchName=s1 Switches=s0,s7\n"),
              HasSubstr("topology.conf line 2: switch 's7' has no line of its own"));
  EXPECT_THAT(slurm_error("SwitchName=s0 Nodes=a[0-1]\nSwitchName=s0 Nodes=b\n"), HasSubstr("'s0' is declared twice"));
  EXPECT_THAT(slurm_error("SwitchName=s0 Nodes=a,b\nSwitchName=s1 Nodes=a\nSwitchName=t Switches=s[0-1]"),
              HasSubstr("node 'a' hangs on both s0 and s1"));
  EXPECT_THAT(slurm_error("SwitchName=s Nodes=a,b\nSwitchName=t Switches=s\nSwitchName=u Switches=s"),
              HasSubstr("switch 's' is below both t and u"));
  EXPECT_THAT(slurm_error(corpus_file("slurm/circle.conf")), HasSubstr("is above itself"));
  EXPECT_THAT(slurm_error("SwitchName=s0 Node=a[0-1]"), HasSubstr("key 'Node' is not known (did you mean 'Nodes'?)"));
  EXPECT_THAT(slurm_error("SwitchName=s0 Nodes=a[0-1] LinkSpeed=fast"), HasSubstr("LinkSpeed is 'fast'"));
  EXPECT_THAT(slurm_error("SwitchName=s0"), HasSubstr("s0 has neither Switches nor Nodes"));
  EXPECT_THAT(slurm_error("SwitchName=s0 Nodes=a[0-1\n"), HasSubstr("line 1: list 'a[0-1'"));
  EXPECT_THAT(slurm_error("SwitchName=s0 Nodes=a,b\nBlockName=b Nodes=c"), HasSubstr("not both"));
  EXPECT_THAT(slurm_error("SwitchName=s0 Nodes=a,b\nSwitchName=s1 Nodes=c,d\n"),
              HasSubstr("the tree is in 2 parts (2 nodes below 's0', 2 nodes below 's1')"));
  EXPECT_THAT(slurm_error("BlockSizes=4\n"), HasSubstr("no SwitchName and no BlockName"));
  EXPECT_THAT(slurm_error("SwitchName=s0 Nodes"), HasSubstr("'Nodes' is not of the form Name=value"));
}

}  // namespace
}  // namespace banyan::fabric
