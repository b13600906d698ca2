// A recorded tensor and what codes would do to it: how much of it is zero and where, how far its values lie apart, and
// for each codec the bytes it takes and what it loses.
//
// Pure: equal input, equal report. Elements are taken as float32, as codecs take them: float64 is rounded, and infinite
// beyond the range of float32. Values that are not finite are counted, and left out of energies, crests and errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "banyan/codec/codec.h"
#include "banyan/element/data_type.h"

namespace banyan::tensor {

struct Tensor {
  element::DataType type = element::DataType::float32;  // a type of floats
  std::span<const std::byte> elements;                  // whole ones, at least one; any alignment
  size_t row_elements = 1;                              // of a row; divides the number of elements

  size_t count() const { return elements.size() / element::size_of(type); }
};

// values[i] is element first + i as float32.
void read_values(const Tensor& tensor, size_t first, std::span<float> values);

// Every codec, to nearest and, of those that can, stochastic; in the order of codec::ValueCode.
std::vector<codec::Codec> every_codec();

inline constexpr int kCodings = 10;
inline constexpr uint32_t kMostRanks = 65'536;

struct TensorReportOptions {
  uint32_t ranks = 8;                         // 1 to kMostRanks
  std::vector<double> bits = {};              // of a value: rates to code at (tensor/rate_coder.h), in its range
  std::function<void(double)> progress = {};  // the part that is done, in [0, 1]
};

// Errors are relative ones: the root of the sum of squares of errors over that of squares of values.
struct CodecReport {
  std::optional<codec::Codec> codec =
      std::nullopt;                           // neither this nor bits: lossless coding of the elements as they are
  std::optional<double> bits = std::nullopt;  // of a value, that were wanted
  uint64_t bytes = 0;
  double ratio = 0;  // the tensor's own bytes over these
  double error = 0;  // of one coding
  // The error of the mean of kCodings codings, each of which codes what the one before lost, too. None at a rate, for
  // which nobody keeps losses.
  std::optional<double> error_of_mean = 0;
  double greatest_error = 0;  // of one value, coded once; absolute
  uint64_t not_finite = 0;    // finite values that decode to NaN, as others of their block are not finite
};

struct TensorReport {
  uint64_t elements = 0, bytes = 0, rows = 0;
  uint64_t nonzero_elements = 0, nonzero_rows = 0;  // NaN is not zero
  uint64_t not_finite = 0;
  // The busiest of `ranks` shards over their mean, by rows that are not zero: shards of neighbouring rows; and those of
  // RowShards, with the seed 0. None where all rows are zero.
  std::optional<double> contiguous_skew = std::nullopt, permuted_skew = std::nullopt;
  // The greatest magnitude over the root mean square, by blocks of 256 elements in their order; zero blocks and those
  // that hold what is not finite are left out. None where no block is left.
  std::optional<double> median_crest = std::nullopt, greatest_crest = std::nullopt;
  // Share of the sum of squares that the largest hundredth of the elements holds (rounded up, by magnitude). None where
  // it is zero.
  std::optional<double> energy_of_largest = std::nullopt;
  std::vector<CodecReport> codecs = {};  // lossless first, then every_codec(), then options.bits
};

// O(elements * codecs). Takes memory for the losslessly coded elements, for a number for each 256 elements, and for
// those elements that share the upper 16 bits of float32 with the least of the largest hundredth; with rates, for all
// elements three times more.
TensorReport report_on(const Tensor& tensor, const TensorReportOptions& options);

}  // namespace banyan::tensor
