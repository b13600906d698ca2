// The time that an operator takes on a device: a few kernels, each a matrix product or a pass over memory.
//
// A matrix product C[m,n] += A[m,k] B[k,n] is computed in tiles of C, dealt out to the multiprocessors in waves; the
// last wave takes as long as a full one (tile and wave quantisation: NVIDIA, "Matrix Multiplication Background User's
// Guide", DU-09799, chapter 3). Smaller tiles fill the waves better and multiply slower; the best is taken, as the
// libraries' heuristics do. Each tile costs 2 * tile * (k + fill) at the multiprocessor's share of the peak rate times
// the device's efficiency; the whole takes at least as long as reading A and B and writing C once (roofline). Rows of
// C, A or B that are not a multiple of 16 bytes are loaded in smaller pieces: speed falls by `unaligned` for an odd
// number of elements and by a third and two thirds of that (on a log scale) for multiples of 4 and of 2 (same guide,
// section 2.2).
//
// An elementwise kernel takes as long as its bytes take at the memory's bandwidth times the device's efficiency.
//
// Kernels follow one another with a gap. The host launches them one after the other and runs ahead; an operator takes
// as long as the slower of both, which is how small operators come to take what their launches take.
//
// Values; pure functions; times are deterministic.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/predict/cost/devices.h"

namespace banyan::predict {

struct MatrixProduct {
  uint64_t m = 0, n = 0, k = 0;
  uint64_t batch = 1;  // so many of them at once
  double flop() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(batch);
  }
};

class Operator {
 public:
  void add(const MatrixProduct& product) { products_.push_back(product); }
  // Kernels that read and write so many bytes together.
  void add_memory(double bytes, uint32_t kernels = 1) {
    bytes_ += bytes;
    memory_kernels_ += kernels;
  }
  void add(const Operator& other);

  std::span<const MatrixProduct> products() const { return products_; }
  double memory_bytes() const { return bytes_; }
  uint32_t kernels() const { return memory_kernels_ + static_cast<uint32_t>(products_.size()); }
  double flop() const;  // of matrix products: what the literature counts

 private:
  std::vector<MatrixProduct> products_;
  double bytes_ = 0;
  uint32_t memory_kernels_ = 0;
};

struct OperatorTime {
  double device = 0, host = 0;  // seconds
  double gaps = 0;              // of device: between kernels
  double seconds() const { return device > host ? device : host; }
  // The seconds that a device of twice the speed does not shorten: gaps, and what the host's launches then take longer.
  double fixed() const;
  bool launch_bound() const { return host > device; }
};

// Throws Error{unsupported} when the device has no rate for the precision.
double product_seconds(const MatrixProduct& product, const Device& device, Precision precision);
OperatorTime operator_time(const Operator& work, const Device& device, Precision precision);

// Rounded to the nearest picosecond. Throws Error{unsupported} above 2^62 ps.
Picoseconds to_picoseconds(double seconds);

}  // namespace banyan::predict
