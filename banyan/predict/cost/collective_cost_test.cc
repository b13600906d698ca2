#include "banyan/predict/cost/collective_cost.h"

#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

constexpr uint64_t kMiB = 1 << 20;

CollectiveCost sample() {
  const CollectiveCurve curve({{kMiB, 40e-6, 1 / 50e9}, {8 * kMiB, 100e-6, 1 / 120e9}});
  return make_collective_cost(curve, {.collective = CollectiveKind::all_reduce,
                                      .ranks = 8,
                                      .link = Bandwidth::gigabytes_per_second(300),
                                      .source = "test"});
}

TEST(CollectiveCost, GivesBackTheCurveOnTheFabricItWasMeasuredOn) {
  const CollectiveCost cost = sample();
  for (const uint64_t bytes : {kMiB, 3 * kMiB, 8 * kMiB, 200 * kMiB}) {
    const double x = static_cast<double>(bytes);
    const double busiest = busbw_factor(CollectiveKind::all_reduce, 8) * x / 300e9;
    const double measured = bytes < 8 * kMiB ? 40e-6 + x / 50e9 : 100e-6 + x / 120e9;
    EXPECT_NEAR(cost.seconds(bytes, busiest, 8), measured, 1e-11) << bytes;
  }
  EXPECT_NEAR(cost.pieces[1].efficiency, 1.75 * 120 / 300, 1e-9);  // bus bandwidth over the link's
}

TEST(CollectiveCost, GoesToOtherFabrics) {
  const CollectiveCost cost = sample();
  const uint64_t bytes = 100 * kMiB;
  const double busiest = 1e-3;
  // Half the bandwidth: the bytes take twice as long, alpha stays; 64 ranks: twice as many doublings as 8.
  EXPECT_NEAR(cost.seconds(bytes, 2 * busiest, 8) - cost.seconds(bytes, busiest, 8), busiest / 0.7, 1e-9);
  EXPECT_NEAR(cost.seconds(bytes, busiest, 64) - cost.seconds(bytes, busiest, 8), 100e-6, 1e-10);
}

TEST(CollectiveCost, RoundTripsThroughItsFile) {
  const CollectiveCost cost = sample();
  const std::vector<CollectiveCost> read = parse_collective_costs(format_collective_costs({&cost, 1}));
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].ranks, cost.ranks);
  EXPECT_EQ(read[0].link, cost.link);
  EXPECT_EQ(read[0].collective, cost.collective);
  ASSERT_EQ(read[0].pieces.size(), cost.pieces.size());
  for (size_t i = 0; i < cost.pieces.size(); ++i) {
    EXPECT_EQ(read[0].pieces[i].from, cost.pieces[i].from);
    EXPECT_EQ(read[0].pieces[i].alpha, cost.pieces[i].alpha);
    EXPECT_EQ(read[0].pieces[i].efficiency, cost.pieces[i].efficiency);
  }
  EXPECT_EQ(format_collective_costs(read), format_collective_costs({&cost, 1}));
}

TEST(CollectiveCost, ReadsTheSpellingsOfOtherLibraries) {
  CollectiveCost cost = sample();
  cost.collective = CollectiveKind::all_to_all;
  std::string text = format_collective_costs({&cost, 1});
  const std::string ours = "all-to-all";
  ASSERT_NE(text.find(ours), std::string::npos) << text;
  text.replace(text.find(ours), ours.size(), "alltoall");
  EXPECT_EQ(parse_collective_costs(text).at(0).collective, CollectiveKind::all_to_all);
}

TEST(CollectiveCost, NamesWhatIsWrongInAFile) {
  const auto error_of = [](const std::string& pieces, const std::string& rest = R"("ranks": 8, "link": "1 GB/s")") {
    try {
      parse_collective_costs(R"({"banyan": "collective-cost/1", "collectives": [{"collective": "allreduce", )" + rest +
                             R"(, "pieces": [)" + pieces + "]}]}");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string good = R"({"from": "4096 B", "alpha": "5 us", "efficiency": 0.5})";
  EXPECT_EQ(error_of(good), "");
  EXPECT_THAT(error_of(good + "," + good), HasSubstr("collectives[0].pieces[1].from is not above"));
  EXPECT_THAT(error_of(""), HasSubstr("pieces is empty"));
  EXPECT_THAT(error_of(good, R"("ranks": 1, "link": "1 GB/s")"), HasSubstr("collectives[0].ranks"));
  EXPECT_THAT(error_of(good, R"("ranks": 8, "link": "1")"), HasSubstr("no unit"));
  EXPECT_THAT(error_of(R"({"from": "1 B", "alpha": "5 us", "efficency": 0.5})"),
              HasSubstr("did you mean 'efficiency'?"));
}

TEST(CollectiveCost, TheNearestMeasurementIsUsed) {
  std::vector<CollectiveCost> costs = {sample(), sample(), sample()};
  costs[0].ranks = 2, costs[1].ranks = 64;
  costs[2].collective = CollectiveKind::all_to_all;
  EXPECT_EQ(nearest_cost(costs, CollectiveKind::all_reduce, 4), &costs[0]);
  EXPECT_EQ(nearest_cost(costs, CollectiveKind::all_reduce, 1024), &costs[1]);
  EXPECT_EQ(nearest_cost(costs, CollectiveKind::reduce_scatter, 32), &costs[1]);
  EXPECT_EQ(nearest_cost(costs, CollectiveKind::all_to_all, 2), &costs[2]);
  EXPECT_EQ(nearest_cost(costs, CollectiveKind::broadcast, 2), nullptr);
}

TEST(CollectiveCost, OfOnePieceIsAlphaForEachDoublingAndTheBytesAtItsEfficiency) {
  const auto seconds = [](double efficiency, uint32_t ranks) {
    const CollectiveCost cost{.collective = CollectiveKind::all_reduce,
                              .ranks = 2,
                              .link = {},
                              .pieces = {{.from = 0, .alpha = Picoseconds(10'000'000), .efficiency = efficiency}},
                              .source = "test"};
    return cost.seconds(kMiB, 1e-3, ranks);
  };
  EXPECT_NEAR(seconds(0.8, 8), 30e-6 + 1e-3 / 0.8, 1e-12);
  EXPECT_NEAR(seconds(0.5, 16), 40e-6 + 1e-3 / 0.5, 1e-12);
}

}  // namespace
}  // namespace banyan::predict
