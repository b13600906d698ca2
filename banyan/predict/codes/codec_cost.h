// CodecCost: what writing float32 in a code costs and saves, for the models that predict collectives and training
// steps.
//
// A codec is two things to them: a *bytes law*, which is exact (codec/codec.h: so many bytes for each 256 values), and
// the *core-seconds* that encoding, decoding, and decoding into a sum take for a byte of float32. These come from a
// measurement on this machine, from the memory bandwidth of a device, since all three are bound by memory, or from a
// person.
//
// Besides, how much of a value is lost, so that a choice can tell codecs that train like float32 from others: the
// root mean square of what one rounding loses, over that of the values, of normally distributed ones.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/codec/codec.h"
#include "banyan/predict/cost/devices.h"

namespace banyan::predict {

// Seconds of one core for a byte of float32. On a device, of all of it.
struct CodecSpeed {
  double encode = 0, decode = 0, decode_add = 0;
};

struct CodecCost {
  codec::Codec codec;
  CodecSpeed speed;
  Picoseconds launch{0};  // of each call; none on a processor

  // Bytes of the code of so many bytes of float32, and its share of them for large ones: 0.254 for int8.
  Bytes coded(Bytes float32) const;
  double share() const;
};

// Every codec, the one that loses least first; of stochastic rounding none.
std::vector<codec::Codec> codecs_by_loss();
// The loss of one rounding, for normally distributed values: 0.0068 for int8.
double relative_loss(const codec::Codec& codec);

// Seconds of a rank for each byte of float32 of an allreduce that scatters and gathers: it encodes and adds up what it
// sends and gets of the parts, encodes its own sum, and decodes all.
double allreduce_work(const CodecSpeed& speed, uint32_t ranks);
// Measured on this machine once a process: the best of three passes over 64 MiB, which no cache holds, with a residual
// where the codec needs one. Takes some 0.1 s of one core and 200 MiB for the time of the call. Thread-safe.
CodecSpeed measured_speed(const codec::Codec& codec);
// From the bytes that each reads and writes at the bandwidth that kernels reach; and what a kernel's launch costs.
CodecCost cost_on(const Device& device, const codec::Codec& codec);

// "20GB/s" or "20GB/s,25GB/s,25GB/s": float32 that a core encodes, decodes, decodes and adds a second; one for all
// three, or each. Throws Error{invalid_input}.
CodecSpeed parse_codec_speed(std::string_view text);

}  // namespace banyan::predict
