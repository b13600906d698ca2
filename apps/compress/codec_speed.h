// How fast this machine encodes, on one core.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "banyan/sparse/tensor_report.h"

namespace banyan::app {

// Bytes a second that lossless coding takes in of the elements as they are, then those of float32 that each of
// sparse::every_codec() does, the best of five rounds, and then those of coding once at each of these rates. The values
// of the tensor are repeated up to 64 MiB, so that codes are measured from memory and not from the cache; at a rate the
// first 4 MiB of them are taken. `progress` hears of the part that is done.
std::vector<double> measure_encoding(const sparse::Tensor& tensor, std::span<const double> bits,
                                     const std::function<void(double)>& progress);

}  // namespace banyan::app
