#include "apps/report.h"

#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

TEST(Report, GivesRatesAsExactFractionsToo) {
  const Fraction seconds_per_byte(7, 3'200'000'000'000);
  EXPECT_EQ(exact_algbw(seconds_per_byte), "3200000000000/7");
  EXPECT_EQ(exact_algbw(Fraction(1, 4)), "4/1");
  EXPECT_DOUBLE_EQ(algbw_gigabytes(seconds_per_byte), 3200.0 / 7);
  EXPECT_EQ(format_algbw(seconds_per_byte), "457.14 GB/s");
}

TEST(Report, DrawsNeighbouringRanksTogether) {
  const Fabric fabric = fabric::parse_fabric_text(
      "a <-> sw 1GB/s; b <-> sw 1GB/s; c <-> sw 1GB/s; d <-> sw 1GB/s; e <-> sw 1GB/s; f <-> sw 1GB/s");
  const auto ranks = fabric.ranks();
  EXPECT_EQ(name_ranges({ranks[0], ranks[1], ranks[2], ranks[4]}, fabric), "a-c, e");
  EXPECT_EQ(name_ranges({ranks[0], ranks[1], ranks[3]}, fabric), "a, b, d");
  EXPECT_EQ(name_ranges({ranks.begin(), ranks.end()}, fabric), "a-f");
}

TEST(Report, AlignsTablesAndLetsShortRowsRunOn) {
  Table table({"planner", "algbw", "height"});
  table.add({"forest", "4.00", "2"});
  table.add({"ring", "not here: no route from a to b"});
  EXPECT_EQ(table.format(Terminal({})),
            "planner  algbw  height\n"
            "forest    4.00       2\n"
            "ring     not here: no route from a to b\n");
}

TEST(Report, PutsTextsAtTheLeftAndNumbersAtTheRight) {
  Table table({"host", "address", "processes"});
  table.add({"a", "10.0.0.1", "2"});
  table.add({"switch", "10.0.0.12", "12"});
  EXPECT_EQ(table.format(Terminal({})),
            "host    address    processes\n"
            "a       10.0.0.1           2\n"
            "switch  10.0.0.12         12\n");
}

TEST(Report, CountsCharactersAndNotBytes) {
  Table table({"tenant", "rank"});
  table.add({"s\xc3\xa9rve", "2"});
  EXPECT_EQ(table.format(Terminal({})), "tenant  rank\ns\xc3\xa9rve      2\n");
}

TEST(Report, SaysHowFarFromTheBoundAPlanIs) {
  const Bound bound{.seconds_per_byte = Fraction(3, 2), .witness = {}};
  EXPECT_EQ(describe_distance(Fraction(3, 2), bound), "optimal");
  EXPECT_EQ(describe_distance(Fraction(2), bound), "75.0 % of the bound");
}

}  // namespace
}  // namespace banyan::app
