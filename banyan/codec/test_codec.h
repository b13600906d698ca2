// What the tests of codecs share: a reference that shares nothing with the kernels, and values to code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "banyan/codec/codec.h"

namespace banyan::codec {

// Every codec, and each that can round stochastically so as well.
std::vector<Codec> all_codecs();

// The numbers that codes stand for, times a scale: of fp8 and mxfp8 all 256 (NaN too), of int8 256, of int4 and mxfp4
// 16, of halves 65536, by the definition of the format.
std::vector<double> table_of(ValueCode code);

// ---- The reference: one value at a time, in double, by searching through all codes ----

struct Coded {
  std::vector<std::byte> bytes;
  std::vector<float> lost;
};
Coded reference_encode(const Codec& codec, const std::vector<float>& values, const std::vector<float>& residual,
                       const Randomness& randomness = {});
std::vector<float> reference_decode(const Codec& codec, const std::vector<std::byte>& coded, size_t count);
uint32_t reference_random(const Randomness& randomness, size_t index);

// ---- Values ----

enum class Kind { gaussian, gradient, integers, outliers, wide, tiny, huge, special, zeros, bits };
inline constexpr Kind kKinds[] = {Kind::gaussian, Kind::gradient, Kind::integers, Kind::outliers, Kind::wide,
                                  Kind::tiny,     Kind::huge,     Kind::special,  Kind::zeros,    Kind::bits};
std::string to_string(Kind kind);
std::vector<float> make_values(Kind kind, size_t count, std::mt19937_64& random);

// What encode() makes of them.
Coded encoded(const Codec& codec, const std::vector<float>& values, const std::vector<float>& residual = {},
              const Randomness& randomness = {});
std::vector<float> decoded(const Codec& codec, const std::vector<std::byte>& coded, size_t count);

// As they are in memory.
std::vector<uint32_t> bits_of(const std::vector<float>& values);

}  // namespace banyan::codec
