#include "banyan/base/check.h"
#include "banyan/tensor/safetensors.h"
#include "banyan/testing/fuzz.h"

namespace banyan::tensor {
namespace {

// What is read lies within the file, and is as long as its shape says.
const testing::Fuzzer kFuzzer("safetensors", "banyan/tensor/corpus/safetensors", [](std::string_view input) {
  for (const SafeTensor& tensor : read_safetensors(input)) {
    CHECK(tensor.first_byte <= input.size() && tensor.bytes <= input.size() - tensor.first_byte) << tensor.name;
    if (tensor.type) CHECK_EQ(tensor.elements * size_of(*tensor.type), tensor.bytes);
  }
});

}  // namespace
}  // namespace banyan::tensor
