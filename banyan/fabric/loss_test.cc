#include "banyan/fabric/loss.h"

#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

TEST(Loss, IsReadAsAFractionBelowOne) {
  EXPECT_EQ(parse_loss("0"), 0);
  EXPECT_EQ(parse_loss("1e-5"), 1e-5);
  EXPECT_EQ(format_loss(parse_loss("0.002")), "0.002");
  for (const char* bad : {"", "1", "-0.1", "x", "0.1x", "nan", "inf", "1e400", "0.1 "})
    EXPECT_THROW(parse_loss(bad), Error) << bad;
}

TEST(Loss, CablesThatLoseTooMuchAreTakenOutWhole) {
  const Fabric fabric =
      parse_fabric_text("a <-> b 1GB/s loss 0.01; a -> c 1GB/s loss 0.2; c -> a 1GB/s; b <-> c 1GB/s");
  EXPECT_EQ(without_lossy_links(fabric, 0.2).links().size(), 6);
  const Fabric left = without_lossy_links(fabric, 0.01);
  EXPECT_EQ(left.links().size(), 4);
  for (const Link& link : left.links()) EXPECT_TRUE(left.name(link.from) == "b" || left.name(link.to) == "b");
  EXPECT_EQ(left.nodes().size(), 3);
}

TEST(Loss, NamesTheLinkThatIsNeeded) {
  // To join d, one of its links is needed; the one that loses less. To join c, one that loses less still.
  const Fabric fabric = parse_fabric_text(
      "a <-> b 1GB/s; b <-> c 1GB/s loss 0.01; c <-> d 1GB/s loss 0.3; d <-> a 1GB/s loss 0.2; d <-> b 1GB/s loss 0.4");
  try {
    without_lossy_links(fabric, 0.001);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "rank 'd' would be cut off: link a-d, which loses 0.2, is needed; mend it, or allow 0.2");
  }
  EXPECT_NO_THROW(without_lossy_links(fabric, 0.2));
}

TEST(Loss, TheTextFormHasIt) {
  const Fabric fabric = parse_fabric_text("a <-> b 1GB/s 2us loss 0.25; b -> a 1GB/s loss 1e-6");
  EXPECT_EQ(fabric.link(LinkId{1}).loss, 0.25);
  EXPECT_EQ(fabric.link(LinkId{1}).latency, std::chrono::microseconds(2));
  EXPECT_EQ(fabric.link(LinkId{2}).loss, 1e-6);
  EXPECT_THAT(testing::error_of([&] { parse_fabric_text("a <-> b 1GB/s loss 2"); }), HasSubstr("'2' is no loss"));
  EXPECT_THROW(parse_fabric_text("a <-> b 1GB/s loss"), Error);
}

}  // namespace
}  // namespace banyan::fabric
