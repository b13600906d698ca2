// Messages that engines send each other. All numbers are in the byte order of x86-64; both ends of a connection have
// the same.
//
// The first message of an operation on a channel, in each direction, is an opening; then come slices and credits. A
// header stands before every message and says how many bytes of body follow; credits have none. The bytes of a slice
// are its elements, or what a codec made of them (slice_codec.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace banyan::run {

enum class MessageKind : uint32_t {
  opening = 0x326e'7962,  // "byn2", the 2 being the version; `number` is the sequence, the body is the signature
  first_slice,            // `number` is how many elements the stream carries in all
  slice,                  // `number` says which
  credit,                 // `number` is how many slices of the stream may have been sent
};

struct MessageHeader {
  uint32_t stream = 0;  // of the pair; that which a credit is for runs the other way
  MessageKind kind = MessageKind::opening;
  uint64_t number = 0;
  uint64_t length = 0;  // of the body, in bytes
};
static_assert(sizeof(MessageHeader) == 24);

struct Opening {
  MessageHeader header;
  std::array<uint64_t, 4> signature{};
};
static_assert(sizeof(Opening) == 56);

}  // namespace banyan::run
