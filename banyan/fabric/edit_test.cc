#include "banyan/fabric/edit.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

using Kind = FabricEdit::Kind;

std::string error_of(const Fabric& fabric, const std::vector<FabricEdit>& edits) {
  return testing::error_of([&] { edit_fabric(fabric, edits); });
}

Fabric edited(std::string_view text, const std::vector<FabricEdit>& edits) {
  return edit_fabric(parse_fabric_text(text), edits);
}

TEST(FabricEdit, FailsAllLinksBetweenTwoNodesInBothDirections) {
  const Fabric fabric = edited("a <-> b 1GB/s; a -> b 2GB/s; b <-> c 3GB/s; c <-> a 4GB/s", {{Kind::fail, "b-a"}});
  EXPECT_EQ(fabric.fingerprint(), parse_fabric_text("a: rank; b <-> c 3GB/s; c <-> a 4GB/s").fingerprint());
}

TEST(FabricEdit, FailsAllLinksOfANode) {
  const Fabric fabric = edited("a <-> b 1GB/s; a <-> sw 2GB/s; sw <-> b 2GB/s", {{Kind::fail, "sw"}});
  EXPECT_EQ(fabric.nodes().size(), 3u);
  EXPECT_EQ(fabric.links().size(), 2u);
  EXPECT_TRUE(fabric.out_links(fabric.at("sw")).empty());
}

TEST(FabricEdit, DegradesEachLinkBetweenTwoNodes) {
  const Fabric fabric = edited("a <-> b 10GB/s 5us; b <-> c 10GB/s; c <-> a 10GB/s", {{Kind::degrade, "a-b=1 GB/s"}});
  EXPECT_EQ(fabric.fingerprint(), parse_fabric_text("a <-> b 1GB/s 5us; b <-> c 10GB/s; c <-> a 10GB/s").fingerprint());
}

TEST(FabricEdit, KeepsWhatIsAssumedAndTakesADegradedLinkAsGiven) {
  const std::string ring = "a <-> b 6GB/s assumed; b <-> c 6GB/s assumed; c <-> a 6GB/s";
  const auto assumed = [](const Fabric& fabric) {
    std::vector<std::string> names;
    for (const Link& link : fabric.links()) {
      if (link.assumed) names.push_back(fabric.name(link.from) + ">" + fabric.name(link.to));
    }
    return names;
  };
  EXPECT_THAT(assumed(edited(ring, {{Kind::degrade, "a-b=6GB/s"}})), ElementsAre("b>c", "c>b"));
  EXPECT_THAT(assumed(edited(ring, {{Kind::fail, "b-c"}})), ElementsAre("a>b", "b>a"));
  EXPECT_THAT(assumed(edited(ring, {{Kind::remove, "c"}}).reversed()), ElementsAre("b>a", "a>b"));
}

TEST(FabricEdit, RemovesANodeAndItsLinks) {
  const Fabric fabric = edited("a <-> b 1GB/s; b <-> c 2GB/s; c <-> a 3GB/s", {{Kind::remove, "b"}});
  EXPECT_EQ(fabric.fingerprint(), parse_fabric_text("a: rank; c <-> a 3GB/s").fingerprint());
}

TEST(FabricEdit, RemovesAndFailsListsAndAllThatBeginSo) {
  const Fabric star = parse_fabric_text(
      "n01 <-> sw 1GB/s; n02 <-> sw 1GB/s; n10 <-> sw 1GB/s; m1 <-> sw 1GB/s; m2 <-> sw 1GB/s; login <-> sw 1GB/s; "
      "x[1] <-> sw 1GB/s");
  const auto left = [&](const std::vector<FabricEdit>& edits) {
    std::string names;
    const Fabric fabric = edit_fabric(star, edits);
    for (const Node& node : fabric.nodes()) names += node.name + " ";
    return names;
  };
  EXPECT_EQ(left({{Kind::remove, "n[01-02,10],login"}}), "sw m1 m2 x[1] ");
  EXPECT_EQ(left({{Kind::remove, "n*"}}), "sw m1 m2 login x[1] ");
  EXPECT_EQ(left({{Kind::remove, "n[0-1]*,m2"}}), "sw m1 login x[1] ");
  EXPECT_EQ(left({{Kind::remove, "x[1]"}}), "n01 sw n02 n10 m1 m2 login ") << "a name wins";
  EXPECT_EQ(left({{Kind::remove, "n01"}, {Kind::remove, "n*"}}), "sw m1 m2 login x[1] ");
  const std::vector<FabricEdit> failed = {{Kind::fail, "sw[1-2]"}};
  const Fabric spines =
      parse_fabric_text("a <-> sw1 1GB/s; b <-> sw1 1GB/s; a <-> sw2 1GB/s; b <-> sw2 1GB/s; a <-> b 1GB/s");
  EXPECT_EQ(edit_fabric(spines, failed).links().size(), 2u);

  EXPECT_THAT(error_of(star, {{Kind::remove, "n[01-03]"}}),
              StartsWith("--remove n[01-03]: node 'n03' is not declared (did you mean 'n01'?)"));
  EXPECT_THAT(error_of(star, {{Kind::remove, "k*"}}), StartsWith("--remove k*: no node has a name like 'k*'"));
  EXPECT_THAT(error_of(star, {{Kind::remove, "n[01-02"}}), HasSubstr("has a '[' without a ']'"));
  EXPECT_THAT(error_of(star, {{Kind::remove, "n[1-1000000000000]"}}),
              HasSubstr("names more nodes than the 8 that there are"));
}

TEST(FabricEdit, AppliesEditsInOrder) {
  const std::string ring = "a <-> b 1GB/s; b <-> c 1GB/s; c <-> d 1GB/s; d <-> a 1GB/s";
  const Fabric fabric = edited(ring, {{Kind::degrade, "a-b=5GB/s"}, {Kind::degrade, "a-b=7GB/s"}, {Kind::remove, "d"}});
  EXPECT_EQ(fabric.fingerprint(), parse_fabric_text("a <-> b 7GB/s; b <-> c 1GB/s").fingerprint());
  EXPECT_THAT(error_of(parse_fabric_text(ring), {{Kind::remove, "d"}, {Kind::fail, "d-a"}}),
              StartsWith("--fail d-a: node 'd' has been removed by an earlier edit"));
  EXPECT_THAT(error_of(parse_fabric_text(ring), {{Kind::fail, "d-a"}, {Kind::degrade, "a-d=1GB/s"}}),
              StartsWith("--degrade a-d=1GB/s: no link joins 'a' and 'd'; 'a' is joined to b"));
  EXPECT_THAT(error_of(parse_fabric_text(ring), {{Kind::remove, "d"}, {Kind::remove, "d"}}), HasSubstr("removed"));
}

TEST(FabricEdit, SplitsAPairWhereBothSidesAreDeclared) {
  const std::string text = "box-0 <-> box-1 1GB/s; box-1 <-> c 1GB/s; c <-> box-0 2GB/s";
  EXPECT_EQ(edited(text, {{Kind::fail, "box-0-box-1"}}).links().size(), 4u);
  EXPECT_EQ(edited(text, {{Kind::fail, "c-box-1"}}).links().size(), 4u);
  EXPECT_THAT(error_of(parse_fabric_text(text), {{Kind::fail, "box-0-box-7"}}),
              HasSubstr("node 'box-7' is not declared (did you mean 'box-0'?)"));
  EXPECT_THAT(error_of(parse_fabric_text(text), {{Kind::fail, "d-e-f"}}), HasSubstr("'d-e-f' names no two nodes"));
}

TEST(FabricEdit, RefusesAmbiguousNames) {
  const Fabric pairs = parse_fabric_text("a <-> a-b 1GB/s; a-b <-> c 1GB/s; c <-> b-c 1GB/s; b-c <-> a 1GB/s");
  EXPECT_THAT(error_of(pairs, {{Kind::fail, "a-b-c"}}),
              HasSubstr("'a-b-c' is ambiguous: it may be 'a' and 'b-c', or 'a-b' and 'c'"));
  const Fabric node = parse_fabric_text("a <-> b 1GB/s; b <-> a-b 1GB/s; a-b <-> a 1GB/s");
  EXPECT_THAT(error_of(node, {{Kind::fail, "a-b"}}), HasSubstr("ambiguous: a node has that name"));
}

TEST(FabricEdit, NamesWhatIsWrongWithAnEdit) {
  const Fabric fabric = generate_fabric("ring:4@1GB/s");
  const std::string first = fabric.name(NodeId{0}), second = fabric.name(NodeId{1}), across = fabric.name(NodeId{2});
  EXPECT_THAT(error_of(fabric, {{Kind::remove, "zzz"}}), StartsWith("--remove zzz: node 'zzz' is not declared"));
  EXPECT_THAT(error_of(fabric, {{Kind::fail, first + "-nobody"}}), HasSubstr("node 'nobody' is not declared"));
  EXPECT_THAT(error_of(fabric, {{Kind::fail, "nobody-" + first}}), HasSubstr("node 'nobody' is not declared"));
  EXPECT_THAT(error_of(fabric, {{Kind::fail, first + "-" + across}}), HasSubstr("no link joins"));
  EXPECT_THAT(error_of(fabric, {{Kind::fail, first + "-" + first}}), HasSubstr("twice"));
  EXPECT_THAT(error_of(fabric, {{Kind::fail, ""}}), HasSubstr("is not declared"));
  EXPECT_THAT(error_of(fabric, {{Kind::fail, "-"}}), HasSubstr("is not declared"));
  EXPECT_THAT(error_of(fabric, {{Kind::degrade, first + "-" + second}}), HasSubstr("has no bandwidth"));
  EXPECT_THAT(error_of(fabric, {{Kind::degrade, first + "-" + second + "=0GB/s"}}), HasSubstr("is zero"));
  EXPECT_THAT(error_of(fabric, {{Kind::degrade, first + "-" + second + "=5"}}), HasSubstr("has no unit"));
  EXPECT_THAT(error_of(fabric, {{Kind::degrade, first + "=5GB/s"}}), HasSubstr("names no two nodes"));
}

TEST(FabricEdit, NamesTheRankThatIsCutOff) {
  const Fabric fabric = parse_fabric_text("a <-> b 1GB/s; b <-> c 1GB/s");
  EXPECT_THAT(error_of(fabric, {{Kind::fail, "b-c"}}), StartsWith("after --fail b-c: rank 'c' cannot be reached"));
  EXPECT_THAT(error_of(fabric, {{Kind::remove, "a"}, {Kind::remove, "b"}}), HasSubstr("at least two ranks"));
}

TEST(FabricEdit, KeepsOnlySymmetriesThatStillHold) {
  const Fabric ring = generate_fabric("ring:4@1GB/s");
  ASSERT_FALSE(ring.symmetries().empty());
  const auto pair = [&](uint32_t a, uint32_t b) { return ring.name(NodeId{a}) + "-" + ring.name(NodeId{b}); };
  EXPECT_TRUE(edit_fabric(ring, std::vector<FabricEdit>{{Kind::fail, pair(0, 1)}}).symmetries().empty());
  EXPECT_TRUE(edit_fabric(ring, std::vector<FabricEdit>{{Kind::remove, ring.name(NodeId{0})}}).symmetries().empty());
  std::vector<FabricEdit> all;
  for (uint32_t i = 0; i < 4; ++i) all.push_back({Kind::degrade, pair(i, (i + 1) % 4) + "=500MB/s"});
  EXPECT_EQ(edit_fabric(ring, all).symmetries().size(), ring.symmetries().size());
  EXPECT_EQ(edit_fabric(ring, {}).fingerprint(), ring.fingerprint());
}

// A model that shares no code with the edits: links as lines of text, crossed out one by one.
TEST(FabricEdit, EqualsCrossingOutLinesOnRandomFabrics) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto pick = [&](uint32_t below) { return static_cast<uint32_t>(random() % below); };
    struct Line {
      uint32_t from, to, speed;
    };
    std::vector<Line> lines;
    for (uint32_t i = 0; i < 6; ++i) lines.push_back({i, (i + 1) % 6, 9});  // a ring that no edit touches
    while (lines.size() < 24) {
      const uint32_t a = pick(6), b = pick(6);
      if (a != b && (a + 1) % 6 != b && (b + 1) % 6 != a) lines.push_back({a, b, 1 + pick(9)});
    }
    const auto text_of = [&] {
      std::string text;
      for (const Line& line : lines) {
        text += "n-" + std::to_string(line.from) + " -> n-" + std::to_string(line.to) + " " +
                std::to_string(line.speed) + "GB/s\n";
      }
      return text;
    };
    const Fabric before = parse_fabric_text(text_of());
    std::vector<FabricEdit> edits;
    for (int i = 0; i < 4; ++i) {
      const Line chosen = lines[6 + pick(static_cast<uint32_t>(lines.size() - 6))];
      const std::string pair = "n-" + std::to_string(chosen.to) + "-n-" + std::to_string(chosen.from);
      const auto joins = [&](const Line& line) {
        return (line.from == chosen.from && line.to == chosen.to) || (line.from == chosen.to && line.to == chosen.from);
      };
      if (const uint32_t speed = pick(9); speed > 0) {
        edits.push_back({Kind::degrade, pair + "=" + std::to_string(speed) + "GB/s"});
        for (Line& line : lines) line.speed = joins(line) ? speed : line.speed;
      } else {
        edits.push_back({Kind::fail, pair});
        std::erase_if(lines, joins);
      }
      if (lines.size() == 6) break;
    }
    EXPECT_EQ(edit_fabric(before, edits).fingerprint(), parse_fabric_text(text_of()).fingerprint());
  }
}

}  // namespace
}  // namespace banyan::fabric
