// Slices in a fixed-rate codec, as the engine sends them. For NetExecutor.
#pragma once

#include "banyan/codec/codec.h"
#include "banyan/run/engine/slice_codec.h"

namespace banyan::run {

class CodedSlices : public SliceCodec {
 public:
  // `seed` of stochastic rounding: another one for each rank and call; the same when a call is repeated.
  CodedSlices(const codec::Codec& codec, uint64_t seed) : codec_(codec), seed_(seed) {}

  bool is_lossy() const override { return true; }
  uint64_t block_elements() const override { return codec::kBlockValues; }
  size_t most_bytes(element::DataType, size_t elements) const override { return coded_bytes(codec_, elements); }
  size_t encode(const Slice& slice, std::span<std::byte> coded) override;
  // Throws Error{mismatch} for another length than the elements have.
  void decode(element::DataType type, std::span<const std::byte> coded, std::span<std::byte> plain,
              float factor) override;

 private:
  const codec::Codec codec_;
  const uint64_t seed_;
};

}  // namespace banyan::run
