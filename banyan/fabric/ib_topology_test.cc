#include "banyan/fabric/ib_topology.h"

#include "banyan/fabric/test_rates.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

Fabric parse_ib(const std::string& text, std::vector<std::string>& notes,
                std::optional<Bandwidth> fallback = std::nullopt) {
  return parse_ib_topology(text, "net.txt", notes, {.fallback = fallback});
}

std::string ib_error(const std::string& text) {
  std::vector<std::string> notes;
  return testing::error_of([&] { parse_ib(text, notes); });
}

TEST(IbTopology, ReadsAdaptersSwitchesAndCablesWithTheirSpeeds) {
  std::vector<std::string> notes;
  const Fabric fabric = parse_ib(corpus_file("ib/two_leaves.txt"), notes);
  EXPECT_THAT(names_of(fabric, NodeKind::rank),
              ElementsAre("node1/mlx5_0", "node2/mlx5_0", "node3/HCA-1", "node10/mlx5_0"));
  EXPECT_THAT(names_of(fabric, NodeKind::switch_), ElementsAre("leaf1", "leaf2", "spine1"));
  EXPECT_DOUBLE_EQ(rate_between(fabric, "node1/mlx5_0", "leaf1"), 25);
  EXPECT_DOUBLE_EQ(rate_between(fabric, "leaf2", "node10/mlx5_0"), 12.5) << "two lanes of HDR";
  EXPECT_DOUBLE_EQ(rate_between(fabric, "leaf1", "spine1"), 100) << "two cables of four lanes of NDR";
  EXPECT_DOUBLE_EQ(rate_between(fabric, "spine1", "leaf2"), 25);
  EXPECT_EQ(fabric.links().size(), 2u * 7);
  EXPECT_THAT(notes, Contains(HasSubstr("1 channel adapter without a cable left out")));
  EXPECT_THAT(notes, Contains(HasSubstr("1 router or aggregation node left out")));
}

TEST(IbTopology, NamesAdaptersOfOneDescriptionByTheirIds) {
  std::vector<std::string> notes;
  const Fabric fabric = parse_ib(corpus_file("ib/no_speed.txt"), notes, Bandwidth::gigabits_per_second(200));
  EXPECT_THAT(names_of(fabric, NodeKind::rank), ElementsAre("x@H-1", "x@H-2"));
  EXPECT_DOUBLE_EQ(rate_between(fabric, "x@H-1", "a"), 25);
}

TEST(IbTopology, CallsAdaptersWithoutAHostsNameByTheirIds) {
  std::string text = corpus_file("ib/no_speed.txt");
  const std::string unnamed = "\"MT4129 ConnectX7   Mellanox Technologies\"";
  for (size_t at = text.find("\"x\""); at != std::string::npos; at = text.find("\"x\"", at))
    text.replace(at, 3, unnamed);
  std::vector<std::string> notes;
  const Fabric fabric = parse_ib(text, notes, Bandwidth::gigabits_per_second(200));
  EXPECT_THAT(names_of(fabric, NodeKind::rank), ElementsAre("H-1", "H-2"));
  EXPECT_THAT(notes, Contains(HasSubstr("2 devices without a host's name called by the id")));
}

TEST(IbTopology, AsksForTheSpeedThatALineLacks) {
  EXPECT_THAT(ib_error(corpus_file("ib/no_speed.txt")),
              HasSubstr("the cable has no width and speed such as 4xHDR at the end of its line; put the speed"));
}

TEST(IbTopology, KnowsEverySpeedOfInfiniBand) {
  const std::pair<const char*, double> speeds[] = {
      {"4xSDR", 1},     {"4xDDR", 2},    {"4xQDR", 4},  {"4xFDR10", 5}, {"4xEDR", 12.5},
      {"12xEDR", 37.5}, {"1xHDR", 6.25}, {"4xNDR", 50}, {"4xXDR", 100}, {"4xFDR", 6.818181816}};
  for (const auto& [text, rate] : speeds) {
    const std::string line = std::string("# \"h\" lid 2 ") + text + "\n";
    std::vector<std::string> notes;
    const Fabric fabric =
        parse_ib("Switch\t36 \"S-1\"\t# \"s\" base port 0\n[1]\t\"H-1\"[1](1)\t" + line + "[2]\t\"H-2\"[1](2)\t" +
                     line + "Ca\t1 \"H-1\"\t# \"a\"\nCa\t1 \"H-2\"\t# \"b\"\n",
                 notes);
    EXPECT_DOUBLE_EQ(rate_between(fabric, "a", "s"), rate) << text;
  }
}

TEST(IbTopology, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(ib_error("Switch\t36 \"S-1\"\n[1\t\"H-1\"[1]\n"), HasSubstr("net.txt line 2: a port should read as in"));
  EXPECT_THAT(ib_error("[1]\t\"H-1\"[1]\n"), HasSubstr("line 1: a port before the first device"));
  EXPECT_THAT(ib_error("Switch\tmany\n"), HasSubstr("line 1: a device should read as in"));
  EXPECT_THAT(ib_error("Switch\t36 \"S-1\"\n[1]\t\"H-1\"[1] # 4xHDR\n"),
              HasSubstr("line 2: device 'H-1' has no entry of its own"));
  EXPECT_THAT(ib_error("Switch\t36 \"S-1\"\nSwitch\t36 \"S-1\"\n"), HasSubstr("occurs twice"));
  EXPECT_THAT(ib_error("vendid=0x2c9\n"), HasSubstr("at least two ranks"));
}

}  // namespace
}  // namespace banyan::fabric
