#include "banyan/predict/report/page_events.h"

#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::predict::report {
namespace {

using Kind = LinkMark::Kind;

// Links 0 and 1 are the cable a - s, 2 and 3 a second one beside it, 4 and 5 s - b, 6 goes from b to a.
ReportInput with_events(std::vector<LinkEvent> events) {
  ReportInput input;
  input.fabric = fabric::parse_fabric_text("a <-> s 4GB/s; a <-> s 2GB/s; s <-> b 4GB/s; b -> a 1GB/s");
  input.prediction.time = Picoseconds(1000);
  input.prediction.events = std::move(events);
  return input;
}

LinkEvent event(int64_t time, uint32_t link, std::optional<Bandwidth> bandwidth) {
  return {.time = Picoseconds(time), .link = LinkId{link}, .bandwidth = bandwidth};
}

constexpr Bandwidth kDown{};
constexpr Bandwidth kSlow = Bandwidth::gigabytes_per_second(1);

class Events {
 public:
  explicit Events(std::vector<LinkEvent> events, size_t most = 100)
      : input_(with_events(std::move(events))), names_(&*input_.fabric), page_(input_, names_, most) {}
  const PageEvents* operator->() const { return &page_; }

 private:
  const ReportInput input_;
  const LinkNames names_;
  const PageEvents page_;
};

TEST(PageEvents, MarksWhatHappensAlikeAtOneTimeOnce) {
  const Events events({event(10, 0, kDown), event(10, 1, kDown), event(10, 4, kSlow), event(10, 6, kDown),
                       event(20, 0, std::nullopt), event(20, 1, std::nullopt)});
  const std::vector<LinkMark>& marks = events->marks();
  ASSERT_EQ(marks.size(), 3u);
  EXPECT_EQ(marks[0].kind, Kind::down);
  EXPECT_EQ(marks[0].time, Picoseconds(10));
  EXPECT_EQ(marks[0].links, 3u);
  EXPECT_THAT(marks[0].names, ElementsAre("a – s", "b -> a"));
  EXPECT_EQ(marks[1].kind, Kind::bandwidth);
  EXPECT_EQ(marks[1].bandwidth, kSlow);
  EXPECT_THAT(marks[1].names, ElementsAre("s -> b"));
  EXPECT_EQ(marks[2].kind, Kind::up);
  EXPECT_EQ(marks[2].time, Picoseconds(20));
  EXPECT_THAT(events->changed_links(), ElementsAre(0, 1, 4, 6));
}

TEST(PageEvents, CountsParallelCablesUnderOneName) {
  const Events events({event(10, 0, kDown), event(10, 1, kDown), event(10, 2, kDown), event(10, 3, kDown)});
  EXPECT_THAT(events->marks().front().names, ElementsAre("a – s (2 cables)"));
}

TEST(PageEvents, KnowsHowLongLinksWereNotAsTheFabricSays) {
  const Events events({event(10, 0, kDown), event(30, 0, kSlow), event(40, 0, std::nullopt), event(50, 1, kDown),
                       event(50, 4, std::nullopt), event(1000, 5, kDown)});
  const auto states = events->states(0);
  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[0].begin, Picoseconds(10));
  EXPECT_EQ(states[0].end, Picoseconds(30));
  EXPECT_EQ(states[0].bandwidth, kDown);
  EXPECT_EQ(states[1].end, Picoseconds(40));
  EXPECT_EQ(states[1].bandwidth, kSlow);
  ASSERT_EQ(events->states(1).size(), 1u);
  EXPECT_EQ(events->states(1)[0].end, Picoseconds(1000)) << "to the end";
  EXPECT_THAT(events->states(2), IsEmpty());
  EXPECT_THAT(events->states(4), IsEmpty());
  EXPECT_THAT(events->states(5), IsEmpty()) << "it failed when all was over";
}

TEST(PageEvents, SaysWhatItLeavesOut) {
  const Events events({event(10, 0, kDown), event(20, 0, std::nullopt), event(30, 0, kDown)}, 2);
  EXPECT_EQ(events->marks().size(), 2u);
  EXPECT_EQ(events->note(), "Of 3 changes of links the timeline marks the first 2.");
  EXPECT_EQ(events->states(0).size(), 2u);
}

TEST(PageEvents, FindsWhenAnyOfSomeLinksWasDown) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<LinkEvent> changes;
    std::vector<std::vector<bool>> is_down(7, std::vector<bool>(1000, false));
    for (uint32_t link = 0; link < 7; ++link) {
      for (int64_t at = static_cast<int64_t>(random() % 400); at < 1000;
           at += 1 + static_cast<int64_t>(random() % 400)) {
        const uint64_t what = random() % 3;
        changes.push_back(event(at, link,
                                what == 0   ? std::optional(kDown)
                                : what == 1 ? std::optional(kSlow)
                                            : std::nullopt));
        std::fill(is_down[link].begin() + at, is_down[link].end(), what == 0);
      }
    }
    std::sort(changes.begin(), changes.end(), [](const LinkEvent& a, const LinkEvent& b) {
      return std::pair(a.time, a.link) < std::pair(b.time, b.link);
    });
    std::vector<uint32_t> some;
    for (uint32_t link = 0; link < 7; ++link) {
      if (random() % 2 == 0) some.push_back(link);
    }
    const Events events(changes);
    std::vector<bool> expected(1000, false), found(1000, false);
    for (const uint32_t link : some) {
      for (size_t at = 0; at < 1000; ++at) expected[at] = expected[at] || is_down[link][at];
    }
    Picoseconds last{-1};
    for (const LinkState& state : events->down(some)) {
      EXPECT_GT(state.begin, last) << "apart";
      last = state.end;
      for (int64_t at = state.begin.count(); at < state.end.count(); ++at) found[static_cast<size_t>(at)] = true;
    }
    ASSERT_EQ(found, expected) << round;
  }
}

}  // namespace
}  // namespace banyan::predict::report
