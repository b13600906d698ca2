// .npy and .safetensors files in as many bits a value as are wanted, and back (tensor/packed.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace banyan::app {

struct PackedSummary {
  std::string kind;    // ".npy" or ".safetensors"
  size_t tensors = 0;  // that have elements
  size_t coded = 0;    // of these, at the rate
  uint64_t bytes = 0;  // of the file
  uint64_t packed_bytes = 0;
  double bits = 0;          // of a value that is coded at the rate; 0: none is
  double error = 0;         // of these, root mean square, relative to that of the values
  uint64_t not_finite = 0;  // of these, which come back as NaN
};

struct PackedFile {
  PackedSummary summary;
  std::string contents;
};

// Packs a file of at most 2 GiB: codes the array of a .npy file, and each tensor of float16, bfloat16, float32 or
// float64 with at least two dimensions in a .safetensors file. Vectors, such as biases, are few values, to which models
// are sensitive. All else is kept exactly, and so are tensors that the rate would not make shorter. `progress` receives
// the part that is done. Throws Error that names the file and the mend.
PackedFile pack_file(const std::string& path, double bits, const std::function<void(double)>& progress);
// The file that was packed, bit for bit but for the coded values; `error`, `bits` and `not_finite` are 0.
PackedFile unpack_file(const std::string& path);

}  // namespace banyan::app
