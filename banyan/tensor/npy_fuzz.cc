#include "banyan/base/check.h"
#include "banyan/tensor/npy.h"
#include "banyan/testing/fuzz.h"

namespace banyan::tensor {
namespace {

// What is read lies within the file, to its last byte.
const testing::Fuzzer kFuzzer("npy", "banyan/tensor/corpus/npy", [](std::string_view input) {
  const NpyArray array = read_npy(input);
  CHECK(array.first_byte <= input.size() && array.shape.size() <= 64) << array.first_byte << " " << input.size();
  CHECK_EQ(array.elements * size_of(array.type), input.size() - array.first_byte);
  size_t elements = 1;
  for (const uint64_t each : array.shape) elements *= each;
  CHECK_EQ(elements, array.elements);
});

}  // namespace
}  // namespace banyan::tensor
