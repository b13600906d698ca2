#include <vector>

#include "banyan/base/check.h"
#include "banyan/tensor/lossless.h"
#include "banyan/testing/fuzz.h"

namespace banyan::tensor {
namespace {

// What decodes is encoded and decoded once more.
const testing::Fuzzer kFuzzer("lossless", "banyan/tensor/corpus/lossless", [](std::string_view input) {
  const std::span<const std::byte> coded(reinterpret_cast<const std::byte*>(input.data()), input.size());
  const LosslessContent content = read_lossless(coded);
  if (content.bytes > size_t{1} << 22) return;
  std::vector<std::byte> elements(content.bytes), again(content.bytes);
  decode_lossless(coded, elements);
  decode_lossless(encode_lossless(elements, {.element_bytes = content.element_bytes}), again);
  CHECK(again == elements) << content.bytes;
});

}  // namespace
}  // namespace banyan::tensor
