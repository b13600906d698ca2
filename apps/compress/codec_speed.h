// The speed at which one core of this machine encodes.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "banyan/tensor/tensor_report.h"

namespace banyan::app {

// Bytes a second that the coders read: first lossless coding, of the elements as they are, then each of
// tensor::every_codec(), of float32, both the best of five rounds; then coding at each of these rates, of float32,
// measured once. The values of the tensor are repeated up to 64 MiB, so that codes are measured from memory and not
// from the cache; at a rate the first 4 MiB of them are taken. `progress` receives the part that is done.
std::vector<double> measure_encoding(const tensor::Tensor& tensor, std::span<const double> bits,
                                     const std::function<void(double)>& progress);

}  // namespace banyan::app
