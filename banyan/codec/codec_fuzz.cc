#include <cmath>
#include <cstring>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/codec/codec.h"
#include "banyan/element/isa.h"
#include "banyan/testing/fuzz.h"

namespace banyan::codec {
namespace {

bool are_same_bits(const std::vector<float>& some, const std::vector<float>& others) {
  return some.empty() || std::memcmp(some.data(), others.data(), some.size() * sizeof(float)) == 0;
}

// The first byte names the codec, the second says how many values of the last block are missing; the others are blocks,
// of which nothing is left over. Copied, so that a byte beyond them is one that nobody owns.
void decode_any(std::string_view input) {
  if (input.size() < 2) return;
  const Codec codec = {.code = static_cast<ValueCode>(static_cast<uint8_t>(input[0]) % kValueCodes)};
  const size_t blocks = (input.size() - 2) / traits_of(codec).block_bytes;
  const size_t missing = static_cast<uint8_t>(input[1]), values = blocks * kBlockValues;
  const size_t count = blocks == 0 ? 0 : values - missing;
  std::vector<std::byte> coded(coded_bytes(codec, count));
  if (!coded.empty()) std::memcpy(coded.data(), input.data() + 2, coded.size());

  const element::Isa before = element::active_isa();
  std::vector<float> first, first_lost;
  std::vector<std::byte> first_again;
  for (const element::Isa isa : element::available_isas()) {
    element::use_isa(isa);
    std::vector<float> decoded(count), sums(count), lost(count);
    decode(codec, coded.data(), decoded.data(), count);
    decode_add(codec, coded.data(), sums.data(), count, -0.5f);
    std::vector<std::byte> again(coded.size());
    encode({.codec = codec, .values = decoded.data(), .lost = lost.data(), .count = count}, again.data());
    for (size_t i = 0; i < count; ++i) {
      CHECK(sums[i] == decoded[i] * -0.5f || std::isnan(decoded[i])) << i;
      CHECK(std::isfinite(lost[i])) << i;
    }
    if (isa == element::Isa::portable) first = decoded, first_lost = lost, first_again = again;
    CHECK(are_same_bits(decoded, first) && are_same_bits(lost, first_lost) && again == first_again)
        << element::to_string(isa) << " differs";
  }
  element::use_isa(before);
}

const testing::Fuzzer kFuzzer("codec", "banyan/codec/corpus/codec", decode_any);

}  // namespace
}  // namespace banyan::codec
