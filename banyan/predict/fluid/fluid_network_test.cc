#include "banyan/predict/fluid/fluid_network.h"

#include "banyan/testing/fluid_oracle.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

using testing::OracleFlow;

std::vector<FluidHop> on(std::initializer_list<uint32_t> links) {
  std::vector<FluidHop> hops;
  for (const uint32_t link : links) hops.push_back({link, 1});
  return hops;
}

// By tag.
std::vector<Picoseconds> run(FluidNetwork& network, size_t flows) {
  std::vector<Picoseconds> ends(flows, FluidNetwork::kNever);
  while (network.next() < FluidNetwork::kNever) {
    for (const FluidEnd& end : network.advance(network.next())) ends[end.tag] = network.now();
  }
  return ends;
}

TEST(FluidNetwork, SharesALinkAndGivesWhatIsFreeToWhoIsLeft) {
  // 1 GB/s. Both at 0.5 GB/s until the first has its 1 MB, at 2 ms; the second has 1 MB left, alone: 3 ms.
  FluidNetwork network({1e9}, {});
  network.start({.hops = on({0}), .bytes = 1e6, .tag = 0});
  network.start({.hops = on({0}), .bytes = 2e6, .tag = 1});
  EXPECT_THAT(run(network, 2), ::testing::ElementsAre(milliseconds(2), milliseconds(3)));
  EXPECT_DOUBLE_EQ(network.bytes_carried(0), 3e6);
  EXPECT_EQ(network.time_full(0), milliseconds(3));
}

TEST(FluidNetwork, WaitsForTheLatencyBeforeTheFirstByte) {
  FluidNetwork network({1e9}, {});
  network.start({.hops = on({0}), .bytes = 1e6, .latency = microseconds(500), .tag = 0});
  network.start({.hops = on({0}), .bytes = 0, .latency = microseconds(7), .tag = 1});
  network.start({.bytes = 1e6, .latency = microseconds(9), .tag = 2});  // no links: nothing holds it back
  EXPECT_THAT(run(network, 3), ::testing::ElementsAre(microseconds(1500), microseconds(7), microseconds(9)));
}

TEST(FluidNetwork, KeepsToCapsWeightsAndPriorities) {
  FluidNetwork network({1e9, 1e9, 1e9}, {});
  network.start({.hops = on({0}), .bytes = 1e6, .cap = Bandwidth::bytes_per_second(100'000'000), .tag = 0});  // 10 ms
  network.start({.hops = on({1}), .bytes = 3e6, .weight = 3, .tag = 1});  // 0.75 GB/s: 4 ms
  network.start({.hops = on({1}), .bytes = 2e6, .weight = 1, .tag = 2});  // 1 MB by then, then alone: 5 ms
  network.start({.hops = on({2}), .bytes = 1e6, .priority = 1, .tag = 3});
  network.start({.hops = on({2}), .bytes = 2e6, .priority = 0, .tag = 4});
  EXPECT_THAT(run(network, 5), ::testing::ElementsAre(milliseconds(10), milliseconds(4), milliseconds(5),
                                                      milliseconds(3), milliseconds(2)));
}

TEST(FluidNetwork, ServesHigherPrioritiesAsIfOthersWereNotThere) {
  FluidNetwork network({10}, {});
  const FlowId last = network.start({.hops = on({0}), .bytes = 1e3, .priority = 2});
  EXPECT_DOUBLE_EQ(network.rate(last), 10);
  const FlowId first =
      network.start({.hops = on({0}), .bytes = 1e3, .cap = Bandwidth::bytes_per_second(4), .priority = 0});
  EXPECT_DOUBLE_EQ(network.rate(last), 6);
  const FlowId second = network.start({.hops = on({0}), .bytes = 1e3, .priority = 1});
  EXPECT_DOUBLE_EQ(network.rate(first), 4);
  EXPECT_DOUBLE_EQ(network.rate(second), 6);
  EXPECT_DOUBLE_EQ(network.rate(last), 0);
  EXPECT_DOUBLE_EQ(network.used(0), 10);
  network.stop(second);
  EXPECT_DOUBLE_EQ(network.rate(last), 6);
  network.set_capacity(0, 3);
  EXPECT_DOUBLE_EQ(network.rate(first), 3);
  EXPECT_DOUBLE_EQ(network.rate(last), 0);
}

TEST(FluidNetwork, FollowsLinksThatChangeFailAndReturn) {
  FluidNetwork network({1e9}, {});
  const FlowId flow = network.start({.hops = on({0}), .bytes = 4e6});
  network.advance(milliseconds(1));
  network.set_capacity(0, 0.5e9);
  network.advance(milliseconds(3));  // 1 MB more
  EXPECT_DOUBLE_EQ(network.remaining(flow), 2e6);
  network.set_capacity(0, 0);
  EXPECT_EQ(network.next(), FluidNetwork::kNever);
  network.advance(milliseconds(10));
  network.set_capacity(0, 2e9);
  EXPECT_EQ(network.next(), milliseconds(11));
  EXPECT_EQ(network.advance(milliseconds(11)).size(), 1u);
  EXPECT_DOUBLE_EQ(network.bytes_carried(0), 4e6);
}

TEST(FluidNetwork, MovesAFlowToOtherLinksWithWhatItHasLeft) {
  FluidNetwork network({1e9, 2e9}, {});
  const FlowId flow = network.start({.hops = on({0}), .bytes = 4e6});
  const FlowId other = network.start({.hops = on({1}), .bytes = 8e6, .latency = milliseconds(1)});
  network.advance(milliseconds(1));
  network.move(flow, on({1}));
  EXPECT_DOUBLE_EQ(network.rate(flow), 1e9);
  network.advance(milliseconds(2));
  EXPECT_DOUBLE_EQ(network.stop(other), 7e6);
  EXPECT_EQ(network.next(), milliseconds(3));
  network.advance(milliseconds(3));
  EXPECT_DOUBLE_EQ(network.bytes_carried(0), 1e6);
  EXPECT_DOUBLE_EQ(network.bytes_carried(1), 4e6);
  EXPECT_EQ(network.flow_count(), 0u);
}

TEST(FluidNetwork, RefusesTimesThatCannotBeCounted) {
  FluidNetwork network({1.0}, {});
  network.start({.hops = on({0}), .bytes = 1});
  network.advance(seconds(1));
  EXPECT_THROW(network.start({.hops = on({0}), .bytes = 1, .latency = FluidNetwork::kNever}), Error);
  network.start({.hops = on({0}), .bytes = 1e18});  // longer than can be counted: it never ends
  EXPECT_EQ(network.next(), FluidNetwork::kNever);
}

struct Drawn {
  std::vector<double> capacities;
  std::vector<OracleFlow> flows;
};

Drawn draw(uint64_t seed, uint32_t links, uint32_t flows, bool plain) {
  std::mt19937_64 random(seed);
  Drawn drawn;
  for (uint32_t link = 0; link < links; ++link)
    drawn.capacities.push_back(1e9 * static_cast<double>(1 + random() % 40));
  for (uint32_t f = 0; f < flows; ++f) {
    OracleFlow flow;
    for (uint32_t link = 0; link < links; ++link) {
      if (random() % links < 3) flow.hops.emplace_back(link, 1 + (plain ? 0 : static_cast<double>(random() % 2)));
    }
    if (flow.hops.empty()) flow.hops.emplace_back(static_cast<uint32_t>(random() % links), 1);
    flow.bytes = static_cast<double>(1 + random() % 50'000'000);
    flow.start_seconds = static_cast<double>(random() % 1000) * 1e-6;
    if (!plain) flow.weight = 1 + static_cast<double>(random() % 3);
    if (!plain && random() % 4 == 0) flow.cap = 1e9;
    if (!plain && random() % 8 == 0) flow.priority = 1;
    drawn.flows.push_back(flow);
  }
  return drawn;
}

void start_all(FluidNetwork& network, const Drawn& drawn) {
  for (size_t f = 0; f < drawn.flows.size(); ++f) {
    const OracleFlow& flow = drawn.flows[f];
    std::vector<FluidHop> hops;
    for (const auto& [link, coefficient] : flow.hops) hops.push_back({link, coefficient});
    network.start({.hops = hops,
                   .bytes = flow.bytes,
                   .latency = Picoseconds(std::llround(flow.start_seconds * 1e12)),
                   .weight = flow.weight,
                   .cap = Bandwidth::bytes_per_second(static_cast<uint64_t>(flow.cap)),
                   .priority = static_cast<uint8_t>(flow.priority),
                   .tag = f});
  }
}

TEST(FluidNetwork, EndsAllFlowsWhenASolverThatSolvesEverythingAgainDoes) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Drawn drawn = draw(seed, 8, 40, seed % 2 == 0);
    FluidNetwork network(drawn.capacities, {});
    start_all(network, drawn);
    const std::vector<Picoseconds> ends = run(network, drawn.flows.size());
    const std::vector<double> expected = testing::ends(drawn.capacities, drawn.flows);
    for (size_t f = 0; f < ends.size(); ++f) {
      // Each of the events before may have been rounded by a picosecond.
      ASSERT_NEAR(static_cast<double>(ends[f].count()), expected[f] * 1e12, 100) << "flow " << f << ", seed " << seed;
    }
  }
}

TEST(FluidNetwork, GivesFoldedFlowsTheAnswersOfUnfoldedOnes) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Drawn drawn = draw(seed, 8, 20, seed % 2 == 0);
    FluidNetwork folded(drawn.capacities, {}), unfolded(drawn.capacities, {});
    std::mt19937_64 random(seed);
    size_t tag = 0;
    std::vector<size_t> which;
    for (const OracleFlow& flow : drawn.flows) {
      std::vector<FluidHop> hops;
      for (const auto& [link, coefficient] : flow.hops) hops.push_back({link, coefficient});
      const uint32_t times = 1 + static_cast<uint32_t>(random() % 5);
      FluidFlow one{.hops = hops, .bytes = flow.bytes, .weight = flow.weight, .tag = which.size()};
      for (uint32_t i = 0; i < times; ++i, ++one.tag) {
        unfolded.start(one);
        which.push_back(tag);
      }
      folded.start({.hops = hops, .bytes = flow.bytes, .weight = flow.weight, .multiplicity = times, .tag = tag++});
    }
    const std::vector<Picoseconds> few = run(folded, tag), many = run(unfolded, which.size());
    for (size_t f = 0; f < many.size(); ++f) ASSERT_EQ(many[f], few[which[f]]) << "flow " << f << ", seed " << seed;
    for (uint32_t link = 0; link < 8; ++link) {
      ASSERT_NEAR(folded.bytes_carried(link), unfolded.bytes_carried(link), 1e-3);
    }
  }
}

TEST(FluidNetwork, AnswersWithAWindowExactlyForFlowsOfTheSizesThatItSays) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Drawn drawn = draw(seed, 8, 60, true);
    const Picoseconds window = microseconds(200);
    FluidNetwork quick(drawn.capacities, {.window = window});
    start_all(quick, drawn);
    Drawn said = drawn;
    std::vector<Picoseconds> ends(drawn.flows.size());
    double off = 0, asked = 0, worst = 0;
    while (quick.next() < FluidNetwork::kNever) {
      for (const FluidEnd& end : quick.advance(quick.next())) {
        ends[end.tag] = quick.now();
        said.flows[end.tag].bytes = end.moved;
        const double own = drawn.flows[end.tag].bytes;
        off += std::abs(end.moved - own);
        asked += own;
        worst = std::max(worst, std::abs(end.moved - own) / own);
      }
    }
    const WindowError error = quick.window_error();
    EXPECT_NEAR(error.bytes, off, 1e-3);
    EXPECT_NEAR(error.of_all, off / asked, 1e-9);
    EXPECT_NEAR(error.worst_flow, worst, 1e-9);
    FluidNetwork exact(said.capacities, {});
    start_all(exact, said);
    const std::vector<Picoseconds> expected = run(exact, said.flows.size());
    for (size_t f = 0; f < ends.size(); ++f) {
      ASSERT_NEAR(static_cast<double>(ends[f].count()), static_cast<double>(expected[f].count()), 200)
          << "flow " << f << ", seed " << seed;
      // No flow moves more or less than a window of its own rate, which is no more than a link.
      const double most = *std::max_element(drawn.capacities.begin(), drawn.capacities.end()) * 200e-6;
      ASSERT_LE(std::abs(said.flows[f].bytes - drawn.flows[f].bytes), most);
    }
  }
}

TEST(FluidNetwork, LosesNoByteWhenLinksFail) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    const Drawn drawn = draw(seed, 8, 30, true);
    FluidNetwork network(drawn.capacities, {});
    start_all(network, drawn);
    std::vector<double> expected(8, 0);
    for (const OracleFlow& flow : drawn.flows) {
      for (const auto& [link, coefficient] : flow.hops) expected[link] += flow.bytes * coefficient;
    }
    for (int change = 0; change < 50 && network.flow_count() > 0; ++change) {
      const uint32_t link = static_cast<uint32_t>(random() % 8);
      network.set_capacity(link, random() % 2 == 0 ? 0 : 1e9 * static_cast<double>(1 + random() % 10));
      const Picoseconds until = network.now() + microseconds(random() % 3000);
      while (network.next() <= until) network.advance(network.next());
      network.advance(until);
    }
    for (uint32_t link = 0; link < 8; ++link) network.set_capacity(link, 1e9);
    while (network.flow_count() > 0) network.advance(network.next());
    for (uint32_t link = 0; link < 8; ++link) {
      ASSERT_NEAR(network.bytes_carried(link), expected[link], 1e-3) << "link " << link << ", seed " << seed;
    }
  }
}

TEST(FluidNetwork, GivesTheSameAnswerTwice) {
  const Drawn drawn = draw(7, 12, 300, false);
  const auto once = [&] {
    FluidNetwork network(drawn.capacities, {});
    start_all(network, drawn);
    return run(network, drawn.flows.size());
  };
  EXPECT_EQ(once(), once());
}

}  // namespace
}  // namespace banyan::predict
