#include "banyan/fabric/text.h"

#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

std::string error_of(std::string_view text) {
  try {
    parse_fabric_text(text, "f.txt");
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(StartsWith("f.txt"), Not(HasSubstr("\n"))));
    EXPECT_LT(std::string(error.what()).size(), 600u);
    return error.what();
  }
  return "";
}

TEST(FabricText, ReadsBitsPerSecondInTheirShortForm) {
  const Fabric fabric = parse_fabric_text("a <-> b 100Gbps 5ps; b <-> c 100 Gb/s");
  for (const Link& link : fabric.links()) EXPECT_EQ(link.bandwidth, Bandwidth::gigabits_per_second(100));
}

TEST(FabricTextForm, DeclaresNodesByTheirFirstUse) {
  const Fabric fabric = parse_fabric_text(
      "a <-> sw0 1GB/s; nvsw <-> a 1GB/s; swan: rank; swan <-> a 1GB/s; hub: switch; hub <-> a 1GB/s");
  EXPECT_TRUE(fabric.is_rank(fabric.at("a")));
  EXPECT_TRUE(fabric.is_rank(fabric.at("swan")));
  EXPECT_FALSE(fabric.is_rank(fabric.at("sw0")));
  EXPECT_FALSE(fabric.is_rank(fabric.at("nvsw")));
  EXPECT_FALSE(fabric.is_rank(fabric.at("hub")));
  EXPECT_THAT(error_of("a <-> b 1GB/s; a: switch"), HasSubstr("line 1 column 15: node 'a' is declared twice"));
}

TEST(FabricTextForm, ReadsEveryWayToWriteALink) {
  const Fabric fabric = parse_fabric_text("a -> b 400Gb/s\n\nb->x 1GB/s 2us;;x<->a\t50 GB/s 250 ns # c -> d\r\n");
  ASSERT_EQ(fabric.links().size(), 4u);
  EXPECT_EQ(fabric.name(fabric.link(LinkId{1}).to), "x");
  EXPECT_EQ(fabric.link(LinkId{0}).bandwidth, Bandwidth::gigabytes_per_second(50));
  EXPECT_EQ(fabric.link(LinkId{2}).latency, Picoseconds(250'000));
}

TEST(FabricTextForm, ReadsWhichBandwidthsAreAssumed) {
  const Fabric fabric = parse_fabric_text(
      "a -> b 6GB/s assumed; b -> a 6GB/s; a <-> c 6GB/s 1us loss 0.5 assumed; a -> assumed 1GB/s; assumed -> a 1GB/s");
  std::vector<bool> assumed;
  for (const Link& link : fabric.links()) assumed.push_back(link.assumed);
  EXPECT_THAT(assumed, ElementsAre(true, false, true, true, false, false));
  EXPECT_EQ(fabric.link(LinkId{2}).loss, 0.5);
  EXPECT_EQ(fabric.link(LinkId{2}).latency, Picoseconds(1'000'000));
  EXPECT_THAT(error_of("a <-> b 1GB/s unassumed"), HasSubstr("unassumed"));
  EXPECT_THAT(error_of("a <-> b 1GB/s assumed loss 0.5"), HasSubstr("assumed"));
}

TEST(FabricTextForm, NamesLineColumnAndCulprit) {
  EXPECT_THAT(error_of("a <-> b 1GB/s\n# all is well\n  b => c 1GB/s"), HasSubstr("f.txt line 3 column 1: "));
  EXPECT_THAT(error_of("a <-> b 1GB/s; b => c 1GB/s"), HasSubstr("found 'b => c 1GB/s'"));
  EXPECT_THAT(error_of("->"), HasSubstr("found '->'"));
  EXPECT_THAT(error_of("a b -> c 1GB/s"), HasSubstr("found 'a b -> c 1GB/s'"));
  EXPECT_THAT(error_of("a <-> b 1GB/s; x <-> y"), HasSubstr("link x <-> y has no bandwidth"));
  EXPECT_THAT(error_of("a ->"), HasSubstr("found 'a ->'"));
  EXPECT_THAT(error_of(": rank"), HasSubstr("empty name"));
  EXPECT_THAT(error_of("\x01 <-> b 1GB/s"), HasSubstr("control characters"));
  EXPECT_THAT(error_of("\xff <-> b 1GB/s"), HasSubstr("not UTF-8"));
  const std::string long_name(1000, 'x');
  EXPECT_THAT(error_of(long_name + " <-> b 1GB/s"), HasSubstr("longer than 200 bytes"));
  EXPECT_THAT(error_of("a <-> b " + std::string(100'000, '1')), HasSubstr("has no bandwidth"));
}

TEST(FabricTextForm, RefusesBandwidthsThatAreNone) {
  for (const char* value :
       {"0GB/s", "-1GB/s", "NaNGB/s", "infGB/s", "300", "300/s", "300GB", "", "1e6GB/s", "9999999TB/s",
        "99999999999999999999999999999999999999999GB/s", "0.3B/s", "GB/s", "1GB/s 5", "1GB/s -5us"}) {
    EXPECT_THAT(error_of("a <-> c 1GB/s; a <-> b " + std::string(value)), HasSubstr("f.txt line 1 column 15: "))
        << value;
  }
}

TEST(FabricTextForm, RefusesFabricsThatAreNone) {
  EXPECT_THAT(error_of(""), HasSubstr("at least two ranks"));
  EXPECT_THAT(error_of("a: rank"), HasSubstr("at least two ranks, this one has 1"));
  EXPECT_THAT(error_of("a <-> b 1GB/s; c <-> d 1GB/s"), HasSubstr("rank 'c' cannot be reached from rank 'a'"));
}

TEST(FabricTextForm, RefusesMoreThanAMillionNodes) {
  std::string text;
  for (size_t i = 0; i <= Fabric::kMaxNodes; ++i) text += "n" + std::to_string(i) + ": rank\n";
  EXPECT_THAT(error_of(text), HasSubstr("line 1000001 column 1: more than 1000000 nodes"));
}

}  // namespace
}  // namespace banyan::fabric
