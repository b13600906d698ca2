#include "banyan/predict/codes/codec_cost.h"

#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

using codec::Codec;
using codec::ValueCode;

// What a codec loses of normally distributed values, over their own size.
double measured_loss(const Codec& codec) {
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(1 << 18), decoded(values.size());
  for (float& value : values) value = normal(random);
  std::vector<std::byte> coded(coded_bytes(codec, values.size()));
  codec::encode({.codec = codec, .values = values.data(), .count = values.size()}, coded.data());
  codec::decode(codec, coded.data(), decoded.data(), values.size());
  double lost = 0, all = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    lost += std::pow(double{values[i]} - double{decoded[i]}, 2);
    all += std::pow(double{values[i]}, 2);
  }
  return std::sqrt(lost / all);
}

TEST(CodecCost, SaysWhatCodecsLoseOfNormalValues) {
  double before = 0;
  for (const Codec& codec : codecs_by_loss()) {
    EXPECT_NEAR(relative_loss(codec) / measured_loss(codec), 1, 0.15)
        << to_string(codec) << " " << measured_loss(codec);
    EXPECT_GE(relative_loss(codec), before) << to_string(codec);
    before = relative_loss(codec);
  }
  EXPECT_EQ(codecs_by_loss().size(), codec::kValueCodes);
}

TEST(CodecCost, BytesAreThoseOfTheCode) {
  const CodecCost cost{.codec = {.code = ValueCode::int8}, .speed = {}};
  EXPECT_EQ(cost.coded(Bytes(64 << 20)), Bytes((uint64_t{64} << 20) / 4 / 256 * 260));
  EXPECT_EQ(cost.coded(Bytes(4)), Bytes(260));
  EXPECT_EQ(cost.coded(Bytes(0)), Bytes(0));
  EXPECT_DOUBLE_EQ(cost.share(), 260.0 / 1024);
}

TEST(CodecCost, MeasuresOnceAProcess) {
  const Codec codec{.code = ValueCode::int8};
  const CodecSpeed first = measured_speed(codec), second = measured_speed(codec);
  EXPECT_EQ(first.encode, second.encode);
  // Between 100 MB/s and 1 TB/s: it is a time for a byte and no other unit.
  for (const double seconds : {first.encode, first.decode, first.decode_add}) {
    EXPECT_GT(seconds, 1e-12);
    EXPECT_LT(seconds, 1e-8);
  }
}

TEST(CodecCost, OfADeviceFollowsFromItsMemory) {
  const Device& device = DeviceTable::builtin().at("a100-80g");
  const CodecCost cost = cost_on(device, {.code = ValueCode::int8});
  const double bandwidth = static_cast<double>(device.memory_bandwidth.bytes_per_second()) * device.efficiency.memory;
  // Values and residual read, code and residual written; code read, values written; and the sum is read, too.
  EXPECT_DOUBLE_EQ(cost.speed.encode * bandwidth, 3 + 260.0 / 1024);
  EXPECT_DOUBLE_EQ(cost.speed.decode * bandwidth, 1 + 260.0 / 1024);
  EXPECT_DOUBLE_EQ(cost.speed.decode_add * bandwidth, 2 + 260.0 / 1024);
}

TEST(CodecCost, ReadsSpeeds) {
  const CodecSpeed all = parse_codec_speed("20GB/s");
  EXPECT_DOUBLE_EQ(all.encode, 0.05e-9);
  EXPECT_DOUBLE_EQ(all.decode_add, 0.05e-9);
  const CodecSpeed each = parse_codec_speed("10GB/s,20GB/s,25GB/s");
  EXPECT_DOUBLE_EQ(each.encode, 0.1e-9);
  EXPECT_DOUBLE_EQ(each.decode, 0.05e-9);
  EXPECT_DOUBLE_EQ(each.decode_add, 0.04e-9);
  for (const char* wrong : {"", "fast", "0GB/s", "1GB/s,2GB/s", "1GB/s,,2GB/s"}) {
    EXPECT_THROW(parse_codec_speed(wrong), Error) << wrong;
  }
}

}  // namespace
}  // namespace banyan::predict
