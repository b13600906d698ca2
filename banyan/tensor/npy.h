// Tensors in .npy files, as numpy.save writes them: what the header says, checked, and where the elements begin.
//
// The format is that of numpy.lib.format, versions 1.0, 2.0 and 3.0: "\x93NUMPY", a byte for the major version and one
// for the minor, the length of the header (2 bytes, little-endian; 4 since version 2), the header, which is a
// dictionary as Python prints it, with 'descr', 'fortran_order' and 'shape'; then the elements.
//
// Read are float16, float32 and float64, little-endian, in C order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "banyan/element/data_type.h"

namespace banyan::tensor {

struct NpyArray {
  element::DataType type = element::DataType::float32;
  std::vector<uint64_t> shape;  // empty: one element
  size_t elements = 0;
  size_t first_byte = 0;  // of the elements, which reach to the end of the file
};

// True if it begins as .npy files do.
bool is_npy(std::string_view file);

// `file` is all of it. Nothing is believed before it is checked: the length of the header and the shape against the
// length of the file. Takes memory for at most 64 dimensions; O(header). Throws Error{invalid_input}, or
// Error{unsupported} for what numpy may write and we do not read; both name the mend.
NpyArray read_npy(std::string_view file);

}  // namespace banyan::tensor
