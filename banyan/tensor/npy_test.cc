#include "banyan/tensor/npy.h"

#include "banyan/base/file.h"
#include "banyan/testing/test.h"

namespace banyan::tensor {
namespace {

// Files of the corpus are from numpy 1.24, but for some with headers written by hand.
std::string corpus(const std::string& name) {
  return read_file(std::string(BANYAN_SOURCE_DIR) + "/banyan/tensor/corpus/npy/" + name);
}

TEST(Npy, ReadsWhatNumpyWritesInEveryVersionAndType) {
  const std::pair<const char*, element::DataType> files[] = {{"float32_v1", element::DataType::float32},
                                                             {"float16_v2", element::DataType::float16},
                                                             {"float64_v3", element::DataType::float64}};
  for (const auto& [name, type] : files) {
    const std::string file = corpus(name);
    const NpyArray array = read_npy(file);
    EXPECT_EQ(array.type, type) << name;
    EXPECT_THAT(array.shape, ElementsAre(3, 4)) << name;
    EXPECT_EQ(array.elements, 12u) << name;
    ASSERT_EQ(array.first_byte + 12 * size_of(type), file.size()) << name;
    const auto element = [&](size_t place) {
      return read_element(type,
                          reinterpret_cast<const std::byte*>(file.data()) + array.first_byte + place * size_of(type));
    };
    EXPECT_EQ(element(1), 1.5) << name;
    EXPECT_EQ(element(9), -0.125) << name;
    EXPECT_EQ(element(10), 65504) << name;
  }
}

TEST(Npy, ReadsShapesOfAnyLength) {
  EXPECT_THAT(read_npy(corpus("one_dimension")).shape, ElementsAre(5));
  const NpyArray scalar = read_npy(corpus("scalar"));
  EXPECT_THAT(scalar.shape, IsEmpty());
  EXPECT_EQ(scalar.elements, 1u);
  const NpyArray none = read_npy(corpus("no_elements"));
  EXPECT_THAT(none.shape, ElementsAre(0, 4));
  EXPECT_EQ(none.elements, 0u);
  EXPECT_EQ(read_npy(corpus("huge_zero")).elements, 0u);
  EXPECT_THAT(read_npy(corpus("long_integer")).shape, ElementsAre(1, 2)) << "as Python 2 wrote it";
}

TEST(Npy, RefusesWhatItDoesNotReadAndNamesTheMend) {
  const std::pair<const char*, const char*> files[] = {
      {"big_endian", "astype('<f4')"}, {"fortran", "numpy.ascontiguousarray"}, {"int64", "'<i8'"},
      {"bool", "astype('float32')"},   {"records", "save one of them"},        {"version_9", "version 9.0"}};
  for (const auto& [name, mention] : files) {
    EXPECT_THAT(testing::error_of([&] { read_npy(corpus(name)); }, ErrorCode::unsupported), HasSubstr(mention)) << name;
  }
}

TEST(Npy, RefusesHostileHeaders) {
  const std::pair<const char*, const char*> files[] = {{"empty", "is no .npy file"},
                                                       {"magic_only", "is cut off"},
                                                       {"cut_off", "needs 48 bytes, but 44 follow"},
                                                       {"two_arrays", "needs 48 bytes, but 224 follow"},
                                                       {"cut_off_header", "the file ends before"},
                                                       {"huge_header", "4294967295 bytes long"},
                                                       {"overflow", "more bytes than any file has"},
                                                       {"overflow_to_zero", "more bytes than any file has"},
                                                       {"negative", "whole numbers"},
                                                       {"many_dimensions", "64 dimensions"},
                                                       {"twice", "'descr'"}};
  for (const auto& [name, mention] : files) {
    EXPECT_THAT(testing::error_of([&] { read_npy(corpus(name)); }, ErrorCode::invalid_input), HasSubstr(mention))
        << name;
  }
}

TEST(Npy, RefusesEveryBeginningOfAFile) {
  const std::string file = corpus("float32_v1");
  for (size_t length = 0; length < file.size(); ++length) {
    EXPECT_THROW(read_npy(std::string_view(file).substr(0, length)), Error) << length;
  }
}

}  // namespace
}  // namespace banyan::tensor
