// Inside of banyan/codec: the loops behind low_rank.h. In an unnamed namespace for the reason that element/vectors.h
// tells; `Machine` is one of those.
//
// Equal bits on all machines: what runs along a row of M is done to each column by itself, and sums over a row are
// those of kLanes columns at a time, added up in halves, whatever the width of a vector is.
#pragma once

#include <cstddef>

#include "banyan/codec/codec_kernels.h"
#include "banyan/element/vectors.h"

namespace banyan::codec::internal {
namespace {

// body(0), body(1) and so on, without a loop: what the numbers choose stays in registers.
template <size_t kTimes, typename Body>
[[gnu::always_inline]] inline void unrolled(const Body& body) {
  if constexpr (kTimes > 0) {
    unrolled<kTimes - 1>(body);
    body(kTimes - 1);
  }
}

template <typename Machine, size_t kCount>
struct LowRankLoops {
  static constexpr size_t kLanes = 16, kWidth = Machine::kWidth, kFloats = kWidth / sizeof(float);
  static constexpr size_t kVectors = kLanes / kFloats;           // that hold the lanes of one sum
  static constexpr size_t kProductRows = kVectors == 1 ? 4 : 1;  // whose sums are in registers
  static constexpr size_t kRows = 4;                             // of the others: Q is read once for so many
  using Floats = element::internal::Vector<float, kWidth>;
  using Four = element::internal::Vector<float, 16>;

  [[gnu::always_inline]] static Floats at(const float* from) { return element::internal::load<Floats>(from); }
  [[gnu::always_inline]] static void put(float* to, const Floats& floats) { element::internal::store(to, floats); }

  [[gnu::always_inline]] static float sum_of(const float* lanes) {
    Four sum = element::internal::load<Four>(lanes) + element::internal::load<Four>(lanes + 8);
    sum += element::internal::load<Four>(lanes + 4) + element::internal::load<Four>(lanes + 12);
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
  }

  template <size_t kHere>
  [[gnu::always_inline]] static void multiply_rows(const LowRankPart& part, const float* m, const float* q_rows,
                                                   float* p) {
    Floats sums[kHere][kCount][kVectors] = {};
    size_t j = 0;
    for (; j + kLanes <= part.columns; j += kLanes) {
      unrolled<kVectors>([&](size_t v) __attribute__((always_inline)) {
        Floats values[kHere];
        unrolled<kHere>([&](size_t i)
                            __attribute__((always_inline)) { values[i] = at(m + i * part.columns + j + v * kFloats); });
        unrolled<kCount>([&](size_t k) __attribute__((always_inline)) {
          const Floats q = at(q_rows + k * part.columns + j + v * kFloats);
          unrolled<kHere>([&](size_t i) __attribute__((always_inline)) { sums[i][k][v] += values[i] * q; });
        });
      });
    }
    for (size_t i = 0; i < kHere; ++i) {
      for (size_t k = 0; k < kCount; ++k) {
        float lanes[kLanes];
        for (size_t v = 0; v < kVectors; ++v) put(lanes + v * kFloats, sums[i][k][v]);
        for (size_t rest = j; rest < part.columns; ++rest) {
          lanes[rest - j] += m[i * part.columns + rest] * q_rows[k * part.columns + rest];
        }
        p[i * part.stride + k] = sum_of(lanes);
      }
    }
  }

  static void multiply(const LowRankPart& part, const float* m, const float* q_rows, float* p) {
    size_t row = 0;
    for (; row + kProductRows <= part.rows; row += kProductRows) {
      multiply_rows<kProductRows>(part, m + row * part.columns, q_rows, p + row * part.stride);
    }
    for (; row < part.rows; ++row) multiply_rows<1>(part, m + row * part.columns, q_rows, p + row * part.stride);
    Machine::leave();
  }

  // q_rows += (rows of m)^T (rows of p), row by row.
  template <size_t kHere>
  [[gnu::always_inline]] static void add_transposed_rows(const LowRankPart& part, const float* m, const float* p,
                                                         float* q_rows) {
    size_t j = 0;
    for (; j + kFloats <= part.columns; j += kFloats) {
      Floats sums[kCount];
      unrolled<kCount>([&](size_t k) __attribute__((always_inline)) { sums[k] = at(q_rows + k * part.columns + j); });
      unrolled<kHere>([&](size_t i) __attribute__((always_inline)) {
        const Floats values = at(m + i * part.columns + j);
        unrolled<kCount>([&](size_t k) __attribute__((always_inline)) { sums[k] += values * p[i * part.stride + k]; });
      });
      unrolled<kCount>([&](size_t k) __attribute__((always_inline)) { put(q_rows + k * part.columns + j, sums[k]); });
    }
    for (; j < part.columns; ++j) {
      for (size_t k = 0; k < kCount; ++k) {
        float sum = q_rows[k * part.columns + j];
        for (size_t i = 0; i < kHere; ++i) sum += m[i * part.columns + j] * p[i * part.stride + k];
        q_rows[k * part.columns + j] = sum;
      }
    }
  }

  static void add_transposed(const LowRankPart& part, const float* m, const float* p, float* q_rows) {
    size_t row = 0;
    for (; row + kRows <= part.rows; row += kRows) {
      add_transposed_rows<kRows>(part, m + row * part.columns, p + row * part.stride, q_rows);
    }
    for (; row < part.rows; ++row) {
      add_transposed_rows<1>(part, m + row * part.columns, p + row * part.stride, q_rows);
    }
    Machine::leave();
  }

  // (rows of p) q_rows, times the scale, in the place of rows of m or added to them.
  template <size_t kHere, bool kAdds>
  [[gnu::always_inline]] static void expand_rows(const LowRankPart& part, const float* p, const float* q_rows,
                                                 float scale, float* m) {
    size_t j = 0;
    for (; j + kFloats <= part.columns; j += kFloats) {
      Floats q[kCount];
      unrolled<kCount>([&](size_t k) __attribute__((always_inline)) { q[k] = at(q_rows + k * part.columns + j); });
      unrolled<kHere>([&](size_t i) __attribute__((always_inline)) {
        Floats sum = q[0] * p[i * part.stride];
        unrolled<kCount - 1>([&](size_t k)
                                 __attribute__((always_inline)) { sum += q[k + 1] * p[i * part.stride + k + 1]; });
        float* const to = m + i * part.columns + j;
        put(to, kAdds ? at(to) + sum * scale : sum * scale);
      });
    }
    for (; j < part.columns; ++j) {
      for (size_t i = 0; i < kHere; ++i) {
        float sum = q_rows[j] * p[i * part.stride];
        for (size_t k = 1; k < kCount; ++k) sum += q_rows[k * part.columns + j] * p[i * part.stride + k];
        float& to = m[i * part.columns + j];
        to = kAdds ? to + sum * scale : sum * scale;
      }
    }
  }

  template <bool kAdds>
  static void expand(const LowRankPart& part, const float* p, const float* q_rows, float scale, float* m) {
    size_t row = 0;
    for (; row + kRows <= part.rows; row += kRows) {
      expand_rows<kRows, kAdds>(part, p + row * part.stride, q_rows, scale, m + row * part.columns);
    }
    for (; row < part.rows; ++row) {
      expand_rows<1, kAdds>(part, p + row * part.stride, q_rows, scale, m + row * part.columns);
    }
    Machine::leave();
  }

  static constexpr LowRankKernels kernels() {
    return {.multiply = multiply, .add_transposed = add_transposed, .expand = {expand<false>, expand<true>}};
  }
};

}  // namespace
}  // namespace banyan::codec::internal
