#include "banyan/service/share/route_adviser.h"

#include <cstdio>

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using Time = RouteAdviser::Time;

MATCHER_P2(OfLink, link, sixteenths, "") {
  return arg.link == static_cast<uint32_t>(link) && arg.sixteenths == static_cast<uint32_t>(sixteenths);
}

// Two spines, links 0 and 1, of 100 bytes a second; link 2 is thicker.
struct AdviserOnTwoSpines : ::testing::Test {
  RouteAdviser adviser{{.capacities = {100, 100, 200}}};

  struct Terms {
    std::string tenant = {};  // that of its own name
    double weight = 1;
    ShareClass share_class = ShareClass::normal;
  };
  void record(const std::string& name, std::vector<LinkUse> footprint, Time now = Time(0),
              const Terms& terms = {"", 1, ShareClass::normal}) {
    adviser.record({.communicator = name,
                    .sharer = terms.tenant.empty() ? name : terms.tenant,
                    .weight = terms.weight,
                    .share_class = terms.share_class,
                    .footprint = std::move(footprint)},
                   now);
  }
};

TEST_F(AdviserOnTwoSpines, SaysNothingToWhoIsAlone) {
  record("a", {{0, 50}, {1, 50}});
  EXPECT_FALSE(adviser.advise(Time(0)));
}

TEST_F(AdviserOnTwoSpines, SaysNothingToThoseWhoDoNotMeet) {
  record("a", {{0, 50}});
  record("b", {{1, 50}});
  EXPECT_FALSE(adviser.advise(Time(0)));
}

TEST_F(AdviserOnTwoSpines, OfTwoThatMeetOneIsAdvisedAndTheOtherMayStay) {
  record("a", {{0, 50}});
  record("b", {{0, 50}});
  const auto advice = adviser.advise(Time(0));
  ASSERT_TRUE(advice);
  EXPECT_EQ(advice->communicator, "a");
  EXPECT_THAT(advice->view, ElementsAre(OfLink(0, 8)));
  record("a", {{1, 50}});  // it has taken the advice
  EXPECT_FALSE(adviser.advise(std::chrono::milliseconds(1)));
}

TEST_F(AdviserOnTwoSpines, TheNextIsAdvisedWhereTheFirstStays) {
  record("a", {{0, 50}});
  record("b", {{0, 50}});
  EXPECT_EQ(adviser.advise(Time(0))->communicator, "a");
  EXPECT_EQ(adviser.advise(std::chrono::milliseconds(1))->communicator, "b");
  for (Time now = std::chrono::milliseconds(2); now < std::chrono::seconds(9); now += std::chrono::milliseconds(100)) {
    EXPECT_FALSE(adviser.advise(now)) << "the same again";
  }
}

TEST_F(AdviserOnTwoSpines, AHigherClassHasReservedWhatItUses) {
  record("a", {{0, 50}}, Time(0), {.tenant = "", .weight = 1, .share_class = ShareClass::high});
  record("b", {{0, 50}, {1, 50}}, Time(0), {.tenant = "", .weight = 100, .share_class = ShareClass::normal});
  EXPECT_THAT(adviser.advise(Time(0))->view, ElementsAre(OfLink(0, 15), OfLink(1, 15))) << "less the floor";
  EXPECT_THAT(adviser.advise(Time(0))->view, ElementsAre(OfLink(0, 1)));
}

TEST_F(AdviserOnTwoSpines, WithinAClassPartsGoByWeight) {
  record("a", {{0, 50}}, Time(0), {.tenant = "", .weight = 3, .share_class = ShareClass::low});
  record("b", {{0, 50}}, Time(0), {.tenant = "", .weight = 1, .share_class = ShareClass::low});
  EXPECT_THAT(adviser.advise(Time(0))->view, ElementsAre(OfLink(0, 12)));
  EXPECT_THAT(adviser.advise(Time(0))->view, ElementsAre(OfLink(0, 4)));
}

TEST_F(AdviserOnTwoSpines, ATenantsWeightIsDividedAmongItsCommunicators) {
  record("a", {{0, 50}});
  record("b1", {{0, 50}}, Time(0), {.tenant = "b"});
  record("b2", {{0, 50}}, Time(0), {.tenant = "b"});
  EXPECT_THAT(adviser.advise(Time(0))->view, ElementsAre(OfLink(0, 8)));
  EXPECT_THAT(adviser.advise(Time(0))->view, ElementsAre(OfLink(0, 4)));
}

TEST_F(AdviserOnTwoSpines, OthersCountAsFarAsTheyUseALink) {
  record("a", {{0, 50}});
  record("b", {{0, 25}, {2, 200}});  // of 1 s on link 2, link 0 is busy for a quarter
  EXPECT_THAT(adviser.advise(Time(0))->view, ElementsAre(OfLink(0, 13), OfLink(2, 8))) << "1 / 1.25 of it";
}

TEST_F(AdviserOnTwoSpines, RemembersWhoComputesAndTellsWhenItIsForgotten) {
  record("a", {{0, 50}});
  record("b", {{0, 50}});
  EXPECT_THAT(adviser.advise(Time(0))->view, ElementsAre(OfLink(0, 8)));
  EXPECT_TRUE(adviser.advise(Time(0)));
  record("a", {{0, 50}}, std::chrono::seconds(10));
  EXPECT_FALSE(adviser.advise(std::chrono::seconds(10)));
  record("a", {{0, 50}}, std::chrono::seconds(11));
  EXPECT_THAT(adviser.advise(std::chrono::seconds(11))->view, ElementsAre(OfLink(0, 16)));
  EXPECT_FALSE(adviser.advise(std::chrono::seconds(13)));
}

TEST_F(AdviserOnTwoSpines, LinksThatDoNotExistAndReportsWithoutFootprintAreIgnored) {
  record("a", {});
  record("b", {{7, 50}});
  record("c", {{0, 50}});
  EXPECT_FALSE(adviser.advise(Time(0)));
}

// Communicators that send all by one of a few routes, and change it where another is quicker by a tenth.
struct RouteTakers {
  struct Member {
    double bytes = 1, weight = 1;
    std::vector<std::vector<uint32_t>> routes;
    uint32_t taken = 0;
  };
  std::vector<double> capacities;
  std::vector<Member> members;

  explicit RouteTakers(uint32_t seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
    for (uint32_t link = 0; link < 6; ++link) capacities.push_back(100 * (1 + below(2)));
    const uint32_t count = 2 + below(7);
    for (uint32_t i = 0; i < count; ++i) {
      Member& member = members.emplace_back();
      member.bytes = 10 * (1 + below(9));
      member.weight = 1 + below(3);
      for (uint32_t route = 0; route < 1 + below(3); ++route) {
        std::vector<uint32_t>& way = member.routes.emplace_back(std::vector<uint32_t>{below(6)});
        const uint32_t second = below(6);
        if (second != way.front()) way.push_back(second);
      }
    }
  }
  double seconds_of(const Member& member, uint32_t route, const std::vector<LinkPart>& view) const {
    double longest = 0;
    for (const uint32_t link : member.routes[route]) {
      double part = 1;
      for (const LinkPart& each : view) part = each.link == link ? each.sixteenths / 16.0 : part;
      longest = std::max(longest, member.bytes / capacities[link] / part);
    }
    return longest;
  }
  // Whether it changes its route.
  bool take(Member& member, const std::vector<LinkPart>& view) const {
    uint32_t best = member.taken;
    for (uint32_t route = 0; route < member.routes.size(); ++route) {
      if (seconds_of(member, route, view) < seconds_of(member, best, view)) best = route;
    }
    if (seconds_of(member, best, view) >= 0.9 * seconds_of(member, member.taken, view)) return false;
    member.taken = best;
    return true;
  }
};

TEST(RouteAdviser, TheySettle) {
  uint32_t moves = 0, members = 0, most_moves_of_one = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    RouteTakers crowd(seed);
    RouteAdviser adviser({.capacities = crowd.capacities});
    uint32_t moves_here = 0, quiet = 0;
    Time now(0);
    for (; quiet < 40 && now < std::chrono::seconds(200); now += std::chrono::milliseconds(500)) {
      for (size_t i = 0; i < crowd.members.size(); ++i) {
        const RouteTakers::Member& member = crowd.members[i];
        CallReport report{.communicator = std::to_string(i), .sharer = std::to_string(i), .weight = member.weight};
        for (const uint32_t link : member.routes[member.taken]) report.footprint.push_back({link, member.bytes});
        adviser.record(report, now);
      }
      const auto advice = adviser.advise(now);
      ++quiet;
      if (!advice) continue;
      if (crowd.take(crowd.members[std::stoul(advice->communicator)], advice->view)) {
        ++moves_here;
        quiet = 0;
      }
    }
    EXPECT_GE(quiet, 40u) << "seed " << seed << ": somebody still moves after 200 s";
    moves += moves_here;
    members += static_cast<uint32_t>(crowd.members.size());
    most_moves_of_one = std::max(most_moves_of_one, moves_here);
  }
  std::printf("%u communicators moved %u times in all, at most %u times in one network\n", members, moves,
              most_moves_of_one);
  EXPECT_LE(moves, members) << "each moves once, on average, or less";
}

}  // namespace
}  // namespace banyan::service
