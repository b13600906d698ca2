#include "banyan/service/view/slow_links.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

// Three leaves, two spines, hosts a and b on leaf0, c and d on leaf1, e on leaf2. All links carry 100 MB/s.
constexpr double kCapacity = 100e6;

std::string leaf_of(const std::string& host) { return host < "c" ? "leaf0" : host < "e" ? "leaf1" : "leaf2"; }

// A way of a window of 0.4 s.
class Way {
 public:
  Way(const std::string& from, const std::string& to, const std::string& spine = "spine0") {
    way_ = {.from = from, .to = to, .seconds = 0.4};
    std::vector<std::string> nodes{from, leaf_of(from), spine, leaf_of(to), to};
    if (leaf_of(from) == leaf_of(to)) nodes = {from, leaf_of(from), to};
    for (size_t i = 1; i < nodes.size(); ++i) {
      way_.links.push_back({.name = nodes[i - 1] + "->" + nodes[i], .capacity = kCapacity});
    }
  }
  // Parts of the capacity, and of the window.
  Way carries(double part) && {
    way_.bytes_by_tenant["t"] = static_cast<uint64_t>(part * kCapacity * way_.seconds);
    return std::move(*this);
  }
  Way pressed(double part = 1) && {
    way_.pressed_seconds = part * way_.seconds;
    return std::move(*this);
  }
  // Nothing waited in the kernel.
  Way delayed(double part = 1) && {
    way_.pressed_seconds = way_.delayed_seconds = way_.busy_seconds = part * way_.seconds;
    way_.round_trip_seconds = 1e-3;
    return std::move(*this);
  }
  Way wakes_after(double seconds) && {
    way_.wake_seconds = seconds;
    return std::move(*this);
  }
  Way busy(double part) && {
    way_.busy_seconds = part * way_.seconds;
    return std::move(*this);
  }
  Way may_use(double part) && {
    way_.allowed = static_cast<uint64_t>(part * kCapacity);
    return std::move(*this);
  }
  Way by_unknown_spines() && {
    std::erase_if(way_.links, [](const WayLink& link) { return link.name.find("spine") != std::string::npos; });
    way_.is_whole = false;
    return std::move(*this);
  }
  WayView in(double seconds) && {
    way_.seconds = seconds;
    return std::move(way_);
  }
  operator WayView() && { return std::move(way_); }  // NOLINT(google-explicit-constructor)

 private:
  WayView way_;
};

std::vector<std::string> words(const std::vector<WayView>& ways) {
  std::vector<std::string> words;
  for (const SlowLink& each : find_slow_links(ways)) words.push_back(each.words);
  return words;
}

TEST(SlowLinks, NamesTheLinkThatAllSlowWaysCross) {
  EXPECT_THAT(words({Way("a", "c").carries(0.05).pressed(), Way("b", "e").carries(0.05).pressed(),
                     Way("a", "b").carries(0.6), Way("d", "c").carries(0.6)}),
              ElementsAre("link leaf0->spine0 carries 10 % of its rate: 0.0100 GB/s of 0.100 GB/s, though host a has "
                          "more for host c; 1 more way is slow by it; to plan for that: banyan service replan '*' "
                          "--bandwidth 'leaf0->spine0=10MB/s'"));
}

TEST(SlowLinks, ClearsLinksThatOtherWaysUseAtFullRate) {
  // From spine0 on, and up to leaf0, others go at full rate.
  EXPECT_THAT(words({Way("a", "c").carries(0.1).pressed(), Way("a", "b").carries(0.85).pressed(),
                     Way("d", "c", "spine1").carries(0.7).pressed(), Way("b", "c", "spine1").carries(0.1)}),
              IsEmpty())
      << "a->leaf0 is full";
  EXPECT_THAT(words({Way("a", "d").carries(0.1).pressed(), Way("a", "b").carries(0.6), Way("c", "d").carries(0.6)}),
              ElementsAre(HasSubstr("; slow is one of leaf0->spine0, spine0->leaf1")));
}

TEST(SlowLinks, NamesTheWayWhereItsLinksCannotBeToldApart) {
  EXPECT_THAT(
      words({Way("a", "b").carries(0.1).pressed()}),
      ElementsAre("the way host a -> host b carries 10 % of its rate: 0.0100 GB/s of 0.100 GB/s; slow is one of "
                  "a->leaf0, leaf0->b"));
}

TEST(SlowLinks, NamesTheWayWhereTheNetworkChoosesLinks) {
  EXPECT_THAT(words({Way("a", "c").by_unknown_spines().carries(0.1).pressed(), Way("a", "b").carries(0.3)}),
              ElementsAre("the way host a -> host c carries 10 % of its rate: 0.0100 GB/s of 0.100 GB/s"));
}

TEST(SlowLinks, NamesALinkThatCarriesNothing) {
  EXPECT_THAT(
      words({Way("a", "b").carries(0).pressed(), Way("c", "b").carries(0.3), Way("a", "d").carries(0).pressed()}),
      ElementsAre(AllOf(HasSubstr("link a->leaf0 carries 0"), HasSubstr("replan '*' --avoid 'a->leaf0'"))));
}

TEST(SlowLinks, ProposeWhatALinkCarriesWhileItIsPressed) {
  EXPECT_THAT(words({Way("a", "c").carries(0.1234).pressed(0.7), Way("a", "b").carries(0.6), Way("d", "c").carries(0.6),
                     Way("b", "e").carries(0.05).pressed()}),
              ElementsAre(HasSubstr("--bandwidth 'leaf0->spine0=18MB/s'")));
}

// Allreduce of 400 kB between two hosts, half of it by each spine: the half by spine0 takes nearly all of the time.
TEST(SlowLinks, ClearsLinksByWhatOthersCarryWhileTheySend) {
  EXPECT_THAT(words({Way("a", "c").carries(0.1).delayed(), Way("a", "c", "spine1").carries(0.1).busy(0.26)}),
              ElementsAre(HasSubstr("; slow is one of leaf0->spine0, spine0->leaf1")));
  EXPECT_THAT(words({Way("a", "c").carries(0.1).delayed(), Way("a", "c", "spine1").carries(0.1).busy(0.7)}),
              ElementsAre(HasSubstr("; slow is one of a->leaf0, leaf0->spine0, leaf1->c, spine0->leaf1")));
  EXPECT_THAT(words({Way("a", "c").carries(0.1).delayed(), Way("a", "c", "spine1").carries(0.01).busy(0.01)}),
              ElementsAre(HasSubstr("; slow is one of a->leaf0")))
      << "a message or two say nothing of a rate";
}

// What is acknowledged goes back the other way.
TEST(SlowLinks, ExplainsRoundTripsByALinkBackThatOthersFill) {
  const std::vector<WayView> ways = {Way("a", "c").carries(0.1).delayed(), Way("d", "b").carries(0.85)};
  EXPECT_THAT(words(ways), IsEmpty());
  EXPECT_THAT(words({Way("a", "c").carries(0.1).pressed(), Way("d", "b").carries(0.85)}), ::testing::SizeIs(1))
      << "bytes waited in the kernel";
}

// Round trips of a millisecond, of which a daemon that is late makes a part.
TEST(SlowLinks, ExplainsRoundTripsByDaemonsThatWaitForTheirCores) {
  const auto found = [](double from, double to) {
    return words({Way("a", "c").carries(0.1).delayed().wakes_after(from), Way("c", "a").carries(0.1).wakes_after(to)});
  };
  EXPECT_THAT(found(75e-6, 60e-6), ::testing::SizeIs(1));
  EXPECT_THAT(found(350e-6, 60e-6), IsEmpty());
  EXPECT_THAT(found(75e-6, 350e-6), IsEmpty()) << "at the other end";
  EXPECT_THAT(words({Way("a", "c").carries(0.1).pressed().wakes_after(350e-6)}), ::testing::SizeIs(1))
      << "bytes waited in the kernel";
}

TEST(SlowLinks, SayWhichLinksMayBeMeantAndWhatTheyCarry) {
  const std::vector<WayView> named = {Way("a", "c").carries(0.1234).pressed(0.7), Way("a", "b").carries(0.6),
                                      Way("d", "c").carries(0.6), Way("b", "e").carries(0.05).pressed()};
  const std::vector<SlowLink> one = find_slow_links(named);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_THAT(one[0].links, ElementsAre("leaf0->spine0"));
  EXPECT_EQ(one[0].bytes_per_second, 18'000'000u);
  const std::vector<SlowLink> either = find_slow_links(std::vector<WayView>{Way("a", "b").carries(0.1).pressed()});
  ASSERT_EQ(either.size(), 1u);
  EXPECT_THAT(either[0].links, ElementsAre("a->leaf0", "leaf0->b")) << "there are no others";
  const std::vector<SlowLink> inner = find_slow_links(std::vector<WayView>{Way("a", "c").carries(0.1).pressed()});
  ASSERT_EQ(inner.size(), 1u);
  EXPECT_THAT(inner[0].links, ElementsAre("leaf0->spine0", "spine0->leaf1")) << "nothing goes around the ends";
  EXPECT_EQ(either[0].bytes_per_second, 10'000'000u);
  const std::vector<SlowLink> unknown =
      find_slow_links(std::vector<WayView>{Way("a", "c").by_unknown_spines().carries(0.1).pressed()});
  ASSERT_EQ(unknown.size(), 1u);
  EXPECT_THAT(unknown[0].links, IsEmpty());
}

TEST(SlowLinks, FindsTwoSlowLinksAtOnce) {
  EXPECT_THAT(words({Way("a", "b").carries(0.05).pressed(), Way("a", "d").carries(0.05).pressed(),
                     Way("c", "b").carries(0.3), Way("c", "d").carries(0.1).pressed(),
                     Way("a", "d", "spine1").carries(0.05).pressed(), Way("b", "d").carries(0.3)}),
              ElementsAre(HasSubstr("link a->leaf0 carries 15 %"), HasSubstr("host c -> host d")));
}

TEST(SlowLinks, SaysNothingOfASenderThatHasNothingToSend) {
  EXPECT_THAT(words({Way("a", "c").carries(0.02)}), IsEmpty());
  EXPECT_THAT(words({Way("a", "c").carries(0.02).pressed(0.4)}), IsEmpty()) << "pressed for less than half of the time";
}

TEST(SlowLinks, LooksAtTheRateWhileBytesWaited) {
  EXPECT_THAT(words({Way("a", "c").carries(0.4).pressed(0.5)}), IsEmpty()) << "0.8 while it was pressed";
  EXPECT_THAT(words({Way("a", "c").carries(0.2).pressed(0.5)}), ::testing::SizeIs(1)) << "0.4 while it was pressed";
}

TEST(SlowLinks, SaysNothingOfWhatIsGrantedNoMore) {
  EXPECT_THAT(words({Way("a", "c").carries(0.1).pressed().may_use(0.1)}), IsEmpty());
  EXPECT_THAT(words({Way("a", "c").carries(0.1).pressed().may_use(0.15)}), IsEmpty());
  EXPECT_THAT(words({Way("a", "c").carries(0.1).pressed().may_use(0.5)}),
              ElementsAre(HasSubstr("carries 20 % of its rate: 0.0100 GB/s of 0.0500 GB/s")));
}

TEST(SlowLinks, SaysNothingWhereAllTenantsTogetherFillALink) {
  std::vector<WayView> ways;
  for (int tenant = 0; tenant < 9; ++tenant) ways.push_back(Way("a", "c").carries(0.1).pressed());
  EXPECT_THAT(words(ways), IsEmpty());
  // And where some of those who fill it come from elsewhere, and are not slow.
  EXPECT_THAT(words({Way("a", "c").carries(0.1).pressed(), Way("d", "c").carries(0.75).pressed()}), IsEmpty());
}

TEST(SlowLinks, BelievesNoWindowThatIsTooShort) {
  EXPECT_THAT(words({Way("a", "c").carries(0.1).pressed().in(0.1)}), IsEmpty());
}

TEST(SlowLinks, SaysNothingOfWaysOfWhichNoLinkIsKnown) {
  EXPECT_THAT(words({{.from = "a", .to = "b", .is_whole = false, .seconds = 0.4, .pressed_seconds = 0.4}}), IsEmpty());
}

TEST(SlowLinks, SaysThatAWayIsSlowForItsCapacityAlsoIfItsOtherLinksAreFaster) {
  WayView way = Way("a", "b").carries(0.4).pressed();
  way.links[1].capacity = 20 * kCapacity;
  EXPECT_THAT(words({way}), ElementsAre(HasSubstr("carries 40 % of its rate")));
}

// Flows at the rates of max-min fairness over random capacities, with one link that gives a tenth: nothing else is ever
// named, and nothing at all while no link is slow.
TEST(SlowLinks, NamesNothingButTheSlowLinkOfRandomTraffic) {
  const auto seed = static_cast<uint32_t>(::testing::UnitTest::GetInstance()->random_seed());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::vector<std::string> hosts{"a", "b", "c", "d"};
  int named = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<WayView> ways;
    for (const std::string& from : hosts) {
      for (const std::string& to : hosts) {
        if (from == to || random() % 2 == 0) continue;
        ways.push_back(Way(from, to, random() % 2 == 0 ? "spine0" : "spine1"));
      }
    }
    if (ways.empty()) continue;
    const WayView& chosen = ways[random() % ways.size()];
    const std::string slow = round % 2 == 0 ? "" : chosen.links[random() % chosen.links.size()].name;
    const auto capacity = [&](const WayLink& link) { return link.name == slow ? kCapacity / 10 : kCapacity; };
    // Rates rise together until a link of theirs is full.
    std::vector<double> rates(ways.size(), 0);
    const auto load = [&](const WayLink& link) {
      double sum = 0;
      for (size_t i = 0; i < ways.size(); ++i) {
        if (std::find(ways[i].links.begin(), ways[i].links.end(), link) != ways[i].links.end()) sum += rates[i];
      }
      return sum;
    };
    for (int step = 0; step < 1000; ++step) {
      for (size_t i = 0; i < ways.size(); ++i) {
        const auto is_free = [&](const WayLink& link) { return load(link) + kCapacity / 1000 <= capacity(link); };
        if (std::all_of(ways[i].links.begin(), ways[i].links.end(), is_free)) rates[i] += kCapacity / 1000;
      }
    }
    for (size_t i = 0; i < ways.size(); ++i) {
      ways[i].bytes_by_tenant["t"] = static_cast<uint64_t>(rates[i] * ways[i].seconds);
      ways[i].pressed_seconds = ways[i].seconds;
    }
    const std::vector<std::string> found = words(ways);
    if (slow.empty()) {
      EXPECT_THAT(found, IsEmpty());
    }
    for (const std::string& each : found) EXPECT_THAT(each, HasSubstr(slow));
    named += found.empty() ? 0 : 1;
  }
  EXPECT_GT(named, 100) << "of 200";
}

}  // namespace
}  // namespace banyan::service
