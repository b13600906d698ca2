#include "banyan/codec/wire_type.h"

#include "banyan/testing/test.h"

namespace banyan::codec {
namespace {

TEST(WireType, IsItsNumberAndItsName) {
  std::set<std::string> names;
  for (size_t number = 0; number < WireType::kCount; ++number) {
    if (!WireType::is_known(number)) continue;
    const WireType type = WireType::of_number(static_cast<uint8_t>(number));
    EXPECT_EQ(type.number(), number);
    EXPECT_EQ(type.is_coded(), number >= element::kDataTypes);
    EXPECT_EQ(type.codec() ? WireType(*type.codec()) : WireType(type.element()), type);
    EXPECT_TRUE(names.insert(to_string(type)).second) << to_string(type);
    EXPECT_EQ(parse_wire_type(to_string(type)), type) << to_string(type);
  }
  EXPECT_EQ(names.size(), element::kDataTypes + kValueCodes + 5);
  EXPECT_FALSE(WireType::is_known(WireType::kCount));
  EXPECT_EQ(to_string(WireType({.code = ValueCode::int8})), "float32 as int8");
  EXPECT_EQ(WireType({.code = ValueCode::int4, .is_stochastic = true}).element(), element::DataType::float32);
}

TEST(WireType, IsRefusedByName) {
  EXPECT_EQ(testing::error_of([] { parse_wire_type("float32 as int9"); }),
            testing::error_of([] { parse_codec("int9"); }));
}

}  // namespace
}  // namespace banyan::codec
