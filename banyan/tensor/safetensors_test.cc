#include "banyan/tensor/safetensors.h"

#include "banyan/base/file.h"
#include "banyan/testing/test.h"

namespace banyan::tensor {
namespace {

std::string example(const std::string& name) {
  return read_file(std::string(BANYAN_SOURCE_DIR) + "/banyan/tensor/corpus/safetensors/" + name);
}

double element(const std::string& file, const SafeTensor& tensor, size_t place) {
  return read_element(*tensor.type, reinterpret_cast<const std::byte*>(file.data()) + tensor.first_byte +
                                        place * size_of(*tensor.type));
}

TEST(Safetensors, AreReadByNameTypeAndShape) {
  const std::string file = example("several");
  ASSERT_TRUE(is_safetensors(file));
  const std::vector<SafeTensor> tensors = read_safetensors(file);
  ASSERT_EQ(tensors.size(), 5u);
  EXPECT_EQ(tensors[0].name, "bias");
  EXPECT_EQ(tensors[0].type, element::DataType::float16);
  EXPECT_EQ(element(file, tensors[0], 2), 65504);
  EXPECT_EQ(tensors[1].name, "layer.0.weight");
  EXPECT_EQ(tensors[1].type, element::DataType::bfloat16);
  EXPECT_THAT(tensors[1].shape, ElementsAre(2, 3));
  EXPECT_NEAR(element(file, tensors[1], 5), 0.6, 0.003);
  EXPECT_NEAR(element(file, tensors[1], 4), -0.5, 0.003);
  EXPECT_EQ(tensors[2].type, element::DataType::int64);
  EXPECT_THAT(tensors[2].shape, IsEmpty());
  EXPECT_EQ(element(file, tensors[2], 0), 7);
  EXPECT_FALSE(tensors[3].type);
  EXPECT_EQ(tensors[3].written_type, "BOOL");
  EXPECT_EQ(tensors[3].bytes, 2u);
  EXPECT_EQ(element(file, tensors[4], 0), 0.5);
  EXPECT_THAT(read_safetensors(example("no_tensors")), IsEmpty());
}

TEST(Safetensors, WhatDoesNotFitIsRefusedWithItsPlace) {
  const std::pair<const char*, const char*> files[] = {
      {"beyond", "w.data_offsets does not lie in the 60 bytes behind the header; is the file cut off?"},
      {"backwards", "w.data_offsets does not lie in the 4 bytes"},
      {"other_shape", "w.data_offsets are 64 bytes, but the shape has 20 elements of F32"},
      {"overflow", "w.shape is of more elements than any file has"},
      {"twice", "twice"},
      {"cut_off", "should be 5000 bytes long, but the file ends before"}};
  for (const auto& [name, mention] : files) {
    EXPECT_THAT(testing::error_of([&] { read_safetensors(example(name)); }, ErrorCode::invalid_input),
                HasSubstr(mention))
        << name;
  }
}

TEST(Safetensors, NothingElseIsTakenForOne) {
  for (const char* text : {"", "{", "\x93NUMPY{}{", "PK\x03\x04", "12345678{", "\x08"})
    EXPECT_FALSE(is_safetensors(text));
}

}  // namespace
}  // namespace banyan::tensor
