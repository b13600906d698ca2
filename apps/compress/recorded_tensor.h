// A file that holds a tensor: a .npy file, a .safetensors file of which one is named, or elements without a header
// whose type the user says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/tensor/tensor_report.h"

namespace banyan::app {

struct TensorOptions {
  std::optional<element::DataType> type = std::nullopt;  // of a file without a header
  std::string name = {};                                 // --tensor, of a .safetensors file; empty: its only one
  std::string row_elements;                              // --row; empty: the last of at least two dimensions, or 1
};

class RecordedTensor {
 public:
  // Throws Error that names the file, or the option, and the mend. At most 2 GiB.
  static RecordedTensor load(const std::string& path, const TensorOptions& options);

  // Valid as long as this object lives and stays where it is.
  tensor::Tensor tensor() const;
  const std::vector<uint64_t>& shape() const { return shape_; }
  const std::string& name() const { return name_; }  // empty: the file has no names

 private:
  std::string contents_;
  std::string name_;
  size_t first_byte_ = 0, bytes_ = 0;
  element::DataType type_ = element::DataType::float32;
  std::vector<uint64_t> shape_;
  size_t row_elements_ = 1;
};

// "float16, bfloat16, float32, float64".
std::vector<std::string> float_types();
// Throws Error{invalid_input} for other types.
element::DataType parse_float_type(const std::string& text);

}  // namespace banyan::app
