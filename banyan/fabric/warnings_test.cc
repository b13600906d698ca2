#include "banyan/fabric/warnings.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

std::vector<std::string> warnings_of(std::string_view text) { return warnings(parse_fabric_text(text)); }

TEST(FabricWarnings, AreSilentOnSoundFabrics) {
  for (const char* spec :
       {"dgx-a100:1", "dgx-a100:4", "dgx-h100:2", "mi250:2", "dgx1-v100:2", "ring:8", "full:8", "torus:4x4", "mesh:4x4",
        "hypercube:4", "leaf-spine:leaves=4,hosts=4,spines=2", "fat-tree:k=4"}) {
    EXPECT_THAT(warnings(generate_fabric(spec)), IsEmpty()) << spec;
  }
}

TEST(FabricWarnings, TellOneWayLinksAndUnevenCables) {
  EXPECT_THAT(warnings_of("a -> b 1GB/s; b -> c 1GB/s; c -> a 1GB/s"),
              ElementsAre("link a -> b is one-way: nothing leads straight back",
                          "link c -> a is one-way: nothing leads straight back",
                          "link b -> c is one-way: nothing leads straight back"));
  EXPECT_THAT(warnings_of("a <-> b 1GB/s; a -> b 500MB/s"),
              ElementsAre("cable a <-> b has 1.5 GB/s forth and 1 GB/s back"));
  // Parallel cables that differ from each other are even all the same.
  EXPECT_THAT(warnings_of("a <-> b 1GB/s; a <-> b 3GB/s"), IsEmpty());
}

TEST(FabricWarnings, TellSwitchesThatLeadNowhere) {
  EXPECT_THAT(warnings_of("a <-> b 1GB/s; a <-> sw0 1GB/s; sw0 <-> sw1 1GB/s; sw2: switch"),
              ElementsAre(HasSubstr("switch sw0 leads nowhere"), HasSubstr("switch sw1 leads nowhere"),
                          HasSubstr("switch sw2 leads nowhere")));
  EXPECT_THAT(warnings_of("a -> sw 1GB/s; b -> sw 1GB/s; a <-> b 1GB/s"),
              Contains(HasSubstr("switch sw leads nowhere")));
}

TEST(FabricWarnings, TellSwitchesThatGiveOutMoreThanTheyTakeIn) {
  EXPECT_THAT(warnings_of("a -> sw 1GB/s; sw -> a 2GB/s; b <-> sw 1GB/s"),
              Contains(HasSubstr("switch sw takes in 2 GB/s but gives out 3 GB/s")));
}

TEST(FabricWarnings, TellFiguresThatNoProductHas) {
  EXPECT_THAT(warnings_of("a <-> b 400TB/s"), Contains(HasSubstr("link a -> b: no product moves 400 TB/s")));
  EXPECT_THAT(warnings_of("a <-> b 300 B/s"), Contains(HasSubstr("300 B/s is very slow")));
  EXPECT_THAT(warnings_of("a <-> b 1GB/s 1s"), Contains(HasSubstr("a latency of 1 s")));
  Fabric::Builder builder;
  const NodeId a = builder.add_rank("a"), b = builder.add_rank("b");
  builder.add_cable({.from = a, .to = b, .bandwidth = Bandwidth::gigabytes_per_second(1), .loss = 0.5});
  EXPECT_THAT(warnings(std::move(builder).build()), Contains(HasSubstr("link a -> b loses more than a tenth")));
}

TEST(FabricWarnings, TellRanksFarSlowerThanTheirPeers) {
  EXPECT_THAT(warnings_of("a <-> sw 10GB/s; b <-> sw 10GB/s; c <-> sw 4GB/s"),
              ElementsAre("rank c sends at 4 GB/s, the median rank at 10 GB/s",
                          "rank c receives at 4 GB/s, the median rank at 10 GB/s"));
}

TEST(FabricWarnings, CountWhatIsFoundOften) {
  const std::vector<std::string> lines = warnings(generate_fabric("kautz:n=12,d=2"));
  EXPECT_THAT(lines, AllOf(SizeIs(::testing::Le(12u)), Contains(HasSubstr("more one-way links"))));
}

}  // namespace
}  // namespace banyan::fabric
