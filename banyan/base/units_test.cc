#include "banyan/base/units.h"

#include "banyan/testing/test.h"

namespace banyan {
namespace {

TEST(Bandwidth, ReadsBitsAndBytesApart) {
  EXPECT_EQ(Bandwidth::parse("400 Gb/s"), Bandwidth::parse("50GB/s"));
  EXPECT_EQ(Bandwidth::parse("12.5 GB/s").bytes_per_second(), 12'500'000'000u);
  EXPECT_EQ(Bandwidth::gigabits_per_second(400), Bandwidth::gigabytes_per_second(50));
}

TEST(Bandwidth, PrintsWhatItParses) {
  for (uint64_t value :
       {uint64_t{1}, uint64_t{999}, uint64_t{12'500'000'000}, uint64_t{300'000'000'000}, uint64_t{1'234'567'891}}) {
    EXPECT_EQ(Bandwidth::parse(Bandwidth::bytes_per_second(value).to_string()).bytes_per_second(), value);
  }
  EXPECT_EQ(Bandwidth::gigabytes_per_second(300).to_string(), "300 GB/s");
}

TEST(Bandwidth, RefusesWhatIsNotAPositiveFiniteRateWithAUnit) {
  for (const char* bad : {"", "300", "GB/s", "-5 GB/s", "0 GB/s", "nan GB/s", "inf GB/s", "1e99 GB/s", "5 GiB/s",
                          "2000 TB/s", "1 b/s", "99999999999999999999999999 GB/s", "1..5 GB/s"}) {
    EXPECT_THROW(Bandwidth::parse(bad), Error) << bad;
  }
}

TEST(Bytes, ReadsDecimalAndBinaryUnits) {
  EXPECT_EQ(Bytes::parse("64KiB").count(), 65536u);
  EXPECT_EQ(Bytes::parse("1.5 MB").count(), 1'500'000u);
  EXPECT_EQ(Bytes::parse("12").count(), 12u);
  EXPECT_THROW(Bytes::parse("1.5"), Error);
  EXPECT_THROW(Bytes::parse("1 X"), Error);
  EXPECT_THROW(Bytes::parse("9999999 TiB"), Error);
}

TEST(Bytes, ReadsTheShortUnitsOfNcclTests) {
  EXPECT_EQ(Bytes::parse("64K").count(), 64u << 10);
  EXPECT_EQ(Bytes::parse("128M").count(), 128u << 20);
  EXPECT_EQ(Bytes::parse("1g").count(), 1u << 30);
  EXPECT_EQ(Bytes::parse("64KB").count(), 64000u);  // decimal, as MB is
}

TEST(Bandwidth, ReadsTheUnitsOfDataSheets) {
  EXPECT_EQ(Bandwidth::parse("100Gbps"), Bandwidth::gigabits_per_second(100));
  EXPECT_EQ(Bandwidth::parse("100 Gbit/s"), Bandwidth::gigabits_per_second(100));
}

TEST(Bytes, PrintsInTheUnitThatAPersonWouldUse) {
  EXPECT_EQ(Bytes(64'000'000).to_string(), "64 MB");
  EXPECT_EQ(Bytes(64 << 20).to_string(), "64 MiB");
  EXPECT_EQ(Bytes(65536).to_string(), "64 KiB");
  EXPECT_EQ(Bytes(1'500'000'000).to_string(), "1500 MB");
  EXPECT_EQ(Bytes(123'456'789).to_string(), "123.5 MB");
  EXPECT_EQ(Bytes(0).to_string(), "0 B");
  EXPECT_EQ(Bytes(uint64_t{16384} << 40).to_string(), "18014 TB");
}

TEST(Duration, ReadsAndPrints) {
  EXPECT_EQ(parse_duration("1 us").count(), 1'000'000);
  EXPECT_EQ(to_string(parse_duration("250ns")), "250 ns");
  EXPECT_THROW(parse_duration("1"), Error);
  EXPECT_THROW(parse_duration("-1 us"), Error);
}

TEST(Units, OnlyBytesOverBandwidthMakesTime) {
  EXPECT_EQ(Bytes(100) / Bandwidth::bytes_per_second(40), Fraction(5, 2));
}

}  // namespace
}  // namespace banyan
