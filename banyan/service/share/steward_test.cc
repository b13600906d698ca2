#include "banyan/service/share/steward.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using namespace std::chrono_literals;
using ::testing::Pair;
using Time = Steward::Time;

constexpr double kUnlimited = Steward::kNoLimit;
constexpr ProgressWeight kNoProgress{.slope = 0, .intercept = 1};

// Links of 100 bytes per second, and a clock.
struct Office {
  explicit Office(size_t links, ProgressWeight progress = kNoProgress)
      : steward({.capacities = std::vector<double>(links, 100), .progress = progress}) {}

  void report(CallReport report) {
    report.number = ++number;
    steward.report(report, now);
  }
  void end(const std::string& communicator, const std::string& tenant) {
    report({.communicator = communicator, .sharer = tenant, .done = 1});
  }
  // The rates that are told now, by communicator.
  std::map<std::string, double> told() {
    std::map<std::string, double> rates;
    for (const Steward::Speed& speed : steward.decide(now)) rates[speed.communicator] = speed.rate;
    return rates;
  }

  Steward steward;
  Time now = 10s;
  uint64_t number = 0;
};

// A call of one second, were it alone, over link 0.
CallReport call_of(const std::string& communicator, const std::string& tenant) {
  return {.communicator = communicator, .sharer = tenant, .is_under_way = true, .footprint = {{0, 100}}};
}

TEST(Steward, WhatSharesNoLinkIsNotLimited) {
  Office office(3);
  office.report({.communicator = "a", .sharer = "x", .is_under_way = true, .footprint = {{0, 7}, {1, 9}}});
  office.report({.communicator = "b", .sharer = "x", .is_under_way = true, .footprint = {{2, 7}}});
  office.report({.communicator = "on one host", .sharer = "y", .is_under_way = true});
  EXPECT_THAT(office.told(),
              ElementsAre(Pair("a", kUnlimited), Pair("b", kUnlimited), Pair("on one host", kUnlimited)));
  EXPECT_THAT(office.told(), IsEmpty());
}

TEST(Steward, SharesALinkAndGivesItBack) {
  Office office(1);
  CallReport large = call_of("a", "x");
  large.footprint = {{0, 25}};
  office.report(large);
  EXPECT_THAT(office.told(), ElementsAre(Pair("a", kUnlimited)));
  office.report(call_of("b", "y"));
  const std::vector<Steward::Speed> speeds = office.steward.decide(office.now);
  ASSERT_EQ(speeds.size(), 2);
  EXPECT_DOUBLE_EQ(speeds[0].calls_per_second, 2);
  EXPECT_DOUBLE_EQ(speeds[0].rate, 50);
  EXPECT_DOUBLE_EQ(speeds[1].calls_per_second, 0.5);
  EXPECT_DOUBLE_EQ(speeds[1].rate, 50);
  office.end("b", "y");
  EXPECT_THAT(office.told(), IsEmpty());  // it lingers
  office.now += 2ms;
  EXPECT_THAT(office.told(), ElementsAre(Pair("a", kUnlimited)));
}

TEST(Steward, WhatIsAloneOnItsLinksTakesNothingFromItsTenantsOtherCalls) {
  Office office(2);
  office.report(call_of("a", "x"));
  office.report(call_of("b", "y"));
  office.report({.communicator = "c", .sharer = "x", .is_under_way = true, .footprint = {{1, 100}}});
  EXPECT_THAT(office.told(), ElementsAre(Pair("a", 50), Pair("b", 50), Pair("c", kUnlimited)));
}

TEST(Steward, WhoHasNothingIsToldSoOnce) {
  Steward steward({.capacities = {100}, .least = 0});
  CallReport low = call_of("low", "x");
  low.share_class = ShareClass::low;
  low.number = 1;
  steward.report(low, 0ns);
  for (uint64_t number = 1; number < 100; ++number) {
    CallReport high = call_of("high", "y");
    high.share_class = ShareClass::high;
    high.number = number;
    high.footprint = {{0, 100.0 / 3 * static_cast<double>(number)}};
    steward.report(high, 0ns);
    for (const Steward::Speed& speed : steward.decide(0ns)) {
      EXPECT_EQ(speed.rate == 0, speed.communicator == "low") << speed.rate;
      EXPECT_TRUE(number == 1 || speed.communicator == "high");
    }
  }
}

TEST(Steward, WhoLingersCountsAsIfItsNextCallHadBegun) {
  Office office(1, {});
  for (const std::string communicator : {"a", "b"}) {
    CallReport report = call_of(communicator, communicator);
    report.done = 0.5;
    office.report(report);
  }
  office.told();
  office.end("a", "a");
  EXPECT_NEAR(office.told()["b"], 100 * 1.125 / 1.375, 0.1);
  office.now += 1ms;
  office.report(call_of("a", "a"));
  EXPECT_THAT(office.told(), IsEmpty());
}

TEST(Steward, ACallThatIsTooShortToBeFollowedGetsTheMeanOfTheLaw) {
  Office office(1, {});
  CallReport brief = call_of("brief", "x");
  brief.footprint = {{0, 0.999}};
  office.report(brief);
  office.report(call_of("long", "y"));
  auto rates = office.told();
  const double mean = 1.75 / std::log(8);
  EXPECT_NEAR(rates["brief"] / rates["long"], mean / 0.25, 0.01);
  brief.done = 0.9;
  office.report(brief);
  EXPECT_THAT(office.told(), IsEmpty());
  brief.footprint = {{0, 1}};
  office.report(brief);
  rates = office.told();
  EXPECT_NEAR(rates["brief"] / rates["long"], (0.25 + 0.9 * 1.75) / 0.25, 0.02);
}

TEST(Steward, TellsChangesOfMoreThanOnePercent) {
  Office office(1, {.slope = 0.1, .intercept = 1});
  office.report(call_of("a", "x"));
  office.report(call_of("b", "y"));
  office.told();
  CallReport report = call_of("a", "x");
  report.done = 0.18;
  office.report(report);
  EXPECT_THAT(office.told(), IsEmpty());
  report.done = 0.36;  // 1.8 % more for one, less for the other
  office.report(report);
  EXPECT_THAT(office.told(), UnorderedElementsAre(Pair("a", ::testing::Gt(50.5)), Pair("b", ::testing::Lt(49.5))));
}

TEST(Steward, TellsACallOfAnotherSizeInBothUnits) {
  Office office(1);
  office.report(call_of("a", "x"));
  office.report(call_of("b", "y"));
  office.told();
  CallReport report = call_of("a", "x");
  report.footprint = {{0, 50}};
  office.report(report);
  std::vector<Steward::Speed> speeds = office.steward.decide(office.now);
  ASSERT_EQ(speeds.size(), 1);  // the same rate
  EXPECT_DOUBLE_EQ(speeds[0].calls_per_second, 1);
  EXPECT_DOUBLE_EQ(speeds[0].rate, 50);
  report.footprint = {{0, 25}};
  report.cap = 25;
  office.report(report);
  speeds = office.steward.decide(office.now);
  ASSERT_EQ(speeds.size(), 2);  // as many calls per second
  EXPECT_DOUBLE_EQ(speeds[0].calls_per_second, 1);
  EXPECT_DOUBLE_EQ(speeds[0].rate, 25);
  EXPECT_DOUBLE_EQ(speeds[1].rate, 75);
}

TEST(Steward, IsToldAnewWhenItComesBackToAnotherSpeed) {
  Office office(1);
  office.report(call_of("a", "x"));
  office.report(call_of("b", "y"));
  office.told();
  office.end("a", "x");
  office.now += 2ms;
  EXPECT_THAT(office.told(), ElementsAre(Pair("b", kUnlimited)));
  office.report(call_of("a", "x"));
  EXPECT_THAT(office.told(), ElementsAre(Pair("b", 50)));  // a has that already
  office.end("a", "x");
  office.end("b", "y");
  office.now += 2ms;
  EXPECT_THAT(office.told(), IsEmpty());
  office.report(call_of("a", "x"));
  EXPECT_THAT(office.told(), ElementsAre(Pair("a", kUnlimited)));
}

TEST(Steward, ASmallGapBetweenCallsChangesNothing) {
  Office office(1);
  office.report(call_of("a", "x"));
  office.report(call_of("b", "y"));
  office.told();
  const uint64_t computations = office.steward.computations();
  for (int i = 0; i < 100; ++i) {
    office.end("a", "x");
    office.now += 1999us;
    EXPECT_THAT(office.told(), IsEmpty());
    office.report(call_of("a", "x"));
    office.report(call_of("b", "y"));
    EXPECT_THAT(office.told(), IsEmpty());
  }
  EXPECT_EQ(office.steward.computations(), computations);
}

TEST(Steward, ComputesOnlyWhenASpeedMayHaveChanged) {
  Office office(2, {});
  const auto computes = [&] {
    const uint64_t before = office.steward.computations();
    office.told();
    return office.steward.computations() > before;
  };
  EXPECT_FALSE(computes());
  CallReport alone = call_of("alone", "x");
  alone.footprint = {{1, 100}};
  office.report(alone);
  office.report(call_of("a", "x"));
  EXPECT_TRUE(computes());
  EXPECT_FALSE(computes());
  alone.done = 0.5;  // which gives it no more
  office.report(alone);
  EXPECT_FALSE(computes());
  office.report(call_of("b", "y"));
  EXPECT_TRUE(computes());
  CallReport report = call_of("b", "y");
  office.report(report);  // it is still there
  EXPECT_FALSE(computes());
  report.done = 0.1;
  office.report(report);
  EXPECT_TRUE(computes());
  report.weight = 2;
  office.report(report);
  EXPECT_TRUE(computes());
  office.end("alone", "x");
  office.report({.communicator = "idle", .sharer = "x"});
  office.now += 500ms;
  EXPECT_FALSE(computes());  // nobody gains by its end
  office.report(call_of("a", "x"));
  EXPECT_FALSE(computes());
  office.now += 500ms;  // b is forgotten
  EXPECT_TRUE(computes());
}

TEST(Steward, ForgetsWhoIsNotReported) {
  Office office(1);
  office.report(call_of("a", "x"));
  office.report(call_of("b", "y"));
  office.told();
  office.now += 999ms;
  office.report(call_of("b", "y"));
  EXPECT_THAT(office.told(), IsEmpty());
  office.now += 1ms;
  EXPECT_THAT(office.told(), ElementsAre(Pair("b", kUnlimited)));
  EXPECT_EQ(office.steward.rows().size(), 1);
  office.now += 1s;
  CallReport anew = call_of("b", "y");  // with smaller numbers
  office.number = 0;
  office.report(anew);
  EXPECT_THAT(office.told(), ElementsAre(Pair("b", kUnlimited)));
}

TEST(Steward, IgnoresReportsThatComeLate) {
  Office office(1);
  CallReport report = call_of("a", "x");
  report.number = 7;
  office.steward.report(report, office.now);
  office.report(call_of("b", "y"));  // with a number of its own
  office.told();
  for (const uint64_t number : {uint64_t{0}, uint64_t{6}, uint64_t{7}}) {
    report.number = number;
    report.weight = 9;
    office.steward.report(report, office.now + 900ms);
  }
  EXPECT_THAT(office.told(), IsEmpty());
  EXPECT_EQ(office.steward.next(), office.now + 1s);  // they are no sign of life
  report.number = uint64_t{1} << 60;                  // of a new reporter
  office.steward.report(report, office.now);
  EXPECT_NEAR(office.told()["a"], 90, 1e-9);
}

TEST(Steward, SaysWhenToDecide) {
  Office office(1);
  EXPECT_EQ(office.steward.next(), std::nullopt);
  office.report(call_of("a", "x"));
  EXPECT_EQ(office.steward.next(), office.now + 1s);
  office.now += 10ms;
  office.report(call_of("b", "y"));
  EXPECT_EQ(office.steward.next(), office.now + 990ms);
  office.end("b", "y");
  EXPECT_EQ(office.steward.next(), office.now + 2ms);
  office.now += 1ms;
  office.end("b", "y");  // it ended before
  EXPECT_EQ(office.steward.next(), office.now + 1ms);
  office.now += 1ms;
  office.told();
  EXPECT_EQ(office.steward.next(), office.now + 988ms);
  office.now += 988ms;
  office.told();
  EXPECT_EQ(office.steward.next(), office.now + 11ms);
  office.now += 11ms;
  office.told();
  EXPECT_EQ(office.steward.next(), std::nullopt);
}

TEST(Steward, ShowsWhatItKnows) {
  Office office(1);
  office.report(call_of("a", "x"));
  office.report(call_of("b", "y"));
  office.report({.communicator = "idle", .sharer = "z"});
  office.told();
  office.end("a", "x");
  office.now += 2ms;
  office.told();
  const std::vector<Steward::Row> rows = office.steward.rows();
  ASSERT_EQ(rows.size(), 3);
  EXPECT_EQ(rows[0].report.communicator, "a");
  EXPECT_FALSE(rows[0].is_active);
  EXPECT_DOUBLE_EQ(rows[0].speed.rate, 50);  // what it was told
  EXPECT_THAT(rows[0].report.footprint, ElementsAre(LinkUse{0, 100}));
  EXPECT_TRUE(rows[1].is_active);
  EXPECT_EQ(rows[1].speed.rate, kUnlimited);
  EXPECT_EQ(rows[2].speed.communicator, "idle");
  EXPECT_FALSE(rows[2].is_active);
}

TEST(Steward, RefusesReportsThatMakeNoSenseAndKeepsWhatItHad) {
  Office office(1);
  office.report(call_of("a", "x"));
  office.report(call_of("b", "y"));
  office.told();
  const auto refusal = [&](auto change) {
    CallReport report = call_of("a", "x");
    change(report);
    return testing::error_of([&] { office.report(report); }, ErrorCode::invalid_input);
  };
  EXPECT_EQ(refusal([](auto& report) { report.weight = 0; }),
            "communicator 'a': the weight of 'x' is 0, not from 1e-09 to 1e+18");
  EXPECT_THAT(refusal([](auto& report) { report.weight = NAN; }), HasSubstr("is nan"));
  EXPECT_EQ(refusal([](auto& report) {
              report.footprint = {{1, 5}};
            }),
            "communicator 'a': uses link 1, but there are 1, counted from 0");
  EXPECT_THAT(refusal([](auto& report) { report.footprint = {{0, 0}}; }), HasSubstr("link 0 whose number is 0"));
  EXPECT_THAT(refusal([](auto& report) { report.footprint = {{0, 1}, {0, 2}}; }), HasSubstr("names link 0 twice"));
  EXPECT_THAT(refusal([](auto& report) { report.cap = -1; }), HasSubstr("has a cap that is -1"));
  EXPECT_THAT(refusal([](auto& report) { report.share_class = static_cast<ShareClass>(3); }), HasSubstr("no class"));
  EXPECT_THAT(refusal([](auto& report) { report.done = 1.5; }), HasSubstr("is 1.5"));
  EXPECT_THAT(refusal([](auto& report) { report.done = NAN; }), HasSubstr("not from 0 to 1"));
  EXPECT_THAT(office.told(), IsEmpty());
  const std::vector<Steward::Row> rows = office.steward.rows();
  EXPECT_EQ(rows[0].report.number, 1);
  EXPECT_THAT(rows[0].report.footprint, ElementsAre(LinkUse{0, 100}));
}

TEST(Steward, RefusesOptionsThatMakeNoSense) {
  const auto refusal = [](auto change) {
    Steward::Options options{.capacities = {100}};
    change(options);
    return testing::error_of([&] { Steward{options}; }, ErrorCode::invalid_input);
  };
  EXPECT_EQ(refusal([](auto&) {}), "no error");
  EXPECT_THAT(refusal([](auto& options) { options.capacities = {0}; }), HasSubstr("the capacity of link 0 is 0"));
  EXPECT_THAT(refusal([](auto& options) { options.least = 1; }), HasSubstr("not from 0 to a third"));
  EXPECT_THAT(refusal([](auto& options) { options.progress.intercept = 0; }), HasSubstr("at its beginning, is 0"));
  EXPECT_THAT(refusal([](auto& options) { options.progress.slope = -0.25; }), HasSubstr("at its end, is 0"));
  EXPECT_THAT(refusal([](auto& options) { options.linger = -1ns; }), HasSubstr("-1 ns, not from 0 to a day"));
  EXPECT_THAT(refusal([](auto& options) { options.expiry = Time::max(); }), HasSubstr("is forgotten"));
  EXPECT_THAT(refusal([](auto& options) { options.shortest = 25h; }), HasSubstr("shortest call"));
}

TEST(Steward, StandsTheLargestAndTheLeastNumbersThatItTakes) {
  Steward steward({.capacities = {kMostAmount, kLeastAmount}, .progress = {.slope = kMostAmount, .intercept = 1e-9}});
  CallReport report = call_of("a", "x");
  report.footprint = {{0, kMostAmount}, {1, kLeastAmount}};
  report.weight = kMostAmount;
  report.done = 1;
  steward.report(report, 0ns);
  report.communicator = "b";
  report.weight = kLeastAmount;
  report.footprint = {{0, kLeastAmount}, {1, kMostAmount}};
  report.done = 0;
  report.cap = kLeastAmount;
  steward.report(report, 0ns);
  const std::vector<Steward::Speed> speeds = steward.decide(0ns);
  ASSERT_EQ(speeds.size(), 2);
  for (const Steward::Speed& speed : speeds) EXPECT_TRUE(speed.rate >= 0 && std::isfinite(speed.rate)) << speed.rate;
}

}  // namespace
}  // namespace banyan::service
