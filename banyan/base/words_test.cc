#include "banyan/base/words.h"

#include "banyan/testing/test.h"

namespace banyan {
namespace {

TEST(Words, OfTimesChooseAUnitThatReads) {
  EXPECT_EQ(format_seconds(0), "0 ns");
  EXPECT_EQ(format_seconds(4.5e-10), "0.450 ns");
  EXPECT_EQ(format_seconds(4.5e-7), "450 ns");
  EXPECT_EQ(format_seconds(200e-6), "200 us");
  EXPECT_EQ(format_seconds(1.23e-3), "1.23 ms");
  EXPECT_EQ(format_seconds(2.5), "2.50 s");
  EXPECT_EQ(format_seconds(Picoseconds(12'345'678)), "12.3 us");
}

TEST(Words, OfTimesHaveThreeDigitsAndTheZerosAtTheEnd) {
  EXPECT_EQ(format_seconds(2.2e-3), "2.20 ms");
  EXPECT_EQ(format_seconds(20e-3), "20.0 ms");
  EXPECT_EQ(format_seconds(9.996e-6), "10.0 us") << "rounding adds a digit";
  EXPECT_EQ(format_seconds(0.9999e-3), "1.00 ms") << "rounding adds a unit";
  EXPECT_EQ(format_seconds(61.5), "61.50 s");
}

TEST(Words, OfWaitingCountMinutesAndHours) {
  EXPECT_EQ(format_duration(0), "0 ns");
  EXPECT_EQ(format_duration(999), "999 ns");
  EXPECT_EQ(format_duration(1'234), "1.2 us");
  EXPECT_EQ(format_duration(999'960), "1.0 ms");
  EXPECT_EQ(format_duration(4'200'000'000), "4.2 s");
  EXPECT_EQ(format_duration(303'000'000'000), "5 min 3 s");
  EXPECT_EQ(format_duration(7'260'000'000'000), "2 h 1 min");
  EXPECT_EQ(format_duration(-1'500'000), "-1.5 ms");
  EXPECT_EQ(format_timeout(std::chrono::seconds(30)), "30 s");
  EXPECT_EQ(format_timeout(std::chrono::milliseconds(1500)), "1500 ms");
  EXPECT_NE(format_duration(INT64_MIN), "");
}

TEST(Words, OfRatesStayInGigabytesDownToAHundredthOfOne) {
  EXPECT_EQ(format_rate(457.142857e9), "457.14 GB/s");
  EXPECT_EQ(format_rate(25e9), "25.00 GB/s");
  EXPECT_EQ(format_rate(2.5e12), "2500.00 GB/s");
  EXPECT_EQ(format_rate(0.1e9), "0.100 GB/s");
  EXPECT_EQ(format_rate(0.0512e9), "0.0512 GB/s");
  EXPECT_EQ(format_rate(0.01e9), "0.0100 GB/s");
  EXPECT_EQ(format_rate(5e6), "5.00 MB/s");
  EXPECT_EQ(format_rate(1.25e6), "1.25 MB/s");
  EXPECT_EQ(format_rate(500e3), "500.00 kB/s");
  EXPECT_EQ(format_rate(20), "20.00 B/s");
  EXPECT_EQ(format_rate(0), "0.00 GB/s");
}

TEST(Words, OfMemoryCountGibibytes) {
  EXPECT_EQ(format_gibibytes(80e9), "74.5");
  EXPECT_EQ(format_gibibytes(1 << 29), "0.5");
}

TEST(Words, OfCablesCountBits) {
  EXPECT_EQ(format_bit_rate(5e6), "40.0 Mb/s");
  EXPECT_EQ(format_bit_rate(12.5e9), "100 Gb/s");
}

TEST(Words, NeverRoundNearlyUpToAll) {
  EXPECT_EQ(format_percent(1), "100.0 %");
  EXPECT_EQ(format_percent(0.99999), "99.9 %");
  EXPECT_EQ(format_percent(1.5), "150.0 %");
}

TEST(Words, OfRoughPartsHaveADecimalWhereItCounts) {
  EXPECT_EQ(rough_percent(0.934), "93 %");
  EXPECT_EQ(rough_percent(0.0996), "10 %");
  EXPECT_EQ(rough_percent(0.042), "4.2 %");
  EXPECT_EQ(rough_percent(0), "0 %");
}

}  // namespace
}  // namespace banyan
