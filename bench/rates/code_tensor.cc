// What a codec makes of a tensor, for rates.py:   code_tensor FILE ROW_ELEMENTS CODEC OUT
//
// Built by hand, with libzfp-dev, after `ninja -C build banyan_codec`:
//   g++ -std=c++20 -O2 -I. bench/rates/code_tensor.cc build/modules/codec/libbanyan_codec.a \
//     build/modules/element/libbanyan_element.a build/modules/base/libbanyan_base.a -lzfp -lzstd -o code_tensor
//
// FILE is float32 without a header; CODEC one of banyan's (int4, mxfp4, int8, ...), or rate:BITS, zfp1:BITS (fixed
// rate, values in a line) or zfp2:BITS (a matrix). Writes the decoded values to OUT; prints the bytes.
#include <zfp.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/codec/codec.h"
#include "banyan/codec/rate_coder.h"

namespace banyan {
namespace {

size_t code_by_zfp(std::vector<float>& values, size_t row, unsigned dimensions, double bits) {
  zfp_stream* const stream = zfp_stream_open(nullptr);
  zfp_field* const field = dimensions == 1 ? zfp_field_1d(values.data(), zfp_type_float, values.size())
                                           : zfp_field_2d(values.data(), zfp_type_float, row, values.size() / row);
  zfp_stream_set_rate(stream, bits, zfp_type_float, dimensions, zfp_false);
  std::vector<std::byte> coded(zfp_stream_maximum_size(stream, field));
  bitstream* const bytes = stream_open(coded.data(), coded.size());
  zfp_stream_set_bit_stream(stream, bytes);
  zfp_stream_rewind(stream);
  const size_t size = zfp_compress(stream, field);
  zfp_stream_rewind(stream);
  const bool is_decoded = zfp_decompress(stream, field) != 0;
  zfp_field_free(field);
  zfp_stream_close(stream);
  stream_close(bytes);
  if (size == 0 || !is_decoded) throw Error(ErrorCode::unsupported, "zfp has failed");
  return size;
}

// Leaves what is decoded in `values`; returns the bytes.
size_t code(std::vector<float>& values, size_t row, const std::string& codec) {
  const size_t colon = codec.find(':');
  const std::string name = codec.substr(0, colon);
  const double bits = colon == std::string::npos ? 0 : std::atof(codec.c_str() + colon + 1);
  if (name == "zfp1" || name == "zfp2") return code_by_zfp(values, row, name == "zfp1" ? 1 : 2, bits);
  if (name == "rate") {
    const std::vector<std::byte> coded = codec::encode_at_rate(values, {.bits = bits, .row_elements = row});
    codec::decode_at_rate(coded, values);
    return coded.size();
  }
  const codec::Codec parsed = codec::parse_codec(codec);
  std::vector<std::byte> coded(codec::coded_bytes(parsed, values.size()));
  codec::encode({.codec = parsed, .values = values.data(), .count = values.size()}, coded.data());
  codec::decode(parsed, coded.data(), values.data(), values.size());
  return coded.size();
}

}  // namespace
}  // namespace banyan

int main(int count, char** words) {
  if (count != 5) {
    std::cerr << "usage: code_tensor FILE ROW_ELEMENTS CODEC OUT\n";
    return 2;
  }
  try {
    const std::string file = banyan::read_file(words[1]);
    std::vector<float> values(file.size() / sizeof(float));
    std::memcpy(values.data(), file.data(), values.size() * sizeof(float));
    std::cout << banyan::code(values, std::strtoull(words[2], nullptr, 10), words[3]) << "\n";
    banyan::write_file(words[4], {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
