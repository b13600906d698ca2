// One message of rows: what a rank sends to an owner, and what an owner sends back.
//
//   bytes  field
//       8  XXH3 digest of all that follows
//       4  magic
//       1  kind
//       1  form of the positions
//       1  code of the values: 0 is float32, else 1 + codec::ValueCode
//       1  0
//       8  step
//       4  tensor
//       4  shard
//       4  width: values of a row
//       4  entries
//       8  bytes of the positions
//          positions, ascending: variable-length gaps, 4 bytes each, or a bitmap of the shard; whatever is shortest
//          values of all rows, one after the other, as float32 or coded in blocks of 256
//
// Numbers are little-endian. A message has exactly the length that its header tells.
//
// *Too many rows.* A rank that has more rows than pays sends `dense` to every owner, without entries. So every rank
// that reads one message from each other rank knows it, and all exchange this tensor densely in this step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/codec/codec.h"
#include "banyan/sparse/row_list.h"

namespace banyan::sparse {

enum class MessageKind : uint8_t { contribution, sum, dense };

inline constexpr size_t kMessageHeaderBytes = 48;

// The facts that sender and receiver of a message know without it.
struct MessageContext {
  MessageKind kind = MessageKind::contribution;  // of a message to be read: `dense` may come instead
  uint64_t step = 0;
  uint32_t tensor = 0;
  uint32_t shard = 0;
  uint32_t width = 1;                                // at least 1
  uint32_t rows = 0;                                 // of the shard
  std::optional<codec::Codec> codec = std::nullopt;  // of the values; none: float32
};

// Bytes of a message of that many entries, at least and at most; and of these positions, exactly.
struct MessageLimits {
  uint64_t least = 0, most = 0;
};
MessageLimits message_limits(const MessageContext& context, uint64_t entries);
size_t message_bytes(const MessageContext& context, std::span<const uint32_t> positions);

// The losses of values in earlier messages, and those in this one: each null, or as many as the values. They may be the
// same. `before` is added to the values first; `lost` gets what the message does not hold. codec.h says what `lost`
// gets where sums are not finite; without a codec it gets `before`, or 0 where `before` is not finite itself.
struct Losses {
  const float* before = nullptr;
  float* lost = nullptr;
};

// Positions in the shard, ascending, and the values of their rows; of kind `dense` there are none. `seed` is for
// stochastic codecs.
std::vector<std::byte> write_row_message(const MessageContext& context, std::span<const uint32_t> positions,
                                         std::span<const float> values, Losses losses = {}, uint64_t seed = 0);
inline std::vector<std::byte> write_row_message(const MessageContext& context, const RowList& list, Losses losses = {},
                                                uint64_t seed = 0) {
  return write_row_message(context, list.rows, list.values, losses, seed);
}

// A message that has been read and found good. It borrows the bytes.
class RowMessage {
 public:
  // Every length, count and position is checked against the context and the bytes before any memory is taken. Throws
  // Error{invalid_input} with `sender` ("rank 3") as the place; Error{mismatch} where a good message is not the one
  // that is due.
  static RowMessage read(std::span<const std::byte> bytes, const MessageContext& context, const std::string& sender);

  MessageKind kind() const { return kind_; }
  uint32_t entries() const { return entries_; }
  uint32_t width() const { return width_; }
  std::vector<uint32_t> positions() const;
  std::vector<float> values() const;  // decoded

 private:
  RowMessage() = default;

  MessageKind kind_ = MessageKind::contribution;
  uint8_t form_ = 0;
  uint32_t entries_ = 0, width_ = 1;
  std::optional<codec::Codec> codec_;
  std::span<const std::byte> positions_, values_;
};

// The sum of messages by row: all rows that one of them has. Each value is that of a dense sum that begins at +0 and
// takes the messages in the order given, bit for bit; give them by rank, and equal messages give equal bits whatever
// came first. No hashing: a bitmap of the shard says where a row of the result is. O(rows / 64 + values). All of them
// have kind `contribution`, this width and this many rows of the shard.
RowList sum_of(std::span<const RowMessage> messages, uint32_t rows, uint32_t width);

}  // namespace banyan::sparse
