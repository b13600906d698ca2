// reduce, scale, copy: the loops over elements, at the speed of memory.
//
// Three builds of the loops exist, for plain x86-64 (or any other machine), AVX2 and AVX-512; the best that the machine
// has is used (isa.h). All give the same bits for the same input, whatever the alignment, in place or not.
//
// The operations take the sources from the first to the last:
//   sum, prod     Integers wrap round. Floats are IEEE operations, never fused; -0 + -0 is -0.
//   min, max      The earlier source is kept when two are equal (so min(+0, -0) is +0). A NaN gives way to any
//                 number, on either side; the result is NaN only where all sources are.
//   avg           The sum, divided by `divisor` once at the end. Integers truncate towards zero, and have wrapped
//                 before.
//   premul_sum    The sum of sources that scale() has been applied to.
//   band, bor,    And, or, and exclusive or of every bit, the sign's as well. They take integers only:
//   bxor          expect_reducible() is for callers; here another type is our own bug.
// float16 and bfloat16 are accumulated in float32 over all sources, divided there, and rounded once, to nearest even.
// A result that is NaN is always the same one: positive, quiet, without payload (0x7fc00000 in float32). Processors
// differ in which payload survives, so keeping it would mean different bits on different ranks.
//
// Bits assume the default floating-point environment of the calling thread: round to nearest, subnormals kept.
//
// All functions may be called from any thread, allocate nothing and take no lock. Pointers need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "banyan/element/data_type.h"

namespace banyan::element {

struct ReduceTask {
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  uint32_t divisor = 1;    // of avg, at least 1; floats divide by it as rounded to float32 (float64: exactly)
  bool streaming = false;  // store `result` past the caches: for results beyond them that are not read again soon
};

// result[i] = sources[0][i] op sources[1][i] op ... for `count` elements, and the same into `second` unless it is null
// (with ordinary stores, always). A single source is copied bit by bit, or divided. `result` may be exactly one of the
// sources, and overlaps nothing otherwise; `second` overlaps nothing. A single source that is the result itself, and is
// not divided, stays as it is; only `second` is written.
//
// Every function here throws what active_isa() throws, on the first call of the process only (isa.h).
void reduce(const ReduceTask& task, std::byte* result, std::byte* second, std::span<const std::byte* const> sources,
            size_t count);

// to[i] = from[i] * factor; `to` may be `from`, and overlaps nothing otherwise. float64 multiplies by the factor, other
// floats by the factor rounded to float32, in float32, rounding once more at the end. Integers wrap round; their factor
// must be a whole number of at most 2^53, else Error{invalid_input}.
void scale(DataType type, std::byte* to, const std::byte* from, size_t count, double factor);

// For those who accumulate float16 or bfloat16 one source at a time: from[i] as a float, exactly; and from[i] / divisor
// rounded to `type`, to nearest even. Between the two, reduce() of float32. Nothing overlaps.
void widen(DataType type, float* to, const std::byte* from, size_t count);
void narrow(DataType type, std::byte* to, const float* from, size_t count, uint32_t divisor = 1);

// memcpy, or with `streaming` stores that go past the caches; these are visible to other threads in the usual order.
void copy(std::byte* to, const std::byte* from, size_t bytes, bool streaming);

}  // namespace banyan::element
