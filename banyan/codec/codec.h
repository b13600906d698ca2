// Fixed-rate codecs: float32 values in fewer bits, a fixed number of bytes for each block of 256 values.
//
// A coded array is a row of blocks in the order of the values; the last block may hold fewer values and is as long as
// the others, its missing values coded as zeros. So a piece that begins and ends at block borders stands alone. All
// numbers are little-endian.
//
//   codec      a block of 256 values                                bytes  a decoded value
//   bfloat16   256 x bfloat16; beyond its range the greatest          512  itself
//   float16    256 x binary16; beyond 65504 it is 65504               512  itself
//   fp8        float32 scale, 256 x E4M3                              260  scale * code
//   mxfp8      8 x E8M0 scale, each of 32 values; 256 x E4M3          264  2^k * code
//   int8       float32 scale, 256 x -127..127                         260  scale * code
//   int4       8 x E8M0 scale, each of 32 values; 128 x two -7..7     136  2^k * code, low nibble first
//   mxfp4      8 x E8M0 scale, each of 32 values; 128 x two E2M1      136  2^k * code, low nibble first
//   sign       float32 mean of the magnitudes; 256 bits, set: minus    36  mean or -mean; bit i of byte j is value 8j+i
//
// A scale is the least that lets no value of its block saturate: max / 127, max / 448; of powers of two the next above.
// (The OCP rule for MX formats rounds down, so that some values saturate and even stochastic rounding has a bias.) Two
// limits: a float32 scale is at least 2^-126, or 0 for a block of zeros, so that it has an inverse; and every scale is
// so small that the greatest code decodes to a finite value: beyond 1.75 * 2^127 (mxfp4: 1.5 * 2^127) values saturate.
// A code is value * (1 / scale), rounded; both operations are float32 ones, which is off by at most 2^-22 of the code.
//
// Values that are not finite make their whole scale's block NaN; of bfloat16 and float16 themselves alone.
//
// *Losses.* The encoding side may keep what the code does not hold, to add it next time (error feedback):
//   values + residual == decoded + lost, but for one float32 rounding of each of the two sums.
// For a block that is NaN, `lost` is the residual as it was: values that are not finite must not come back in the next
// step.
//
// *Rounding.* To nearest, ties to even; or stochastic: up with the probability of the distance, so that the mean of
// many is the value. Random numbers are counted, not drawn: those of a value follow from `seed` and its position alone,
// whatever the slices, threads and instruction sets; the mean is exact to 2^-20 of a step between two codes. `sign`
// does not round; bfloat16 and float16 round to nearest only.
//
// Portable code, AVX2 and AVX-512 (element/isa.h) give the same bits. Subnormals count as what they are. Pointers need
// no alignment. All functions may be called from any thread, allocate nothing, take no lock; O(count).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

namespace banyan::codec {

// Their numbers are those of banyan_type_t: a new one comes last.
enum class ValueCode : uint8_t { bfloat16, float16, fp8, mxfp8, int8, int4, mxfp4, sign };

struct Codec {
  ValueCode code = ValueCode::bfloat16;
  bool is_stochastic = false;
  friend bool operator==(const Codec&, const Codec&) = default;
};

inline constexpr size_t kBlockValues = 256;

// The traits of a code. A new one is a row here, its kernels in codec_loops.h, and its types in banyan.h.
struct CodeRow {
  std::string_view name;
  std::string_view other_names[2];
  size_t block_bytes;
  bool rounds;                     // to nearest or stochastically, as asked
  bool needs_residual;             // when rounding to nearest
  bool needs_residual_stochastic;  // when rounding stochastically
  bool has_zero;                   // 0 stays 0
  double relative_loss;            // of one rounding of normally distributed values; a test encodes such values
};

// In the order of the enumerators. Few levels are too noisy to go without a residual, even without a bias.
inline constexpr CodeRow kCodeRows[] = {
    {"bfloat16", {"bf16", "bf16"}, 2 * kBlockValues, false, false, false, true, 0.0017},
    {"float16", {"fp16", "f16"}, 2 * kBlockValues, false, false, false, true, 0.0002},
    {"fp8", {"e4m3", "e4m3"}, 4 + kBlockValues, true, false, false, true, 0.027},
    {"mxfp8", {"mxfp8", "mxfp8"}, 8 + kBlockValues, true, false, false, true, 0.027},
    {"int8", {"int8", "int8"}, 4 + kBlockValues, true, true, false, true, 0.0068},
    {"int4", {"int4", "int4"}, 8 + kBlockValues / 2, true, true, true, true, 0.13},
    {"mxfp4", {"mxfp4", "mxfp4"}, 8 + kBlockValues / 2, true, true, true, true, 0.13},
    {"sign", {"1bit", "1-bit"}, 4 + kBlockValues / 8, false, true, true, false, 0.60},
};
inline constexpr size_t kValueCodes = std::size(kCodeRows);

struct CodecTraits {
  size_t block_bytes = 0;
  bool is_unbiased = false;     // decoded values have the mean of the values
  bool has_zero = true;         // 0 stays 0
  double relative_loss = 0;     // as CodeRow has it
  bool needs_residual = false;  // without one, what is lost is lost for good and training suffers
};
CodecTraits traits_of(const Codec& codec);

constexpr size_t blocks_of(size_t count) { return (count + kBlockValues - 1) / kBlockValues; }
size_t coded_bytes(const Codec& codec, size_t count);

// "int8", "int8:stochastic", and so on; "bf16", "fp16", "f16" and "1bit" are understood. Throws Error{invalid_input}
// that lists the names.
Codec parse_codec(std::string_view text);
std::string to_string(const Codec& codec);

// Randomness of the values of a piece: of value i that of position first + i. `first` is a multiple of kBlockValues.
struct Randomness {
  uint64_t seed = 0;
  uint64_t first = 0;
};

// `coded` has coded_bytes(); `residual`, if any, is added to the values first; `lost`, if any, is what is lost. `lost`
// may be `residual`; nothing else overlaps.
struct EncodeTask {
  Codec codec = {};
  const float* values = nullptr;
  const float* residual = nullptr;
  float* lost = nullptr;
  size_t count = 0;
  Randomness randomness = {};  // of stochastic codecs
};
void encode(const EncodeTask& task, std::byte* coded);

// Any bytes may be given: each decodes to some value. decode: values[i] = decoded * factor; decode_add: sums[i] +=
// decoded * factor, each product and sum rounded for itself. Nothing overlaps.
void decode(const Codec& codec, const std::byte* coded, float* values, size_t count, float factor = 1);
void decode_add(const Codec& codec, const std::byte* coded, float* sums, size_t count, float factor = 1);

}  // namespace banyan::codec
