#include "banyan/run/execute/coded_slices.h"

#include <string>

#include "banyan/base/error.h"
#include "banyan/base/hash.h"

namespace banyan::run {

size_t CodedSlices::encode(const Slice& slice, std::span<std::byte> coded) {
  const size_t count = slice.plain.size() / sizeof(float);
  codec::encode({.codec = codec_,
                 .values = reinterpret_cast<const float*>(slice.plain.data()),
                 .residual = reinterpret_cast<const float*>(slice.residual),
                 .lost = reinterpret_cast<float*>(slice.lost),
                 .count = count,
                 .randomness = {.seed = mix(seed_ + slice.chunk_at), .first = slice.begin}},
                coded.data());
  return coded_bytes(codec_, count);
}

void CodedSlices::decode(element::DataType, std::span<const std::byte> coded, std::span<std::byte> plain,
                         float factor) {
  const size_t count = plain.size() / sizeof(float), bytes = coded_bytes(codec_, count);
  if (coded.size() != bytes) {
    throw Error(ErrorCode::mismatch, "a slice of " + std::to_string(count) + " values in " + to_string(codec_) +
                                         " has " + std::to_string(coded.size()) + " bytes, not " +
                                         std::to_string(bytes));
  }
  codec::decode(codec_, coded.data(), reinterpret_cast<float*>(plain.data()), count, factor);
}

}  // namespace banyan::run
