#include "banyan/predict/simulation/link_events.h"

#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

Fabric pair_with_two_switches() {
  return fabric::parse_fabric_text("a <-> sw-s 4GB/s; sw-s <-> b 4GB/s; a <-> sw-t 2GB/s; sw-t <-> b 2GB/s");
}

std::string error_of(std::string_view text) {
  return testing::error_of([&] { parse_link_events(pair_with_two_switches(), text); });
}

TEST(LinkEvents, AreReadForBothDirectionsOfACable) {
  const Fabric fabric = pair_with_two_switches();
  const auto expect = [&](std::string_view text, Picoseconds time, std::optional<Bandwidth> bandwidth) {
    const std::vector<LinkEvent> events = parse_link_events(fabric, text);
    ASSERT_EQ(events.size(), 2u) << text;
    EXPECT_EQ(fabric.name(fabric.link(events[0].link).from), "a") << text;
    EXPECT_EQ(fabric.name(fabric.link(events[0].link).to), "sw-s") << text;
    EXPECT_EQ(fabric.name(fabric.link(events[1].link).from), "sw-s") << text;
    EXPECT_EQ(fabric.name(fabric.link(events[1].link).to), "a") << text;
    for (const LinkEvent& event : events) {
      EXPECT_EQ(event.time, time) << text;
      EXPECT_EQ(event.bandwidth, bandwidth) << text;
    }
  };
  expect("10ms a-sw-s=1GB/s", milliseconds(10), Bandwidth::bytes_per_second(1'000'000'000));
  expect(" 10 ms  a-sw-s = 1 GB/s ", milliseconds(10), Bandwidth::bytes_per_second(1'000'000'000));
  expect("0us a-sw-s fail", milliseconds(0), Bandwidth());
  expect("20ms a-sw-s returns", milliseconds(20), std::nullopt);
}

TEST(LinkEvents, SayWhatIsWrongAndHowToMendIt) {
  EXPECT_THAT(error_of("10ms a-sw-x fail"), AllOf(HasSubstr("'10ms a-sw-x fail'"), HasSubstr("'sw-x'")));
  EXPECT_THAT(error_of("10ms sw-t-sw-s fail"), AllOf(HasSubstr("no link joins"), HasSubstr("joined to a, b")));
  EXPECT_THAT(error_of("10ms a-sw-s=0GB/s"), HasSubstr("write 'a-sw-s fail'"));
  EXPECT_THAT(error_of("10ms a-sw-s=4"), HasSubstr("300 GB/s"));
  EXPECT_THAT(error_of("10 a-sw-s fail"), HasSubstr("1 us"));
  for (const char* text : {"", "10ms", "10ms a-sw-s", "10ms fail", "10 ms"}) {
    EXPECT_THAT(error_of(text), HasSubstr("write it as")) << text;
  }
  EXPECT_THAT(error_of("10ms a fail"), HasSubstr("'a' names no two nodes; write them as in"));
  EXPECT_THROW(parse_on_failure("wait"), Error);
  EXPECT_EQ(parse_on_failure("move"), OnFailure::move);
}

TEST(LinkTimeline, GathersWhatHappensAtOneTimeAndNumbersHowLinksAreTogether) {
  const LinkTimeline timeline(pair_with_two_switches(), std::vector<LinkEvent>{
                                                            {milliseconds(3), LinkId{1}, std::nullopt},
                                                            {milliseconds(1), LinkId{4}, Bandwidth()},
                                                            {milliseconds(1), LinkId{1}, std::nullopt},
                                                            {milliseconds(1), LinkId{1}, Bandwidth()},
                                                            {milliseconds(5), LinkId{1}, Bandwidth()},
                                                        });
  ASSERT_EQ(timeline.moments().size(), 3u);
  EXPECT_EQ(timeline.moments()[0].changes.size(), 2u);
  EXPECT_EQ(timeline.moments()[0].state, timeline.moments()[2].state);
  ASSERT_EQ(timeline.states().size(), 3u);
  EXPECT_TRUE(timeline.is_down(timeline.moments()[0].state, LinkId{1}));
  EXPECT_FALSE(timeline.is_down(timeline.moments()[1].state, LinkId{1}));
  EXPECT_TRUE(timeline.is_down(timeline.moments()[1].state, LinkId{4}));
  EXPECT_FALSE(timeline.is_down(0, LinkId{4}));
}

TEST(LinkTimeline, TellsWhatEachLinkHas) {
  const Fabric fabric = pair_with_two_switches();
  const auto gigabytes = [](uint64_t count) { return Bandwidth::bytes_per_second(count * 1'000'000'000); };
  const LinkTimeline timeline(fabric, std::vector<LinkEvent>{
                                          {milliseconds(1), LinkId{1}, gigabytes(1)},
                                          {milliseconds(2), LinkId{1}, gigabytes(3)},
                                          {milliseconds(3), LinkId{1}, fabric.link(LinkId{1}).bandwidth},
                                          {milliseconds(4), LinkId{1}, gigabytes(1)},
                                      });
  EXPECT_EQ(timeline.states().size(), 3u);  // as it is, and twice changed
  EXPECT_FALSE(timeline.any_ever_down());
  const auto has_after = [&](size_t moment, uint32_t link) {
    return timeline.bandwidth(timeline.moments()[moment].state, LinkId{link}, fabric.link(LinkId{link}).bandwidth);
  };
  EXPECT_EQ(has_after(0, 1), gigabytes(1));
  EXPECT_EQ(has_after(1, 1), gigabytes(3));
  EXPECT_EQ(has_after(2, 1), gigabytes(4));
  EXPECT_EQ(has_after(3, 1), gigabytes(1));
  EXPECT_EQ(has_after(0, 4), gigabytes(2));
}

}  // namespace
}  // namespace banyan::predict
