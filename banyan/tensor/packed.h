// Packed files: the tensors of a .npy or .safetensors file in as many bits a value as are wanted, and what is not to
// be changed as it is. docs/formats/packed.md has the form.
//
//   "BNPACK1\n", uint64 length, the original's bytes before its first element; then of each tensor, in their order:
//   uint8 packing, uint8 type, uint64 length, bytes; then uint8 255, and uint64 the FNV-1a of all bytes before
//
// All numbers are little-endian. Unpacking gives the first bytes and then the elements of each tensor, so nothing here
// knows of headers: a .npy file comes back as one, with the type that it had.
//
// All functions may be called from any thread; memory and time are O(bytes) and those of the coders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/element/data_type.h"

namespace banyan::tensor {

enum class Packing : uint8_t { as_it_is = 0, lossless = 1, at_rate = 2 };

class PackedWriter {
 public:
  // `before`: all that comes before the first element.
  explicit PackedWriter(std::string_view before);

  // Elements of any size, which come back as they are; in fewer bytes where there are any to save.
  void add(std::span<const std::byte> elements, size_t element_bytes);
  // Floats in so many bits a value at most (rate_coder.h), or as they are where that is no longer. At least one.
  struct AtRate {
    element::DataType type = element::DataType::float32;
    double bits = 4;
    size_t row_elements = 1;  // divides their number
  };
  Packing add_at_rate(std::span<const std::byte> elements, const AtRate& options);

  std::string finish() &&;

 private:
  void add_part(Packing packing, uint8_t type, std::span<const std::byte> bytes);

  std::vector<std::byte> file_;
};

// The contents of a file from a stranger.
struct PackedPart {
  Packing packing = Packing::as_it_is;
  element::DataType type = element::DataType::float32;  // of values at a rate
  size_t bytes = 0;                                     // unpacked
  std::span<const std::byte> coded;                     // in the file
};
struct PackedContent {
  std::string_view before;
  std::vector<PackedPart> parts;
  uint64_t bytes = 0;  // unpacked, of all
};

bool is_packed(std::string_view file);
// `file` is all of it, and outlives what is returned. Its checksum and all lengths are checked, and no memory is taken
// for what they announce. Throws Error{invalid_input} that says what is wrong, or Error{unsupported} for a file of a
// later version, or one of more than 4 GiB unpacked.
PackedContent read_packed(std::string_view file);
// Throws Error{invalid_input} for bytes that no coder has written.
std::string unpack(const PackedContent& content);

// The checksum of a file: `bytes` are all of it but the last 8.
uint64_t packed_checksum(std::string_view bytes);

}  // namespace banyan::tensor
