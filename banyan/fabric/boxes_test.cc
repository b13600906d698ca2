#include "banyan/fabric/boxes.h"

#include <gtest/gtest.h>

#include "banyan/fabric/text.h"

namespace banyan::fabric {
namespace {

// "a b | c d": the names of the ranks of each box.
std::string boxes_of(std::string_view text) {
  const Fabric fabric = parse_fabric_text(text);
  std::string result;
  for (const auto& ranks : find_boxes(fabric).ranks) {
    if (!result.empty()) result += " |";
    for (const NodeId rank : ranks) result += (result.empty() ? "" : " ") + fabric.name(rank);
  }
  return result;
}

TEST(Boxes, AreWhatTheFasterLinksJoin) {
  EXPECT_EQ(boxes_of("a <-> nvsw0 300GB/s; b <-> nvsw0 300GB/s; c <-> nvsw1 300GB/s; d <-> nvsw1 300GB/s;"
                     "a <-> sw 25GB/s; b <-> sw 25GB/s; c <-> sw 25GB/s; d <-> sw 25GB/s"),
            "a b | c d");
  EXPECT_EQ(boxes_of("a <-> b 50GB/s; c <-> d 200GB/s; a <-> sw 16GB/s; c <-> sw 16GB/s"), "a b | c d");
}

TEST(Boxes, SurviveASlowRankInside) {
  EXPECT_EQ(boxes_of("a <-> nvsw0 300GB/s; b <-> nvsw0 100GB/s; c <-> nvsw1 300GB/s; d <-> nvsw1 300GB/s;"
                     "a <-> sw 25GB/s; b <-> sw 25GB/s; c <-> sw 10GB/s; d <-> sw 25GB/s"),
            "a b | c d");
}

TEST(Boxes, AreTheHostsOfALeafWhenBandwidthsDoNotTell) {
  const std::string leaves =
      "a <-> sw0 1GB/s; b <-> sw0 1GB/s; c <-> sw1 1GB/s; d <-> sw1 1GB/s; sw0 <-> sw9 1GB/s; sw1 <-> sw9 ";
  EXPECT_EQ(boxes_of(leaves + "1GB/s"), "a b | c d");
  EXPECT_EQ(boxes_of(leaves + "4GB/s"), "a b | c d");
}

TEST(Boxes, AreOneWhenNothingTells) {
  EXPECT_EQ(boxes_of("a <-> b 1GB/s; b <-> c 1GB/s; c <-> a 1GB/s"), "a b c");
  EXPECT_EQ(boxes_of("a <-> sw 1GB/s; b <-> sw 9GB/s; c <-> sw 9GB/s"), "a b c");
  // The packages of a server are no boxes, as nothing but links joins them.
  EXPECT_EQ(boxes_of("a <-> b 200GB/s; b <-> c 50GB/s; c <-> d 200GB/s; d <-> a 50GB/s"), "a b c d");
  // Links that differ little are no tiers.
  EXPECT_EQ(boxes_of("a <-> b 9GB/s; b <-> c 8GB/s; c <-> d 9GB/s; d <-> a 7GB/s"), "a b c d");
}

TEST(Boxes, ASwitchOfOneBoxBelongsToIt) {
  const Fabric fabric = parse_fabric_text(
      "a <-> nvsw0 9GB/s; b <-> nvsw0 9GB/s; c <-> nvsw1 9GB/s; d <-> nvsw1 9GB/s; a <-> sw 1GB/s; c <-> sw 1GB/s;"
      "sw <-> sw2 1GB/s");
  const Boxes boxes = find_boxes(fabric);
  EXPECT_EQ(boxes.box_of[index(fabric.at("nvsw0"))], 0u);
  EXPECT_EQ(boxes.box_of[index(fabric.at("nvsw1"))], 1u);
  EXPECT_EQ(boxes.box_of[index(fabric.at("d"))], 1u);
  EXPECT_EQ(boxes.box_of[index(fabric.at("sw"))], Boxes::kNone);
  EXPECT_EQ(boxes.box_of[index(fabric.at("sw2"))], Boxes::kNone);
}

}  // namespace
}  // namespace banyan::fabric
