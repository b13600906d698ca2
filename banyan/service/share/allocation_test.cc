#include "banyan/service/share/allocation.h"

#include <limits>

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;

// ---- By hand ----

TEST(Allocation, TwoTenantsShareALinkByWeight) {
  const SharedNetwork network{.capacities = {100}, .weights = {1, 3}};
  const std::vector<SharedCall> calls = {{.tenant = 0, .footprint = {{0, 50}}}, {.tenant = 1, .footprint = {{0, 5}}}};
  const auto speeds = allocate(network, calls);
  EXPECT_DOUBLE_EQ(speeds[0], 25.0 / 50);
  EXPECT_DOUBLE_EQ(speeds[1], 75.0 / 5);
}

TEST(Allocation, ATenantWithFiveCommunicatorsGetsNoMoreThanOneWithOne) {
  const SharedNetwork network{.capacities = {100}, .weights = {1, 1}};
  std::vector<SharedCall> calls(6, {.tenant = 0, .footprint = {{0, 10}}});
  calls[5].tenant = 1;
  const auto speeds = allocate(network, calls);
  for (size_t i = 0; i < 5; ++i) EXPECT_DOUBLE_EQ(speeds[i], 1);
  EXPECT_DOUBLE_EQ(speeds[5], 5);
}

TEST(Allocation, AFactorMultipliesTheCallsPartOfTheWeight) {
  const SharedNetwork network{.capacities = {100}, .weights = {4, 2}};
  const std::vector<SharedCall> calls = {{.tenant = 0, .footprint = {{0, 10}}, .factor = 2},
                                         {.tenant = 0, .footprint = {{0, 10}}, .factor = 0.5},
                                         {.tenant = 1, .footprint = {{0, 10}}, .factor = 1.5}};
  const auto speeds = allocate(network, calls);  // by 4 / 2 * 2, 4 / 2 * 0.5 and 2 * 1.5
  EXPECT_DOUBLE_EQ(speeds[0], 5);
  EXPECT_DOUBLE_EQ(speeds[1], 1.25);
  EXPECT_DOUBLE_EQ(speeds[2], 3.75);
}

TEST(Allocation, OnOneLinkTenantsShareByWeightTimesTheMeanOfTheirFactors) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> amount(0.1, 10);
    const SharedNetwork network{.capacities = {100}, .weights = {amount(random), amount(random), amount(random)}};
    std::vector<SharedCall> calls;
    std::array<double, 3> parts{}, shares{};
    for (uint32_t tenant = 0; tenant < 3; ++tenant) {
      const size_t count = 1 + random() % 5;
      double largest = 0;
      for (size_t i = 0; i < count; ++i) {
        calls.push_back({.tenant = tenant, .footprint = {{0, amount(random)}}, .factor = amount(random)});
        parts[tenant] += network.weights[tenant] * calls.back().factor / static_cast<double>(count);
        largest = std::max(largest, calls.back().factor);
      }
      ASSERT_LE(parts[tenant], network.weights[tenant] * largest * (1 + kRounding));
    }
    const auto speeds = allocate(network, calls);
    for (size_t i = 0; i < calls.size(); ++i) shares[calls[i].tenant] += speeds[i] * calls[i].footprint[0].bytes;
    const double sum = parts[0] + parts[1] + parts[2];
    for (size_t tenant = 0; tenant < 3; ++tenant) ASSERT_NEAR(shares[tenant], 100 * parts[tenant] / sum, 1e-6);
  }
}

TEST(Allocation, BatchesTakeNothingFromTheUrgentCallsOfTheirOwner) {
  const SharedNetwork network{.capacities = {100}, .weights = {1, 1}, .least = 0};
  std::vector<SharedCall> calls(6, {.tenant = 0, .share_class = ShareClass::low, .footprint = {{0, 10}}});
  calls[0].share_class = ShareClass::high;
  calls[5] = {.tenant = 1, .share_class = ShareClass::high, .footprint = {{0, 10}}};
  const auto speeds = allocate(network, calls);
  EXPECT_DOUBLE_EQ(speeds[0], 5);
  EXPECT_DOUBLE_EQ(speeds[5], 5);
  EXPECT_DOUBLE_EQ(speeds[1], 0);
}

TEST(Allocation, WhatUsesNoLinkIsUnlimitedAndTakesNoWeight) {
  const SharedNetwork network{.capacities = {100}, .weights = {1, 1}};
  const std::vector<SharedCall> calls = {
      {.tenant = 0, .footprint = {{0, 10}}}, {.tenant = 0, .cap = 1}, {.tenant = 1, .footprint = {{0, 10}}}};
  EXPECT_THAT(allocate(network, calls), ::testing::ElementsAre(5, kNone, 5));
  EXPECT_TRUE(allocate(network, {}).empty());
}

TEST(Allocation, ACallIsHeldByTheLinkThatItNeedsMost) {
  // Each needs another link most. By equal dominant shares both links are full; halves of both would not fill them.
  const SharedNetwork network{.capacities = {110, 110}, .weights = {1, 1}};
  const std::vector<SharedCall> calls = {{.tenant = 0, .footprint = {{0, 100}, {1, 10}}},
                                         {.tenant = 1, .footprint = {{0, 10}, {1, 100}}}};
  const auto speeds = allocate(network, calls);
  EXPECT_DOUBLE_EQ(speeds[0], 1);
  EXPECT_DOUBLE_EQ(speeds[1], 1);
}

TEST(Allocation, WhoIsHeldElsewhereLeavesTheRestToOthers) {
  const SharedNetwork network{.capacities = {12, 30, 9}, .weights = {1, 1, 1, 1}};
  // Dominant shares are parts of links: the first and the last call get half of link 2 each, by different speeds.
  const std::vector<SharedCall> calls = {{.tenant = 0, .footprint = {{0, 1}, {1, 1}, {2, 1}}},
                                         {.tenant = 1, .footprint = {{0, 1}}},
                                         {.tenant = 2, .footprint = {{1, 1}}},
                                         {.tenant = 3, .footprint = {{2, 2}}}};
  const auto speeds = allocate(network, calls);
  EXPECT_DOUBLE_EQ(speeds[0], 4.5);
  EXPECT_DOUBLE_EQ(speeds[1], 7.5);
  EXPECT_DOUBLE_EQ(speeds[2], 25.5);
  EXPECT_DOUBLE_EQ(speeds[3], 2.25);
}

TEST(Allocation, ACapIsOfTheLinkWithTheMostBytes) {
  const SharedNetwork network{.capacities = {1000, 10}, .weights = {1, 1}};
  const std::vector<SharedCall> calls = {{.tenant = 0, .footprint = {{0, 10}, {1, 1}}, .cap = 20},
                                         {.tenant = 1, .footprint = {{1, 1}}}};
  const auto speeds = allocate(network, calls);
  EXPECT_DOUBLE_EQ(speeds[0], 2);
  EXPECT_DOUBLE_EQ(speeds[1], 8);
}

TEST(Allocation, AHigherClassGoesFirstAndLeavesTheLeast) {
  const SharedNetwork network{.capacities = {100}, .weights = {1, 1000, 1}, .least = 0.05};
  const std::vector<SharedCall> calls = {
      {.tenant = 0, .share_class = ShareClass::high, .footprint = {{0, 1}}},
      {.tenant = 1, .share_class = ShareClass::normal, .footprint = {{0, 1}}},
      {.tenant = 2, .share_class = ShareClass::low, .footprint = {{0, 1}}},
  };
  const auto speeds = allocate(network, calls);
  EXPECT_NEAR(speeds[0], 90, kRounding);
  EXPECT_NEAR(speeds[1], 5, kRounding);
  EXPECT_NEAR(speeds[2], 5, kRounding);
}

TEST(Allocation, AHigherClassGetsWhatLowerOnesCannotUse) {
  const SharedNetwork network{.capacities = {100}, .weights = {1, 1, 1}, .least = 0.2};
  std::vector<SharedCall> calls = {
      {.tenant = 0, .share_class = ShareClass::high, .footprint = {{0, 1}}},
      {.tenant = 1, .share_class = ShareClass::low, .footprint = {{0, 1}}, .cap = 3},
  };
  EXPECT_DOUBLE_EQ(allocate(network, calls)[0], 97);
  calls[0].cap = 30;
  calls[1].cap = kNone;
  EXPECT_DOUBLE_EQ(allocate(network, calls)[1], 70);
}

TEST(Allocation, TheHighestClassInUseHasAll) {
  const SharedNetwork network{.capacities = {100}, .weights = {1, 1}, .least = 0.2};
  const std::vector<SharedCall> calls = {{.tenant = 0, .share_class = ShareClass::low, .footprint = {{0, 1}}},
                                         {.tenant = 1, .share_class = ShareClass::high}};
  EXPECT_DOUBLE_EQ(allocate(network, calls)[0], 100);
}

TEST(Allocation, AClassDoesNotFeelHowManyLowerCallsThereAre) {
  const SharedNetwork network{.capacities = {100, 100}, .weights = {1, 1}};
  std::vector<SharedCall> calls = {{.tenant = 0, .footprint = {{0, 1}, {1, 2}}}};
  calls.push_back({.tenant = 1, .share_class = ShareClass::low, .footprint = {{1, 1}}});
  const double beside_one = allocate(network, calls)[0];
  for (int i = 0; i < 50; ++i) calls.push_back(calls.back());
  EXPECT_DOUBLE_EQ(beside_one, 95.0 / 2);
  EXPECT_DOUBLE_EQ(allocate(network, calls)[0], beside_one);
}

TEST(Allocation, EachLowerCallKeepsItsFloor) {
  // On a quarter of each link: call 1 (links 0 and 1) is held by link 0, so call 2 has much of link 1. Where link 0 is
  // free and link 1 is not, fairness alone would let call 1 rise at the cost of call 2.
  const SharedNetwork network{.capacities = {100, 100}, .weights = {1, 1, 1, 9}, .least = 0.25};
  const std::vector<SharedCall> calls = {
      {.tenant = 0, .share_class = ShareClass::high, .footprint = {{1, 1}}},
      {.tenant = 1, .share_class = ShareClass::low, .footprint = {{0, 1}, {1, 1}}},
      {.tenant = 2, .share_class = ShareClass::low, .footprint = {{1, 1}}},
      {.tenant = 3, .share_class = ShareClass::low, .footprint = {{0, 1}}},
  };
  const auto speeds = allocate(network, calls);
  EXPECT_NEAR(speeds[0], 75, kRounding);
  EXPECT_NEAR(speeds[1], 2.5, kRounding);
  EXPECT_NEAR(speeds[2], 22.5, kRounding);
  EXPECT_NEAR(speeds[3], 97.5, kRounding);
}

TEST(Allocation, StandsVeryDifferentNumbers) {
  const SharedNetwork network{.capacities = {1e15, 1e-9}, .weights = {1e18, 1e-9}};
  const std::vector<SharedCall> calls = {{.tenant = 0, .footprint = {{0, 1e18}, {1, 1e-9}}, .factor = 1e-9},
                                         {.tenant = 1, .footprint = {{0, 1e-9}}, .factor = 1e-9},
                                         {.tenant = 1, .footprint = {{1, 1e18}}}};
  const auto speeds = allocate(network, calls);
  EXPECT_NEAR(speeds[0], 1e-3, 1e-12);
  for (const double speed : speeds) EXPECT_TRUE(speed >= 0 && std::isfinite(speed)) << speed;
}

TEST(Allocation, RefusesNumbersThatAreNotAsSaid) {
  const SharedNetwork good{.capacities = {1, 1}, .weights = {1}};
  const auto refusal = [&](auto change) {
    SharedNetwork network = good;
    std::vector<SharedCall> calls = {{}, {.tenant = 0, .footprint = {{0, 1}}}};
    change(network, calls[1]);
    return testing::error_of([&] { allocate(network, calls); }, ErrorCode::invalid_input);
  };
  EXPECT_EQ(refusal([](SharedNetwork&, SharedCall&) {}), "no error");
  EXPECT_EQ(refusal([](auto& network, auto&) { network.capacities[1] = 0; }),
            "the capacity of link 1 is 0, not from 1e-09 to 1e+18");
  EXPECT_EQ(refusal([](auto& network, auto&) { network.weights[0] = NAN; }),
            "the weight of tenant 0 is nan, not from 1e-09 to 1e+18");
  EXPECT_THAT(refusal([](auto& network, auto&) { network.least = 0.5; }), HasSubstr("not from 0 to a third"));
  EXPECT_THAT(refusal([](auto& network, auto&) { network.least = NAN; }), HasSubstr("not from 0 to a third"));
  EXPECT_EQ(refusal([](auto&, auto& call) { call.tenant = 1; }),
            "call 1: is of tenant 1, but there are 1, counted from 0");
  EXPECT_EQ(refusal([](auto&, auto& call) { call.share_class = static_cast<ShareClass>(3); }),
            "call 1: is of no class");
  EXPECT_THAT(refusal([](auto&, auto& call) { call.cap = 0; }), HasSubstr("call 1: has a cap that is 0"));
  EXPECT_THAT(refusal([](auto&, auto& call) { call.factor = 0; }), HasSubstr("call 1: has a factor that is 0"));
  EXPECT_EQ(refusal([](auto&, auto& call) { call.footprint[0].link = 2; }),
            "call 1: uses link 2, but there are 2, counted from 0");
  EXPECT_THAT(refusal([](auto&, auto& call) { call.footprint[0].bytes = kNone; }),
              HasSubstr("call 1: moves bytes over link 0 whose number is inf"));
  EXPECT_EQ(refusal([](auto&, auto& call) {
              call.footprint.push_back({0, 2});
            }),
            "call 1: names link 0 twice; add them up");
}

// ---- Against a simple water-filling ----

struct Example {
  SharedNetwork network;
  std::vector<SharedCall> calls;

  double seconds_alone(size_t i) const {
    double seconds = 0;
    for (const LinkUse& use : calls[i].footprint) {
      seconds = std::max(seconds, use.bytes / network.capacities[use.link]);
    }
    return seconds;
  }
  double weight(size_t i) const {
    const auto competes = [&](const SharedCall& call) {
      return call.tenant == calls[i].tenant && call.share_class == calls[i].share_class && !call.footprint.empty();
    };
    const auto competing = static_cast<double>(std::count_if(calls.begin(), calls.end(), competes));
    return network.weights[calls[i].tenant] * calls[i].factor / competing;
  }
  double most_speed(size_t i) const {
    double most = kNone;
    for (const LinkUse& use : calls[i].footprint) most = std::min(most, calls[i].cap / use.bytes);
    return most;
  }
  std::vector<size_t> of_class(ShareClass share_class) const {
    std::vector<size_t> members;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].share_class == share_class && !calls[i].footprint.empty()) members.push_back(i);
    }
    return members;
  }
};

// Lets the members rise from `speeds`, in bytes per second, event by event.
void pour(const Example& example, std::vector<size_t> members, std::vector<double> free, std::vector<double>& speeds) {
  while (!members.empty()) {
    std::vector<double> growth(example.calls.size(), 0), demand(free.size(), 0);
    for (const size_t i : members) {
      growth[i] = example.weight(i) / example.seconds_alone(i);
      for (const LinkUse& use : example.calls[i].footprint) demand[use.link] += growth[i] * use.bytes;
    }
    double step = kNone;
    for (size_t link = 0; link < free.size(); ++link) {
      if (demand[link] > 0) step = std::min(step, std::max(0.0, free[link]) / demand[link]);
    }
    for (const size_t i : members) step = std::min(step, (example.most_speed(i) - speeds[i]) / growth[i]);
    for (const size_t i : members) speeds[i] += step * growth[i];
    for (size_t link = 0; link < free.size(); ++link) free[link] -= step * demand[link];
    std::vector<size_t> rising;
    for (const size_t i : members) {
      const auto is_full = [&](const LinkUse& use) {
        return free[use.link] <= 1e-12 * example.network.capacities[use.link];
      };
      const auto& footprint = example.calls[i].footprint;
      const bool stays =
          speeds[i] >= example.most_speed(i) * (1 - 1e-12) || std::any_of(footprint.begin(), footprint.end(), is_full);
      if (!stays) rising.push_back(i);
    }
    ASSERT_LT(rising.size(), members.size()) << "somebody is held at every event";
    members = rising;
  }
}

constexpr std::array<ShareClass, 3> kClasses = {ShareClass::high, ShareClass::normal, ShareClass::low};

std::vector<double> used_by(const Example& example, const std::vector<double>& speeds) {
  std::vector<double> used(example.network.capacities.size(), 0);
  for (size_t i = 0; i < speeds.size(); ++i) {
    for (const LinkUse& use : example.calls[i].footprint) used[use.link] += speeds[i] * use.bytes;
  }
  return used;
}

std::vector<double> floors_of(const Example& example) {
  std::vector<double> floors(example.calls.size(), 0);
  std::vector<double> least = example.network.capacities;
  for (double& capacity : least) capacity *= example.network.least;
  bool is_highest = true;
  for (const ShareClass share_class : kClasses) {
    const std::vector<size_t> members = example.of_class(share_class);
    if (members.empty() || std::exchange(is_highest, false)) continue;
    if (example.network.least > 0) pour(example, members, least, floors);
  }
  return floors;
}

std::vector<double> poured(const Example& example) {
  std::vector<double> speeds = floors_of(example);
  for (const ShareClass share_class : kClasses) {
    std::vector<double> free = example.network.capacities;
    const std::vector<double> used = used_by(example, speeds);
    for (size_t link = 0; link < free.size(); ++link) free[link] -= used[link];
    pour(example, example.of_class(share_class), free, speeds);
  }
  return speeds;
}

Example random_example(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  // Few different numbers, so that links fill together; or many.
  const bool are_few = seed % 2 == 0;
  const auto amount = [&](uint32_t few) {
    return are_few ? 1.0 + below(few) : std::exp2(std::uniform_real_distribution<>(-4, 4)(random));
  };
  Example example;
  example.network.least = std::array{0.0, 0.05, 0.2, SharedNetwork::kMostLeast}[below(4)];
  example.network.capacities.resize(1 + below(8));
  for (double& capacity : example.network.capacities) capacity = 1e9 * amount(3);
  example.network.weights.resize(1 + below(5));
  for (double& weight : example.network.weights) weight = amount(4);
  const bool has_classes = below(3) > 0;
  example.calls.resize(1 + below(14));
  for (SharedCall& call : example.calls) {
    call.tenant = below(static_cast<uint32_t>(example.network.weights.size()));
    if (has_classes) call.share_class = kClasses[below(3)];
    for (uint32_t link = 0; link < example.network.capacities.size(); ++link) {
      if (below(3) == 0) call.footprint.push_back({link, 1e6 * amount(2)});
    }
    if (below(3) == 0) call.cap = 2e8 * amount(4);
    if (below(2) == 0) call.factor = amount(4);
  }
  return example;
}

constexpr uint32_t kExamples = 5000;

TEST(Allocation, IsWhatASimpleWaterFillingFinds) {
  for (uint32_t seed = 0; seed < kExamples; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Example example = random_example(seed);
    const std::vector<double> speeds = allocate(example.network, example.calls), expected = poured(example);
    ASSERT_FALSE(::testing::Test::HasFailure());
    for (size_t i = 0; i < speeds.size(); ++i) {
      if (example.calls[i].footprint.empty()) {
        ASSERT_EQ(speeds[i], kNone);
      } else {
        ASSERT_NEAR(speeds[i] * example.seconds_alone(i), expected[i] * example.seconds_alone(i), 1e-8) << "call " << i;
      }
    }
  }
}

// ---- Against definitions, whatever made the speeds ----

// An example with what is to be known of each call.
struct Looked {
  explicit Looked(const Example& of) : example(of), speeds(allocate(of.network, of.calls)), floors(floors_of(of)) {
    for (size_t i = 0; i < speeds.size(); ++i) {
      if (of.calls[i].footprint.empty()) speeds[i] = 0;
    }
    used = used_by(of, speeds);
  }
  bool is_at_cap(size_t i) const { return speeds[i] >= example.most_speed(i) * (1 - kRounding); }
  bool is_full(uint32_t link) const { return used[link] >= example.network.capacities[link] * (1 - kRounding); }
  // On top of the floor: s / weight.
  double level(size_t i) const { return (speeds[i] - floors[i]) * example.seconds_alone(i) / example.weight(i); }
  bool crosses(size_t i, uint32_t link) const {
    const auto& footprint = example.calls[i].footprint;
    return std::any_of(footprint.begin(), footprint.end(), [&](const LinkUse& use) { return use.link == link; });
  }
  // Full, and no call of its class that crosses it is above this one; of lower classes there are only floors.
  bool is_bottleneck(size_t i, uint32_t link) const {
    if (!is_full(link)) return false;
    for (size_t k = 0; k < speeds.size(); ++k) {
      if (!crosses(k, link)) continue;
      const double excess = level(k) * example.weight(k);
      if (example.calls[k].share_class > example.calls[i].share_class && excess > 1e-8) return false;
      const bool is_above = (level(k) - level(i)) * example.weight(i) > 1e-8;
      if (example.calls[k].share_class == example.calls[i].share_class && is_above) return false;
    }
    return true;
  }
  // What the call's class has of this link.
  double used_by_class_of(size_t i, uint32_t link) const {
    double sum = 0;
    for (const size_t k : example.of_class(example.calls[i].share_class)) {
      for (const LinkUse& use : example.calls[k].footprint) sum += use.link == link ? speeds[k] * use.bytes : 0;
    }
    return sum;
  }

  const Example& example;
  std::vector<double> speeds, floors, used;
};

// A call for which the claim holds for one of its links, or which is at its cap.
template <typename Claim>
bool is_held(const Looked& looked, size_t i, Claim claim) {
  const auto& footprint = looked.example.calls[i].footprint;
  return looked.is_at_cap(i) ||
         std::any_of(footprint.begin(), footprint.end(), [&](const LinkUse& use) { return claim(use.link); });
}

TEST(Allocation, KeepsItsGuarantees) {
  for (uint32_t seed = 0; seed < kExamples; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Example example = random_example(seed);
    const Looked looked(example);
    const std::vector<double>& capacities = example.network.capacities;
    for (size_t link = 0; link < capacities.size(); ++link) {
      ASSERT_LE(looked.used[link], capacities[link] * (1 + kRounding)) << "link " << link;  // (1)
    }
    bool is_highest = true;
    for (const ShareClass share_class : kClasses) {
      const std::vector<size_t> members = example.of_class(share_class);
      for (const size_t i : members) {
        ASSERT_LE(looked.speeds[i], example.most_speed(i) * (1 + kRounding)) << "call " << i;
        // (2), (3) and the second half of (4): Bertsekas and Gallager's definition of max-min, 6.5.2.
        ASSERT_TRUE(is_held(looked, i, [&](uint32_t link) { return looked.is_bottleneck(i, link); })) << "call " << i;
        if (is_highest) continue;
        ASSERT_GE(looked.speeds[i], looked.floors[i] * (1 - kRounding)) << "call " << i;
        ASSERT_TRUE(is_held(looked, i,
                            [&](uint32_t link) {
                              return looked.used_by_class_of(i, link) >=
                                     example.network.least * capacities[link] * (1 - kRounding);
                            }))
            << "call " << i;
      }
      if (!members.empty()) is_highest = false;
    }
  }
}

TEST(Allocation, AClassFeelsLowerOnesByTheirFloorsOnly) {
  for (uint32_t seed = 0; seed < kExamples; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Example example = random_example(seed);
    const std::vector<double> before = allocate(example.network, example.calls);
    const std::vector<double> floors = floors_of(example);
    // Lower calls that ask for their floors and no more.
    const auto highest = std::min_element(example.calls.begin(), example.calls.end(), [](const auto& a, const auto& b) {
      return std::pair(a.footprint.empty(), a.share_class) < std::pair(b.footprint.empty(), b.share_class);
    });
    const ShareClass most = highest->share_class;
    for (size_t i = 0; i < example.calls.size(); ++i) {
      SharedCall& call = example.calls[i];
      if (call.share_class == most || call.footprint.empty() || floors[i] <= 0) continue;
      double largest = 0;
      for (const LinkUse& use : call.footprint) largest = std::max(largest, use.bytes);
      call.cap = std::min(call.cap, floors[i] * largest);
    }
    const std::vector<double> after = allocate(example.network, example.calls);
    for (const size_t i : example.of_class(most)) {
      ASSERT_NEAR(before[i] * example.seconds_alone(i), after[i] * example.seconds_alone(i), 1e-8) << "call " << i;
    }
  }
}

}  // namespace
}  // namespace banyan::service
