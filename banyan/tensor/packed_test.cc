#include "banyan/tensor/packed.h"

#include <limits>

#include "banyan/base/file.h"
#include "banyan/tensor/float_values.h"
#include "banyan/testing/test.h"

namespace banyan::tensor {
namespace {

using element::DataType;

constexpr DataType kFloats[] = {DataType::float16, DataType::bfloat16, DataType::float32, DataType::float64};

// Of rows with scales of their own.
std::vector<std::byte> matrix(DataType type, size_t rows, size_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values;
  for (size_t i = 0; i < rows * columns; ++i)
    values.push_back(normal(random) * static_cast<float>(1 + i / columns % 3));
  std::vector<std::byte> elements(values.size() * size_of(type));
  write_floats(type, values, elements);
  return elements;
}

std::vector<float> values_of(DataType type, std::span<const std::byte> elements) {
  std::vector<float> values(elements.size() / size_of(type));
  read_floats(type, elements, values);
  return values;
}

double relative_error(std::span<const float> values, std::span<const float> others) {
  double squares = 0, energy = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    squares += std::pow(double{values[i]} - double{others[i]}, 2);
    energy += std::pow(double{values[i]}, 2);
  }
  return std::sqrt(squares / energy);
}

std::string unpacked(std::string_view file) { return unpack(read_packed(file)); }

// The same with a checksum that fits.
std::string summed(std::string file) {
  file.resize(file.size() - sizeof(uint64_t));
  const uint64_t checksum = packed_checksum(file);
  return file.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
}

std::string refusal_of(std::string_view file) {
  try {
    unpacked(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Packed, FloatsComeBackInTheirTypeInAsManyBitsAsWereAsked) {
  for (const DataType type : kFloats) {
    const std::vector<std::byte> elements = matrix(type, 128, 64, 1);
    PackedWriter writer("the header");
    EXPECT_EQ(writer.add_at_rate(elements, {.type = type, .bits = 5, .row_elements = 64}), Packing::at_rate);
    const std::string file = std::move(writer).finish();
    EXPECT_LE(file.size(), 128 * 64 * 5 / 8 + 8 + 8 + 10 + 10 + 1 + 8) << "the form's own bytes";
    const PackedContent content = read_packed(file);
    EXPECT_EQ(content.before, "the header");
    ASSERT_EQ(content.parts.size(), 1u);
    EXPECT_EQ(content.parts[0].type, type);
    EXPECT_EQ(content.parts[0].bytes, elements.size());
    const std::string back = unpack(content);
    EXPECT_EQ(content.bytes, back.size());
    EXPECT_EQ(back.substr(0, 10), "the header");
    const auto decoded = values_of(type, std::as_bytes(std::span(back)).subspan(10));
    const double error = relative_error(values_of(type, elements), decoded);
    EXPECT_GT(error, 0.01) << to_string(type);
    EXPECT_LT(error, 0.05) << to_string(type);
  }
}

TEST(Packed, WhatIsAddedAsItIsComesBackSo) {
  const std::vector<std::byte> floats = matrix(DataType::float32, 40, 3, 2), bytes(floats.begin(), floats.begin() + 77);
  const std::vector<std::byte> zeros(size_t{1} << 16);
  PackedWriter writer("");
  writer.add(floats, 4);
  writer.add(bytes, 1);
  writer.add({}, 8);
  writer.add(zeros, 8);
  const std::string file = std::move(writer).finish();
  EXPECT_LT(file.size(), floats.size() + bytes.size() + 400) << "zeros take next to nothing";
  std::string expected;
  for (const auto* each : {&floats, &bytes, &zeros}) {
    expected.append(reinterpret_cast<const char*>(each->data()), each->size());
  }
  EXPECT_EQ(unpacked(file), expected);
  EXPECT_EQ(read_packed(file).parts.size(), 4u);
}

TEST(Packed, WhatTheRateWouldNotMakeShorterIsKeptExactly) {
  const std::vector<std::byte> few = matrix(DataType::float32, 1, 3, 3);
  const std::vector<std::byte> zeros(4000);
  PackedWriter writer("");
  EXPECT_EQ(writer.add_at_rate(few, {.bits = 4, .row_elements = 3}), Packing::as_it_is);
  const Packing of_zeros = writer.add_at_rate(zeros, {.bits = 24, .row_elements = 10});
  EXPECT_NE(of_zeros, Packing::as_it_is);
  const std::string back = unpacked(std::move(writer).finish());
  EXPECT_EQ(std::memcmp(back.data(), few.data(), few.size()), 0);
  EXPECT_EQ(back.substr(few.size()), std::string(4000, '\0'));
}

TEST(Packed, WhatIsNotFiniteIsNaN) {
  std::vector<float> values = values_of(DataType::float32, matrix(DataType::float32, 64, 8, 4));
  values[100] = std::numeric_limits<float>::infinity();
  PackedWriter writer("x");
  writer.add_at_rate(std::as_bytes(std::span(values)), {.bits = 6, .row_elements = 8});
  const std::string back = unpacked(std::move(writer).finish());
  const auto decoded = values_of(DataType::float32, std::as_bytes(std::span(back)).subspan(1));
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(std::isnan(decoded[i]), i == 100) << i;
}

TEST(Packed, TheChecksumIsThatOfTheDocument) {
  EXPECT_EQ(packed_checksum(""), 0xcbf29ce484222325u);  // the test values of FNV-1a's authors
  EXPECT_EQ(packed_checksum("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(packed_checksum("foobar"), 0x85944171f73967e8u);
}

std::string sample() {
  PackedWriter writer("header");
  writer.add_at_rate(matrix(DataType::float32, 32, 16, 5), {.bits = 4, .row_elements = 16});
  writer.add(matrix(DataType::float32, 1, 5, 6), 4);
  return std::move(writer).finish();
}

TEST(Packed, RefusesEveryChangedByteAndEveryCut) {
  const std::string file = sample();
  for (size_t i = 0; i < file.size(); ++i) {
    std::string changed = file;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    EXPECT_NE(refusal_of(changed), "") << i;
    EXPECT_NE(refusal_of(file.substr(0, i)), "") << i;
  }
  EXPECT_NE(refusal_of(file + "x"), "");
}

TEST(Packed, SaysWhatIsWrong) {
  const std::string file = sample();
  const auto changed = [&](size_t place, const std::string& bytes) {
    std::string other = file;
    return summed(other.replace(place, bytes.size(), bytes));
  };
  const auto number = [](uint64_t value) { return std::string(reinterpret_cast<const char*>(&value), sizeof value); };
  constexpr size_t kPart = 8 + 8 + 6, kCoded = kPart + 10;
  EXPECT_EQ(refusal_of(changed(kPart + 1, "\x02")), "") << "this changes nothing";
  EXPECT_THAT(refusal_of("no such"), HasSubstr("is no packed file, as banyan compress --bits writes them"));
  EXPECT_THAT(refusal_of(""), HasSubstr("is no packed file"));
  EXPECT_THAT(refusal_of("BNPACK1"), HasSubstr("ends in the middle of its first word"));
  EXPECT_THAT(refusal_of("BNPACK2\n" + file.substr(8)), HasSubstr("of another version than 1"));
  EXPECT_THAT(refusal_of(file.substr(0, file.size() - 9) + "12345678"), HasSubstr("its checksum is that of other"));
  EXPECT_THAT(refusal_of(changed(8, number(1 << 20))), HasSubstr("the beginning wants 1048576 bytes, and "));
  EXPECT_THAT(refusal_of(changed(kPart, "\x03")), HasSubstr("tensor 1 of packing 3, which is none"));
  EXPECT_THAT(refusal_of(changed(kPart + 1, "\x04")), HasSubstr("tensor 1 of type 4, which is none"));
  EXPECT_THAT(refusal_of(changed(kPart + 2, number(1 << 20))), HasSubstr("tensor 1 wants 1048576 bytes, and "));
  EXPECT_THAT(refusal_of(changed(kCoded, "X")), HasSubstr("begin with 'BNR1'"));
  EXPECT_THAT(refusal_of(changed(kCoded + 4, number(uint64_t{16} << 40))), HasSubstr("bytes, which cannot be"));
  EXPECT_THAT(refusal_of(changed(file.size() - 9, std::string(1, '\0'))), HasSubstr("ends in the middle"));
  EXPECT_THAT(refusal_of(summed(file + "x")), HasSubstr("goes on behind its end"));
}

// The corpus begins with what the writer makes today: files of before are read as they were.
TEST(Packed, ReadsAFileOfBefore) {
  const std::string file = read_file(BANYAN_SOURCE_DIR "/banyan/tensor/corpus/packed/three_tensors");
  const PackedContent content = read_packed(file);
  ASSERT_EQ(content.parts.size(), 3u);
  EXPECT_EQ(content.parts[0].packing, Packing::at_rate);
  EXPECT_EQ(content.parts[1].packing, Packing::lossless);
  EXPECT_EQ(content.parts[2].packing, Packing::as_it_is);
  EXPECT_EQ(packed_checksum(unpack(content)), 0x655fe593cea788dfu);
}

}  // namespace
}  // namespace banyan::tensor
