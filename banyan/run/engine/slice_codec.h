// SliceCodec: how the slices of an execution are written in fewer bytes on the wire.
//
// Plain, a slice is its elements. With a codec, its sender encodes it just before it leaves, and its receiver decodes
// it before anything else happens to it: contributions are decoded before they are reduced, and a rank that passes a
// slice on encodes it anew. So all ranks end with equal values only if what decode() gives is encoded and decoded again
// without a change; codecs that lose nothing are such, and roundings to fewer bits are.
//
// Memory: a sender holds one encoded slice for each channel, a receiver one that arrives there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "banyan/element/data_type.h"

namespace banyan::run {

class SliceCodec {
 public:
  SliceCodec() = default;
  SliceCodec(const SliceCodec&) = delete;
  SliceCodec& operator=(const SliceCodec&) = delete;
  virtual ~SliceCodec() = default;

  // The most bytes that a slice of so many elements may need. The same on all ranks: more is refused by receivers.
  virtual size_t most_bytes(element::DataType type, size_t elements) const = 0;
  // Writes the slice into `coded`, which has most_bytes(); returns how many bytes it took, which may be none.
  virtual size_t encode(element::DataType type, std::span<const std::byte> plain, std::span<std::byte> coded) = 0;
  // The other way; fills all of `plain`. Throws Error for bytes that encode() does not make, since a peer may send any.
  virtual void decode(element::DataType type, std::span<const std::byte> coded, std::span<std::byte> plain) = 0;
};

}  // namespace banyan::run
