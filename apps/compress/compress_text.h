// The findings of `banyan compress` as text, as JSON and as a picture.
#pragma once

#include <string>
#include <vector>

#include "apps/terminal.h"
#include "banyan/tensor/tensor_report.h"

namespace banyan::app {

struct CompressAnswer {
  std::string file;
  std::string tensor = {};  // its name in the file; empty: it has none
  element::DataType type = element::DataType::float32;
  std::vector<uint64_t> shape = {};
  size_t row_elements = 1;
  uint32_t ranks = 8;
  tensor::TensorReport report = {};
  std::vector<double> rates = {};  // measured, of each codec in the report's order; or none
};

std::string error_text(double error);  // "1.21e-02"
std::string format_compress_text(const CompressAnswer& answer, const Terminal& terminal);
std::string format_compress_json(const CompressAnswer& answer);
// Bytes and errors of each codec as bars, both logarithmic. The same for the same report.
std::string draw_compress(const CompressAnswer& answer);

}  // namespace banyan::app
