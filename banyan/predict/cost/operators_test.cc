#include "banyan/predict/cost/operators.h"

#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

// Round figures, so that answers can be worked out by hand: 100 multiprocessors of 1 TFLOP/s, 1 TB/s.
Device sample() {
  Device device;
  device.name = "sample";
  device.peak[static_cast<size_t>(Precision::fp16)] = 100e12;
  device.multiprocessors = 100;
  device.memory = Bytes(uint64_t{64} << 30);
  device.memory_bandwidth = Bandwidth::gigabytes_per_second(1000);
  device.efficiency = {.matrix = 1,
                       .matrix_fill = 0,
                       .unaligned = 0.5,
                       .memory = 1,
                       .kernel_gap = Picoseconds(2'000'000),
                       .host_launch = Picoseconds(10'000'000)};
  return device;
}

TEST(Operators, DealOutTilesInWaves) {
  const Device device = sample();
  // 10 x 10 tiles of 256 x 128, deep enough that memory does not matter: one wave, all of the peak.
  const double one = product_seconds({.m = 2560, .n = 1280, .k = 8192}, device, Precision::fp16);
  EXPECT_NEAR(one, 2.0 * 2560 * 1280 * 8192 / 100e12, 1e-12);
  // One row of tiles more: a second wave, which smaller tiles fill better (128 x 64 at 0.75: 22 * 20 = 440 tiles, 5
  // waves of a quarter of the work at 0.75 = 1.67 large ones; 128 x 128 at 0.9: 220 tiles, 3 of a half = 1.67).
  const double more = product_seconds({.m = 2816, .n = 1280, .k = 8192}, device, Precision::fp16);
  EXPECT_NEAR(more / one, 5.0 / 3, 1e-9);
}

TEST(Operators, TakeNoLessThanTheirMemoryTraffic) {
  // Attention scores of 64 heads: 64 x 1024 x 1024 products of depth 64 write far more than they compute.
  const double seconds = product_seconds({.m = 1024, .n = 1024, .k = 8, .batch = 64}, sample(), Precision::fp16);
  EXPECT_NEAR(seconds, 64 * 2.0 * (1024 * 8 + 8 * 1024 + 1024.0 * 1024) / 1e12, 1e-12);
}

TEST(Operators, PayForOddRows) {
  const Device device = sample();
  const auto at = [&](uint64_t n) { return product_seconds({.m = 4096, .n = n, .k = 4096}, device, Precision::fp16); };
  EXPECT_NEAR(at(50257) / at(50264), 2, 1e-9);                     // odd
  EXPECT_NEAR(at(50258) / at(50264), std::pow(2, 2.0 / 3), 1e-9);  // pairs
  EXPECT_NEAR(at(50260) / at(50264), std::pow(2, 1.0 / 3), 1e-9);
}

TEST(Operators, TakeWhatTheirLaunchesTakeWhenTheyAreSmall) {
  Operator work;
  work.add(MatrixProduct{.m = 128, .n = 128, .k = 64});
  work.add_memory(1e3, 3);
  const OperatorTime small = operator_time(work, sample(), Precision::fp16);
  EXPECT_TRUE(small.launch_bound());
  EXPECT_NEAR(small.seconds(), 4 * 10e-6, 1e-12);
  work.add_memory(1e9, 1);
  const OperatorTime large = operator_time(work, sample(), Precision::fp16);
  EXPECT_FALSE(large.launch_bound());
  EXPECT_NEAR(large.device, 1e-3 + 1e-9 + 5 * 2e-6, 1e-6);
}

TEST(Operators, AddUp) {
  Operator a, b;
  a.add(MatrixProduct{.m = 64, .n = 64, .k = 64, .batch = 3});
  b.add_memory(100, 2);
  b.add(MatrixProduct{.m = 8, .n = 8, .k = 8});
  a.add(b);
  EXPECT_DOUBLE_EQ(a.flop(), 2.0 * (3 * 64 * 64 * 64 + 8 * 8 * 8));
  EXPECT_DOUBLE_EQ(a.memory_bytes(), 100);
  EXPECT_EQ(a.kernels(), 4u);
}

TEST(Operators, RefuseAPrecisionThatTheDeviceLacks) {
  EXPECT_THROW(product_seconds({.m = 8, .n = 8, .k = 8}, sample(), Precision::fp8), Error);
  EXPECT_THROW(to_picoseconds(1e9), Error);
  EXPECT_EQ(to_picoseconds(1.5e-6), Picoseconds(1'500'000));
}

}  // namespace
}  // namespace banyan::predict
