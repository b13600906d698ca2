// What the tests of the kernels share: a reference that shares nothing with them, random elements, fixtures that run a
// test with the kernels of each instruction set.
#pragma once

#include "banyan/element/isa.h"
#include "banyan/element/reduce.h"
#include "banyan/testing/test.h"

namespace banyan::element {

// ---- The reference: one element at a time, 16-bit floats by their definition ----

struct Format {
  int exponent_bits, fraction_bits;
};
constexpr Format kHalf = {5, 10}, kBrain = {8, 7};
inline Format format_of(DataType type) { return type == DataType::float16 ? kHalf : kBrain; }
double decode(Format format, uint32_t bits);
uint32_t encode(Format format, double value);

// Reduces one element.
void reference(const ReduceTask& task, std::byte* result, const std::vector<const std::byte*>& sources);

// ---- Elements ----

constexpr DataType kTypes[] = {DataType::int8,    DataType::int16,    DataType::int32,   DataType::int64,
                               DataType::uint8,   DataType::uint16,   DataType::uint32,  DataType::uint64,
                               DataType::float16, DataType::bfloat16, DataType::float32, DataType::float64};
std::vector<ReduceOp> ops_of(DataType type);
// Any bits; of floats, one in four is a value that is treated specially somewhere.
std::vector<std::byte> random_elements(DataType type, size_t count, std::mt19937_64& random);
std::string name_of(const ReduceTask& task);

// ---- Fixtures ----

// Runs with the kernels of one instruction set, and is skipped, with a word, where the machine lacks it.
class WithIsa : public ::testing::Test {
 protected:
  void use_or_skip(Isa isa);
  void TearDown() override {
    if (before_) use_isa(*before_);
  }

 private:
  std::optional<Isa> before_;
};

class Kernels : public WithIsa, public ::testing::WithParamInterface<Isa> {
 protected:
  void SetUp() override { use_or_skip(GetParam()); }
};

}  // namespace banyan::element
