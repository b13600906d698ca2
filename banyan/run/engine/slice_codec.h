// SliceCodec: how the slices of an execution are written in fewer bytes on the wire.
//
// Plain, a slice is its elements. With a codec, contributions are encoded just before they leave, and decoded before
// they are reduced. A result is encoded once, by the root of its tree, and goes down the tree as it is, so that all
// ranks decode the same bytes; the root itself, too, puts what it decodes into its output. So they end with the same
// bits, whatever the codec loses.
//
// A rank may keep what its encoding loses at an element that it contributes to, and add it the next time (error
// feedback): an execution with a residual adds it to the contributions, and tells what was lost there (command.h).
//
// Memory: a sender holds one encoded contribution for each channel, a receiver one slice that arrives there. A root
// holds a window of encoded results for each tree; a rank that passes results on holds those that have not been sent to
// all.
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

  // True if decoded elements may differ from those that were encoded.
  virtual bool is_lossy() const { return false; }
  // Slices begin at a multiple of so many elements of their chunk.
  virtual uint64_t block_elements() const { return 1; }
  // The most bytes that a slice of so many elements may need. The same on all ranks: more is refused by receivers.
  virtual size_t most_bytes(element::DataType type, size_t elements) const = 0;

  struct Slice {
    element::DataType type = element::DataType::float32;
    std::span<const std::byte> plain = {};
    // For a lossy codec: `residual` is added to the elements before they are encoded, and the loss of the sum goes to
    // `lost`; null: neither.
    const std::byte* residual = nullptr;
    std::byte* lost = nullptr;
    // The beginning of the chunk in this rank's input, in elements, and that of the slice in the chunk: a multiple of
    // block_elements().
    uint64_t chunk_at = 0, begin = 0;
  };
  // Writes the slice into `coded`, which has most_bytes(); returns how many bytes it took, which may be none.
  virtual size_t encode(const Slice& slice, std::span<std::byte> coded) = 0;
  // The reverse; fills all of `plain`. A lossy codec multiplies the decoded elements by `factor`, which is 1 for
  // others. Throws Error for bytes that encode() does not make, since a peer may send any.
  virtual void decode(element::DataType type, std::span<const std::byte> coded, std::span<std::byte> plain,
                      float factor) = 0;
};

}  // namespace banyan::run
