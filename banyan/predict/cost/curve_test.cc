#include "banyan/predict/cost/curve.h"

#include "banyan/predict/cost/curve_log.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// A library that switches protocols at 4 and 64 MiB.
double true_seconds(uint64_t bytes) {
  const double x = static_cast<double>(bytes);
  if (bytes < 4 * kMiB) return 20e-6 + x / 40e9;
  if (bytes < 64 * kMiB) return 60e-6 + x / 100e9;
  return 200e-6 + x / 130e9;
}

std::vector<CollectivePoint> measure(uint64_t first, uint64_t step, uint64_t last, double noise, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> error(0, noise);
  std::vector<CollectivePoint> points;
  for (uint64_t bytes = first; bytes <= last; bytes += step)
    points.push_back({bytes, true_seconds(bytes) * std::exp(error(random))});
  return points;
}

TEST(Curve, FindsTheSwitchesOfProtocolAndNoMorePieces) {
  const CurveFit fit = fit_curve(measure(kMiB, kMiB / 2, 256 * kMiB, 0, 1));
  ASSERT_EQ(fit.curve.pieces().size(), 3u);
  EXPECT_EQ(fit.curve.pieces()[1].from, 4 * kMiB);
  EXPECT_EQ(fit.curve.pieces()[2].from, 64 * kMiB);
  EXPECT_NEAR(fit.curve.pieces()[2].beta, 1 / 130e9, 1e-14);
  EXPECT_NEAR(fit.curve.pieces()[2].alpha, 200e-6, 1e-8);
  EXPECT_LT(fit.error.mean, 0.001);
}

TEST(Curve, PredictsPointsThatItHasNotSeen) {
  for (const uint64_t seed : {1u, 2u, 3u, 4u, 5u}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::vector<CollectivePoint> all = measure(kMiB, kMiB, 512 * kMiB, 0.01, seed);
    std::vector<CollectivePoint> seen, unseen;
    for (size_t i = 0; i < all.size(); ++i) (i % 2 == 0 ? seen : unseen).push_back(all[i]);
    const CurveFit fit = fit_curve(seen);
    const CurveError error = curve_error(fit.curve, unseen);
    EXPECT_LT(error.mean, 0.015);  // the noise's own mean is 0.008
    EXPECT_LE(fit.curve.pieces().size(), 4u);
    EXPECT_NEAR(fit.held_out.mean, error.mean, 0.007) << "cross-validation says what the error on new points is";
  }
}

TEST(Curve, GivesNoiseNoPieces) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> error(0, 0.05);
  std::vector<CollectivePoint> points;
  for (uint64_t i = 1; i <= 200; ++i) {
    const uint64_t bytes = i * kMiB;
    points.push_back({bytes, (50e-6 + static_cast<double>(bytes) / 100e9) * std::exp(error(random))});
  }
  EXPECT_EQ(fit_curve(points).curve.pieces().size(), 1u);
}

TEST(Curve, IsNotBentByOutliers) {
  std::vector<CollectivePoint> points;
  for (uint64_t i = 1; i <= 100; ++i) points.push_back({i * kMiB, 50e-6 + static_cast<double>(i * kMiB) / 100e9});
  for (const size_t hiccup : {13u, 50u, 77u}) points[hiccup].seconds *= 5;
  const CurveFit fit = fit_curve(points);
  for (const uint64_t i : {2u, 30u, 60u, 99u}) {
    const double right = 50e-6 + static_cast<double>(i * kMiB) / 100e9;
    EXPECT_NEAR(fit.curve.seconds(i * kMiB) / right, 1, 0.02) << i << " MiB";
  }
}

TEST(Curve, FollowsAStepDownWhereTheLibrarySwitchesLate) {
  std::vector<CollectivePoint> points;
  for (uint64_t i = 1; i <= 64; ++i) {
    const double x = static_cast<double>(i);
    points.push_back({i * kMiB, i < 16 ? 1e-5 * (2 + x) : 1e-5 * (6 + x / 2)});  // 17 at 15 MiB, 14 at 16 MiB
  }
  const CurveFit fit = fit_curve(points);
  ASSERT_EQ(fit.curve.pieces().size(), 2u);
  EXPECT_NEAR(fit.curve.seconds(15 * kMiB), 17e-5, 1e-8);
  EXPECT_NEAR(fit.curve.seconds(16 * kMiB), 14e-5, 1e-8);
  for (const CurvePiece& piece : fit.curve.pieces()) {
    EXPECT_GE(piece.alpha, 0);
    EXPECT_GE(piece.beta, 0);
  }
}

TEST(Curve, SmallSizesCountAsMuchAsLargeOnes) {
  // 1000 sizes above 24 MiB of one protocol, three below it of another.
  std::vector<CollectivePoint> points;
  for (uint64_t i = 1; i <= 3; ++i)
    points.push_back({i * 8 * kMiB, 300e-6 + static_cast<double>(i * 8 * kMiB) / 400e9});
  for (uint64_t i = 4; i <= 1000; ++i)
    points.push_back({i * 8 * kMiB, 10e-6 + static_cast<double>(i * 8 * kMiB) / 100e9});
  const CurveFit fit = fit_curve(points);
  EXPECT_NEAR(fit.curve.seconds(8 * kMiB) / points[0].seconds, 1, 0.01);
  EXPECT_NEAR(fit.curve.seconds(24 * kMiB) / points[2].seconds, 1, 0.01);
  EXPECT_NEAR(fit.curve.seconds(4000 * kMiB) / (10e-6 + 4000.0 * kMiB / 100e9), 1, 0.001);
}

TEST(Curve, TakesFewPointsAndRepeatedSizes) {
  const std::vector<CollectivePoint> three = {{kMiB, 1e-4}, {2 * kMiB, 2e-4}, {4 * kMiB, 4e-4}};
  EXPECT_NEAR(fit_curve(three).curve.seconds(3 * kMiB), 3e-4, 1e-6);
  std::vector<CollectivePoint> repeated;
  for (const double wobble : {0.9, 1.0, 1.1}) {
    for (const CollectivePoint& point : three) repeated.push_back({point.bytes, point.seconds * wobble});
  }
  EXPECT_NEAR(fit_curve(repeated).curve.seconds(3 * kMiB), 3e-4, 1e-6) << "the median of a size counts";
}

TEST(Curve, FitsTenThousandSizes) {
  const CurveFit fit = fit_curve(measure(kMiB, 40'000, 400 * kMiB, 0.002, 11));
  EXPECT_LT(fit.error.mean, 0.01);
}

TEST(Curve, RefusesWhatIsNoMeasurement) {
  const auto error_of = [](std::vector<CollectivePoint> points) {
    try {
      fit_curve(points);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_of({{kMiB, 1e-4}, {kMiB, 1e-4}}), HasSubstr("at least 3 sizes"));
  EXPECT_THAT(error_of({{kMiB, 1e-4}, {2 * kMiB, 0}, {3 * kMiB, 1}}), HasSubstr("2 MiB"));
}

// The table as the program prints it.
constexpr const char* kTable =
    R"(# nThread 1 nGpus 4 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
#  Rank  0 Group  0 Pid  71 on   host device  0 [0x07] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid  71 on   host device  1 [0x0b] NVIDIA A100-SXM4-80GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           0             0     float     sum      -1     6.12    0.00    0.00      0     6.02    0.00    0.00      0
     1048576        262144     float     sum      -1    32.13   32.64   32.64      0    31.02   33.80   33.80      0
     2097152        524288     float     sum      -1    50.25   41.73   41.73      0    49.90   42.03   42.03      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 25.2
)";

TEST(CurveLog, ReadsTheTableOfNcclTests) {
  const CurveLog log = parse_curve_log("$ ./build/all_reduce_perf -b 1M -e 4M -f 2 -g 2\n" + std::string(kTable));
  ASSERT_EQ(log.points.size(), 2u);
  EXPECT_EQ(log.points[1].bytes, 2097152u);
  EXPECT_DOUBLE_EQ(log.points[1].seconds, 50.25e-6);
  EXPECT_EQ(log.ranks, 2u);
  EXPECT_EQ(log.collective, CollectiveKind::all_reduce);
  EXPECT_DOUBLE_EQ(parse_curve_log(kTable, {.in_place = true}).points[0].seconds, 31.02e-6);
}

TEST(CurveLog, ReadsCsvByItsHeading) {
  const CurveLog log = parse_curve_log(
      "size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)\n"
      "1048576,262144,float,70140,14.95,69870,15.01\n");
  ASSERT_EQ(log.points.size(), 1u);
  EXPECT_DOUBLE_EQ(log.points[0].seconds, 70.14e-6);
  const CurveLog other = parse_curve_log("busbw,Time_ms,Size(MiB)\n1,2.5,3\n");
  EXPECT_EQ(other.points[0].bytes, 3 * kMiB);
  EXPECT_DOUBLE_EQ(other.points[0].seconds, 2.5e-3);
}

TEST(CurveLog, NamesTheLineOfAMistake) {
  const auto error_of = [](std::string_view text) {
    try {
      parse_curve_log(text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_of("size(B),time\n1,2\n"), HasSubstr("needs a unit"));
  EXPECT_THAT(error_of("size(B),time(us)\n1,2\n4096,fast\n"), HasSubstr("line 3"));
  EXPECT_THAT(error_of("size(B),time(us)\n4096\n"), HasSubstr("line 2: has 1 column"));
  EXPECT_THAT(error_of("a,b\n1,2\n"), HasSubstr("no columns of size and time"));
  EXPECT_THAT(error_of("size(B),time(us)\n1e300,2\n"), HasSubstr("check its unit"));
  EXPECT_THAT(error_of(""), HasSubstr("no measurements"));
}

TEST(CurveLog, TwoTablesAreNotFittedAsOneAndTheirRanksAreNamed) {
  const std::string table =
      "# size count type redop root time algbw busbw\n# (B) (elements) (us) (GB/s)\n8 2 float sum -1 10.0 1 1\n";
  EXPECT_EQ(parse_curve_log(table).points.size(), 1u);
  try {
    parse_curve_log(table + table);
    ADD_FAILURE() << "read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("line 4: a second table begins here"));
  }
}

TEST(CurveLog, ASecondTableSaysOfWhichRanksItIs) {
  const std::string heading = "# size count type redop root time\n# (B) (elements) (us)\n";
  const std::string rank = "#  Rank  0 Group  0 Pid 7 on n1 device 0 [0x1b] NVIDIA H100\n";
  const std::string row = "8 2 float sum -1 10.0\n";
  const auto error_of = [](const std::string& text) {
    try {
      parse_curve_log(text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  EXPECT_THAT(error_of(rank + rank + rank + heading + row + rank + rank + heading + row),
              ::testing::HasSubstr("line 9: a second table begins here, of 2 ranks where the first is of 3; put each"));
  EXPECT_THAT(error_of("size(B),time(us)\n8,1\nsize(B),time(us)\n8,2\n"),
              ::testing::HasSubstr("line 3: a second table"));
}

}  // namespace
}  // namespace banyan::predict
