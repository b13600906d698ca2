// Elements in fewer bytes, without any loss, for slow paths and files: byte planes, each compressed by zstd.
//
// The bytes of one place in many floats, such as those of the exponents, resemble each other much more than the bytes
// of one float do. So elements are taken in pieces of 2^18, whose first bytes stand together, then whose second ones;
// each such plane is compressed, or copied where that is not smaller. Gradients in bfloat16 shrink to about 0.7, in
// float32 to 0.85; a core encodes 0.5 to 0.9 GB/s and decodes 2.5 to 4. That pays on paths below some 2 Gb/s.
//
//   "BNZ1", uint32 bytes of an element, uint64 elements; then of each piece, of each plane: uint32 length, bytes
//
// All numbers are little-endian. A plane as long as it has elements is a copy. There is no checksum: whoever stores or
// sends coded bytes has one, and damage that fits the lengths may decode to other values.
//
// All functions may be called from any thread; they take memory for one piece, and O(bytes).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace banyan::tensor {

// `elements` are whole elements of 2, 4 or 8 bytes; `level` is zstd's, 1 to 19. The result is at most
// most_lossless_bytes() long. Throws std::bad_alloc only.
struct LosslessOptions {
  size_t element_bytes = 4;
  int level = 1;
};
std::vector<std::byte> encode_lossless(std::span<const std::byte> elements, const LosslessOptions& options);
size_t most_lossless_bytes(size_t bytes, size_t element_bytes);

// The contents of coded bytes from a stranger. All lengths are checked against each other and against the end of
// `coded`, and no memory is taken: ask before you take any for decode_lossless(), and compare with what you expect,
// since few bytes may stand for many. Throws Error{invalid_input} that says where the bytes are wrong.
struct LosslessContent {
  size_t element_bytes = 0;
  size_t bytes = 0;  // of all elements
};
LosslessContent read_lossless(std::span<const std::byte> coded);

// `elements` is as long as read_lossless() says (another length is our own bug). Throws as that does; then `elements`
// holds anything.
void decode_lossless(std::span<const std::byte> coded, std::span<std::byte> elements);

}  // namespace banyan::tensor
