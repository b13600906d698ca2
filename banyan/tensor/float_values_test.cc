#include "banyan/tensor/float_values.h"

#include <limits>

#include "banyan/testing/test.h"

namespace banyan::tensor {
namespace {

using element::DataType;

TEST(FloatValues, ComeBackRoundedToTheirType) {
  const std::vector<float> values = {0, -1.5F, 3.14159274F, 65504, 1e-3F};
  for (const DataType type : {DataType::float16, DataType::bfloat16, DataType::float32, DataType::float64}) {
    std::vector<std::byte> elements(values.size() * size_of(type));
    write_floats(type, values, elements);
    std::vector<float> back(values.size());
    read_floats(type, elements, back);
    const float most = type == DataType::bfloat16 ? 0x1p-8F : type == DataType::float16 ? 0x1p-11F : 0;
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_LE(std::fabs(back[i] - values[i]), most * std::fabs(values[i])) << to_string(type) << " " << values[i];
    }
  }
}

TEST(FloatValues, BeyondTheRangeAreInfinite) {
  const double doubles[] = {1e300, -1e300, 1e-300, std::numeric_limits<double>::quiet_NaN()};
  float values[4];
  read_floats(DataType::float64, std::as_bytes(std::span(doubles)), values);
  EXPECT_EQ(values[0], std::numeric_limits<float>::infinity());
  EXPECT_EQ(values[1], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(values[2], 0);
  EXPECT_TRUE(std::isnan(values[3]));
  std::byte halves[2];
  write_floats(DataType::float16, std::vector<float>{1e5F}, halves);
  uint16_t half = 0;
  std::memcpy(&half, halves, sizeof half);
  EXPECT_EQ(half, 0x7c00);
}

}  // namespace
}  // namespace banyan::tensor
