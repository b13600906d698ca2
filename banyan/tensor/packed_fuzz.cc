#include <cstring>
#include <string>

#include "banyan/base/check.h"
#include "banyan/tensor/packed.h"
#include "banyan/testing/fuzz.h"

namespace banyan::tensor {
namespace {

// With the checksum that fits, so that what is behind it is read, too.
const testing::Fuzzer kFuzzer("packed", "banyan/tensor/corpus/packed", [](std::string_view input) {
  std::string file(input);
  if (file.size() >= sizeof(uint64_t)) {
    const size_t summed = file.size() - sizeof(uint64_t);
    const uint64_t checksum = packed_checksum(std::string_view(file).substr(0, summed));
    std::memcpy(file.data() + summed, &checksum, sizeof checksum);
  }
  const PackedContent content = read_packed(file);
  if (content.bytes > uint64_t{1} << 22) return;
  CHECK_EQ(unpack(content).size(), content.bytes);
});

}  // namespace
}  // namespace banyan::tensor
