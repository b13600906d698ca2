#include "banyan/fabric/boxes.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

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

TEST(Boxes, AreWhatDirectLinksJoinWhereTheseTogetherAreWide) {
  // Four ranks, each joined to each by a link as wide as a NIC.
  const std::string two_servers =
      "a <-> b 5GB/s; a <-> c 5GB/s; a <-> d 5GB/s; b <-> c 5GB/s; b <-> d 5GB/s; c <-> d 5GB/s;"
      "e <-> f 5GB/s; e <-> g 5GB/s; e <-> h 5GB/s; f <-> g 5GB/s; f <-> h 5GB/s; g <-> h 5GB/s;";
  const std::string nics =
      "a <-> sw0 5GB/s; b <-> sw0 5GB/s; c <-> sw0 5GB/s; d <-> sw0 5GB/s; e <-> sw0 5GB/s;"
      "f <-> sw0 5GB/s; g <-> sw0 5GB/s; h <-> sw0 5GB/s";
  EXPECT_EQ(boxes_of(two_servers + nics), "a b c d | e f g h");
  // Cables beside a network that is as fast make no boxes, and neither does a bridge of two GPUs beside PCIe.
  EXPECT_EQ(boxes_of("a <-> b 1GB/s; c <-> d 1GB/s; a <-> sw0 1GB/s; c <-> sw0 1GB/s; b <-> sw1 1GB/s; d <-> sw1 1GB/s;"
                     "sw0 <-> sw1 1GB/s"),
            "a c | b d");
  // A rank without a direct link would be a box of its own.
  EXPECT_EQ(boxes_of(two_servers + nics + "; i <-> sw0 5GB/s"), "a b c d e f g h i");
}

TEST(Boxes, AreOneWhereDirectLinksJoinAllWhateverSwitchesAreBesideThem) {
  EXPECT_EQ(boxes_of("a <-> b 50GB/s; b <-> c 50GB/s; c <-> d 50GB/s; d <-> a 50GB/s; a <-> sw0 12GB/s;"
                     "b <-> sw0 12GB/s; c <-> sw1 12GB/s; d <-> sw1 12GB/s; sw0 <-> sw1 12GB/s"),
            "a b c d");
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

// Boxes of consecutive ranks, all of the same size.
TEST(Boxes, OfEveryGeneratorAreItsServersElseItsLeavesElseOne) {
  struct Expected {
    const char* spec;
    size_t boxes, ranks_each;
  };
  const Expected table[] = {
      {"dgx-a100:1", 1, 8},
      {"dgx-a100:3", 3, 8},
      {"dgx-h100:2", 2, 8},
      {"dgx-h200:2", 2, 8},
      {"dgx-b200:2", 2, 8},
      {"gb200-nvl72:1", 1, 72},
      {"gb200-nvl72:2", 2, 72},
      {"dgx1-v100:1", 1, 8},
      {"dgx1-v100:3", 3, 8},
      {"mi250:1", 1, 16},
      {"mi250:3", 3, 16},
      {"mi250:2@100GB/s", 2, 16},
      {"mi300x:1", 1, 8},
      {"mi300x:2", 2, 8},
      {"mi300x:5@800Gb/s", 5, 8},
      {"mi300x:2@100Gb/s", 2, 8},
      {"ring:8", 1, 8},
      {"full:8", 1, 8},
      {"star:8", 1, 8},
      {"torus:4x4x4", 1, 64},
      {"mesh:3x5", 1, 15},
      {"hypercube:4", 1, 16},
      {"circulant:16,3,4", 1, 16},
      {"kautz:n=16,d=3", 1, 16},
      {"debruijn:k=2,n=4", 1, 16},
      {"modified-debruijn:k=2,n=4", 1, 16},
      {"bipartite:4x4", 1, 8},
      {"hamming:4x4", 1, 16},
      {"cayley:m=8,k=2,r=7,by=2.1+5.1+1+6", 1, 16},
      {"diamond", 1, 8},
      {"line:(ring:8)", 1, 16},
      {"copies:(ring:4)x2", 1, 8},
      {"product:(ring:4)x(full:4)", 1, 16},
      {"power:(diamond)^2", 1, 64},
      {"leaf-spine:leaves=4,hosts=3,spines=2", 4, 3},
      {"fat-tree:k=4", 8, 2},
      {"rail:boxes=4,gpus=8", 4, 8},
      {"rail:boxes=4,gpus=8,spines=2", 4, 8},
      {"dragonfly:groups=5,routers=2,hosts=3", 10, 3},
      {"subways:racks=6,hosts=4,ports=2,spines=2", 6, 4},
      {"shufflecast:fanout=2,columns=2", 1, 8},
      {"random:n=16,links=40,seed=7", 1, 16},
  };
  std::set<std::string> kinds;
  for (const Expected& expected : table) {
    const std::string spec = expected.spec;
    kinds.insert(spec.substr(0, spec.find(':')));
    const Fabric fabric = generate_fabric(spec);
    const Boxes boxes = find_boxes(fabric);
    EXPECT_EQ(boxes.count(), expected.boxes) << spec;
    for (uint32_t rank = 0; rank < fabric.ranks().size(); ++rank) {
      EXPECT_EQ(boxes.box_of[index(fabric.ranks()[rank])], rank / expected.ranks_each) << spec << " rank " << rank;
    }
  }
  EXPECT_EQ(kinds.size(), fabric_generators().size()) << "every generator is in the table";
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
