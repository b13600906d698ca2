#include "banyan/fabric/fabric.h"

#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

std::string error_of(std::string_view text) {
  return testing::error_of([&] { parse_fabric_text(text); });
}

TEST(Fabric, FindsLinksByTheirEnds) {
  const Fabric fabric = parse_fabric_text("a -> b 400Gb/s; b <-> c 100Gb/s 2us; c -> a 1GB/s");
  EXPECT_EQ(fabric.ranks().size(), 3u);
  EXPECT_EQ(fabric.links().size(), 4u);
  EXPECT_EQ(fabric.out_links(fabric.at("b")).size(), 1u);
  EXPECT_EQ(fabric.in_links(fabric.at("b")).size(), 2u);
  EXPECT_EQ(fabric.link(LinkId{1}).latency, parse_duration("2us"));
}

TEST(Fabric, NamesTheRankThatIsCutOff) {
  EXPECT_THAT(error_of("a -> b 1GB/s"), HasSubstr("rank 'b' cannot reach rank 'a'"));
  EXPECT_THAT(error_of("a <-> b 1GB/s; c -> a 1GB/s"), HasSubstr("rank 'c' cannot be reached from rank 'a'"));
  EXPECT_THAT(error_of("a: rank; b <-> c 1GB/s; c <-> d 1GB/s"), HasSubstr("rank 'a' cannot be reached from rank 'b'"));
  EXPECT_THAT(error_of("a: rank; b -> a 1GB/s; b <-> c 1GB/s; c <-> d 1GB/s"),
              HasSubstr("rank 'a' cannot reach rank 'b'"));
  EXPECT_THAT(error_of("a: rank"), HasSubstr("at least two ranks"));
}

TEST(Fabric, SuggestsTheNearestName) {
  const Fabric fabric = parse_fabric_text("gpu0 <-> gpu1 1GB/s");
  EXPECT_THAT(testing::error_of([&] { fabric.at("gpu9"); }), HasSubstr("did you mean 'gpu0'?"));
}

TEST(Fabric, KeepsASymmetryOnlyWhileItHolds) {
  const auto square = [](const char* last) {
    Fabric::Builder builder;
    for (const char* name : {"a", "b", "c", "d"}) builder.add_rank(name);
    for (uint32_t i = 0; i < 4; ++i) {
      const Bandwidth bandwidth = i == 3 ? Bandwidth::parse(last) : Bandwidth::gigabytes_per_second(1);
      builder.add_cable({.from = NodeId{i}, .to = NodeId{(i + 1) % 4}, .bandwidth = bandwidth});
    }
    builder.add_symmetry({NodeId{1}, NodeId{2}, NodeId{3}, NodeId{0}});
    return std::move(builder).build();
  };
  EXPECT_EQ(square("1 GB/s").symmetries().size(), 1u);
  EXPECT_EQ(generate_group(square("1 GB/s").symmetries(), 4).size(), 4u);
  EXPECT_EQ(square("2 GB/s").symmetries().size(), 0u);
}

// Six ranks and two switches, all joined to all: every permutation that keeps kinds is an automorphism.
Fabric full_with(const std::vector<Permutation>& generators) {
  Fabric::Builder builder;
  for (int i = 0; i < 6; ++i) builder.add_rank("r" + std::to_string(i));
  for (int i = 0; i < 2; ++i) builder.add_switch("sw" + std::to_string(i));
  for (uint32_t a = 0; a < 8; ++a) {
    for (uint32_t b = 0; b < a; ++b)
      builder.add_cable({.from = NodeId{a}, .to = NodeId{b}, .bandwidth = Bandwidth::gigabytes_per_second(1)});
  }
  for (const Permutation& generator : generators) builder.add_symmetry(generator);
  return std::move(builder).build();
}

TEST(Fabric, KeepsSymmetriesExactlyWhenNoListedElementKeepsARank) {
  // Powers of a 6-cycle, and what turns two triangles into each other: of both kinds some generate free groups.
  const std::vector<std::vector<uint32_t>> moves = {{1, 2, 3, 4, 5, 0}, {2, 3, 4, 5, 0, 1}, {3, 4, 5, 0, 1, 2},
                                                    {1, 2, 0, 4, 5, 3}, {1, 2, 0, 5, 3, 4}, {3, 4, 5, 0, 1, 2},
                                                    {3, 5, 4, 0, 2, 1}, {0, 1, 2, 3, 4, 5}, {1, 0, 2, 3, 4, 5}};
  int kept = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::vector<Permutation> generators(1 + random() % 3);
    for (Permutation& generator : generators) {
      for (const uint32_t to : moves[random() % moves.size()]) generator.push_back(NodeId{to});
      const uint32_t swap = random() % 2;
      for (uint32_t sw = 0; sw < 2; ++sw) generator.push_back(NodeId{6 + (sw ^ swap)});
    }
    const std::vector<Permutation> group = generate_group(generators, 1440);
    const bool free = std::all_of(group.begin() + 1, group.end(), [](const Permutation& element) {
      for (uint32_t v = 0; v < 6; ++v) {
        if (element[v] == NodeId{v}) return false;
      }
      return true;
    });
    EXPECT_EQ(!full_with(generators).symmetries().empty(), free);
    kept += free;
  }
  EXPECT_GT(kept, 30);
  EXPECT_LT(kept, 270);
}

TEST(Fabric, RefusesNamesThatCannotBePrintedOrStored) {
  const auto add = [](const std::string& name) {
    Fabric::Builder builder;
    builder.add_rank(name);
  };
  for (const char* bad : {"", "a\nb", "\x7f", "\xff", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xf0\x80\x80\x80", "\xe2\x82"}) {
    EXPECT_THROW(add(bad), Error) << bad;
  }
  for (const char* good :
       {"gpu0", "a b", "\xc3\xa4", "\xe2\x82\xac", "\xed\x9f\xbf", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_NO_THROW(add(good)) << good;
  }
  EXPECT_NO_THROW(add(std::string(Fabric::kMaxNameBytes, 'x')));
  EXPECT_THROW(add(std::string(Fabric::kMaxNameBytes + 1, 'x')), Error);
}

TEST(Fabric, FingerprintTellsFabricsApart) {
  const Fabric fabric = parse_fabric_text("a <-> b 1GB/s");
  EXPECT_EQ(fabric.fingerprint(), parse_fabric_text("a <-> b 1GB/s").fingerprint());
  EXPECT_NE(fabric.fingerprint(), parse_fabric_text("a <-> b 2GB/s").fingerprint());
  EXPECT_NE(fabric.fingerprint(), parse_fabric_text("a <-> c 1GB/s").fingerprint());
}

TEST(FabricText, NamesLineAndColumnOfWhatIsWrong) {
  EXPECT_THAT(error_of("a <-> b 1GB/s\nb -> c"), HasSubstr("line 2 column 1"));
  EXPECT_THAT(error_of("a <-> b 1GB/s; b => c 1GB/s"), HasSubstr("column 15"));
  EXPECT_THAT(error_of("a <-> b 100"), HasSubstr("has no bandwidth"));
  EXPECT_THAT(error_of("a <-> a 1GB/s"), HasSubstr("itself"));
  EXPECT_THAT(error_of("x: hub"), HasSubstr("neither rank nor switch"));
}

}  // namespace
}  // namespace banyan::fabric
