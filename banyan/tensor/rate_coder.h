// A tensor of float32 in as many bits a value as are wanted, for weights, caches of attention (KV) and checkpoints on
// slow paths: a uniform quantiser, whose step is found for the rate, behind a prediction and before an adaptive
// arithmetic coder. For collectives, whose codes must be of a fixed length and quick, there is codec.h.
//
// *Form.* The tensor is rows of equal length. A value is predicted from those above it in its column,
//
//   prediction += (decoded - prediction) * a,   a in {0, 1/16, 1/4, 1/2}, one for the tensor,
//
// and what the prediction misses is rounded to a multiple of the step. These numbers are binarised as signed
// magnitudes: the width of the magnitude in unary, its upper bits, its sign. Each binary decision but the lower bits
// and the sign has an adaptive probability. The context of these is how large the numbers have lately been in the
// column and in the row, over how large they are on the whole: so scales of rows and columns cost no bytes.
//
// *Why so.* One step for all values has the least square error for its bits (Gish and Pierce, IEEE Trans. Inf. Theory
// 14, 1968): the entropy coder, not a scale for each block, makes use of values that are smaller. LLM.265 (MICRO 2025)
// takes a video codec for the same end, with a transform, which we have tried and left out. Range coder: Martin 1979,
// with carries as in LZMA. bench/rates/models.py compares it with zfp and int4 on trained weights.
//
// *Rate.* The result is at most bits * count / 8 bytes long, and at least 98 % of that, but
//   - tensors of few values, or that need less: a tensor takes 24 bytes and some 0.01 bit a value at least;
//   - tensors of a few different values, whose rate jumps as the step grows; the result is then shorter;
//   - steps below 2^-30 of the largest magnitude, which are not taken.
// More bits have no larger error, but for a hundredth part of it.
//
// Values that are not finite decode to NaN. Equal values, options give equal bytes on every machine, and equal bytes
// equal values. All functions may be called from any thread. Coding takes 30 to 150 ns a value and pass on a core, and
// some ten passes, most of them over the first 2^18 values; memory is O(count) for encoding, O(row) for decoding.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace banyan::tensor {

struct RateOptions {
  double bits = 4;          // of a value, from kLeastRate to kMostRate
  size_t row_elements = 1;  // divides the number of values; neighbours in a column are predicted from each other
};
inline constexpr double kLeastRate = 0.25, kMostRate = 24;

// At least one value, fewer than 2^48. Throws std::bad_alloc only.
std::vector<std::byte> encode_at_rate(std::span<const float> values, const RateOptions& options);

// The contents of coded bytes from a stranger. Takes no memory: ask before you take any for decode_at_rate(), and
// compare with what you expect, since few bytes may stand for many. Throws Error{invalid_input} that says what is
// wrong.
struct RateContent {
  size_t elements = 0;
  size_t row_elements = 0;
};
RateContent read_at_rate(std::span<const std::byte> coded);

// `values` is as long as read_at_rate() says (another length is our own bug). Throws as that does, and where the bytes
// are too few or too many; then `values` holds anything. There is no checksum: other damage decodes to other values.
void decode_at_rate(std::span<const std::byte> coded, std::span<float> values);

}  // namespace banyan::tensor
