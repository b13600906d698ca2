#include <vector>

#include "banyan/tensor/rate_coder.h"
#include "banyan/testing/fuzz.h"

namespace banyan::tensor {
namespace {

const testing::Fuzzer kFuzzer("rate_coder", "banyan/tensor/corpus/rate_coder", [](std::string_view input) {
  const std::span<const std::byte> coded(reinterpret_cast<const std::byte*>(input.data()), input.size());
  const RateContent content = read_at_rate(coded);
  if (content.elements > size_t{1} << 20) return;
  std::vector<float> values(content.elements);
  decode_at_rate(coded, values);
});

}  // namespace
}  // namespace banyan::tensor
