// Tensors in .safetensors files, as Hugging Face's library writes them: what the header says, checked, and where the
// elements of each tensor begin.
//
// The format: the length of the header (8 bytes, little-endian), the header, which is a JSON object, then the elements.
// The header has a member a tensor, {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]}, whose offsets count
// from the end of the header, and perhaps "__metadata__", which is passed over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/element/data_type.h"

namespace banyan::tensor {

struct SafeTensor {
  std::string name, written_type;              // "BF16"
  std::optional<element::DataType> type = {};  // nothing: one that we do not have, such as F8_E4M3 or BOOL
  std::vector<uint64_t> shape = {};            // empty: one element
  size_t elements = 0;
  size_t first_byte = 0, bytes = 0;  // in the file
};

// True if it begins as such files do: a length that could be a header's, and a '{'.
bool is_safetensors(std::string_view file);

// `file` is all of it. Tensors in the order of the header. Nothing is believed before it is checked: every tensor lies
// within the file, and is as long as its shape and type say. Takes about as much memory as the header, which is
// 100 MB at most; O(header). Throws Error{invalid_input} that names the tensor and the mend.
std::vector<SafeTensor> read_safetensors(std::string_view file);

}  // namespace banyan::tensor
