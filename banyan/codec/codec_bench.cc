// Float32 coded and decoded per second, of each codec in the build of the kernels that BANYAN_ISA names (default: the
// best), beside what memory allows: bytes_per_second counts the float32 values, so that all figures compare. The limit
// "encode_1_of_4" moves the bytes of encode by a codec that makes one byte of four, without arithmetic. Products of low
// rank are those of a square matrix of as many bytes: one reads it, writes it ("expand"), or both ("subtract"), which
// has a limit each; "flops" are additions and multiplications per second. Every case checks its answer.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "banyan/codec/codec.h"
#include "banyan/codec/low_rank.h"
#include "banyan/element/reduce.h"
#include "banyan/element/test_memory.h"

namespace banyan::codec {
namespace {

constexpr size_t kBytes = size_t{64} << 20, kCount = kBytes / sizeof(float);

using element::LargeMemory;

void fill(const LargeMemory<float>& buffer, float scale) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(4096 + 37);
  for (float& value : values) value = normal(random) * scale;
  for (size_t i = 0; i < kCount; ++i) buffer[i] = values[i % values.size()];
}

void count_floats(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<int64_t>(kBytes) * static_cast<int64_t>(state.iterations()));
}

// Does it as often as is asked for.
template <typename Body>
void measure(benchmark::State& state, const Body& body) {
  for (auto _ : state) {
    body();
    benchmark::ClobberMemory();
  }
  count_floats(state);
}

// ---- Limits ----

typedef uint64_t Words __attribute__((vector_size(16)));

Words load_words(const float* from) {
  Words words;
  std::memcpy(&words, from, sizeof words);
  return words;
}

// Reads all, and writes one of kRead vectors: the bytes of encode.
template <size_t kRead>
void limit_of_encode(benchmark::State& state) {
  const LargeMemory<float> values(kCount), written(kCount / kRead);
  fill(values, 1);
  measure(state, [&] {
    const float* from = values.data();
    for (float* to = written.data(); to != written.data() + kCount / kRead; to += 8, from += 8 * kRead) {
      Words first = {}, second = {};
      for (size_t k = 0; k < kRead; ++k) {
        first ^= load_words(from + 8 * k);
        second ^= load_words(from + 8 * k + 4);
      }
      std::memcpy(to, &first, sizeof first);
      std::memcpy(to + 4, &second, sizeof second);
    }
  });
}

// Reads two streams, changes one of them and writes one of kRead vectors: the bytes of encode with a residual.
template <size_t kRead>
void limit_of_residual(benchmark::State& state) {
  const LargeMemory<float> values(kCount), residual(kCount), written(kCount / kRead);
  fill(values, 1);
  measure(state, [&] {
    for (size_t i = 0; i < kCount / (4 * kRead); ++i) {
      Words all = {};
      for (size_t k = 0; k < kRead; ++k) {
        const size_t at = 4 * (kRead * i + k);
        const Words both = load_words(values.data() + at) ^ load_words(residual.data() + at);
        std::memcpy(residual.data() + at, &both, sizeof both);
        all ^= both;
      }
      std::memcpy(written.data() + 4 * i, &all, sizeof all);
    }
  });
}

// Reads one of kRead vectors and writes all, or adds it to all: the bytes of decode and decode_add.
template <size_t kRead, bool kAdds>
void limit_of_decode(benchmark::State& state) {
  const LargeMemory<float> values(kCount), read(kCount / kRead);
  fill(values, 1);
  measure(state, [&] {
    for (size_t i = 0; i < kCount / (4 * kRead); ++i) {
      const Words one = load_words(read.data() + 4 * i);
      for (size_t k = 0; k < kRead; ++k) {
        const size_t at = 4 * (kRead * i + k);
        const Words word = kAdds ? one ^ load_words(values.data() + at) : one;
        std::memcpy(values.data() + at, &word, sizeof word);
      }
    }
  });
}

void limit_of_reading(benchmark::State& state) {
  const LargeMemory<float> values(kCount);
  fill(values, 1);
  for (auto _ : state) {
    Words first = {}, second = {};
    for (const float* from = values.data(); from != values.data() + kCount; from += 16) {
      first ^= load_words(from) ^ load_words(from + 4);
      second ^= load_words(from + 8) ^ load_words(from + 12);
    }
    first ^= second;
    benchmark::DoNotOptimize(first);
  }
  count_floats(state);
}

// Copies: decode.
void limit_of_copying(benchmark::State& state) {
  const LargeMemory<float> values(kCount), written(kCount);
  fill(values, 1);
  measure(state, [&] { std::memcpy(written.data(), values.data(), kBytes); });
}

// result = left + result: two streams read, one of them written.
void limit_of_reading_two_and_writing(benchmark::State& state) {
  const LargeMemory<float> left(kCount), result(kCount);
  fill(left, 1);
  const std::byte* const sources[] = {reinterpret_cast<const std::byte*>(result.data()),
                                      reinterpret_cast<const std::byte*>(left.data())};
  measure(state, [&] {
    element::reduce({.type = element::DataType::float32}, reinterpret_cast<std::byte*>(result.data()), nullptr, sources,
                    kCount);
  });
}

// values += factor: one stream, read and written.
void limit_of_changing(benchmark::State& state) {
  const LargeMemory<float> values(kCount);
  fill(values, 1);
  auto* const bytes = reinterpret_cast<std::byte*>(values.data());
  measure(state, [&] { element::scale(element::DataType::float32, bytes, bytes, kCount, 1.0); });
}

// Writes: decode.
void limit_of_writing(benchmark::State& state) {
  const LargeMemory<float> written(kCount);
  measure(state, [&] { std::memset(written.data(), 1, kBytes); });
}

// ---- Codecs ----

double worst_error(const Codec& codec) {
  switch (codec.code) {
    case ValueCode::bfloat16:
    case ValueCode::float16:
      return 0.02;
    case ValueCode::int8:
      return 0.05;
    case ValueCode::fp8:
    case ValueCode::mxfp8:
      return 0.4;
    default:
      return 4;
  }
}

// Whether what was coded from gaussian values decodes to about these.
bool is_right(const Codec& codec, const LargeMemory<std::byte>& coded, const LargeMemory<float>& values,
              float residual) {
  std::vector<float> decoded(kCount);
  decode(codec, coded.data(), decoded.data(), kCount);
  for (size_t i = 0; i < kCount; i += 101) {
    if (std::abs(static_cast<double>(decoded[i] - values[i])) > worst_error(codec) + static_cast<double>(residual)) {
      return false;
    }
  }
  return true;
}

void encode_one(benchmark::State& state, const Codec& codec) {
  const LargeMemory<float> values(kCount);
  const LargeMemory<std::byte> coded(coded_bytes(codec, kCount));
  fill(values, 1);
  measure(state, [&] { encode({.codec = codec, .values = values.data(), .count = kCount}, coded.data()); });
  if (!is_right(codec, coded, values, 0)) return state.SkipWithError("wrong codes");
}

void encode_with_residual(benchmark::State& state, const Codec& codec) {
  const LargeMemory<float> values(kCount), residual(kCount);
  const LargeMemory<std::byte> coded(coded_bytes(codec, kCount));
  fill(values, 1);
  measure(state, [&] {
    encode({.codec = codec,
            .values = values.data(),
            .residual = residual.data(),
            .lost = residual.data(),
            .count = kCount},
           coded.data());
  });
  if (!is_right(codec, coded, values, codec.code == ValueCode::sign ? 100 : 4)) {
    return state.SkipWithError("wrong codes");
  }
}

void decode_one(benchmark::State& state, const Codec& codec, bool adds) {
  const LargeMemory<float> values(kCount), decoded(kCount);
  const LargeMemory<std::byte> coded(coded_bytes(codec, kCount));
  fill(values, 1);
  encode({.codec = codec, .values = values.data(), .count = kCount}, coded.data());
  measure(state, [&] {
    if (adds) {
      decode_add(codec, coded.data(), decoded.data(), kCount);
    } else {
      decode(codec, coded.data(), decoded.data(), kCount);
    }
  });
  const auto times = adds ? static_cast<double>(state.iterations()) : 1.0;
  for (size_t i = 0; i < kCount; i += 101) {
    const double off = static_cast<double>(decoded[i]) / times - static_cast<double>(values[i]);
    if (!(std::abs(off) <= worst_error(codec))) return state.SkipWithError("wrong values");
  }
}

// ---- Low rank ----

constexpr size_t kSide = 4096, kStride = 97;  // every so many rows of an answer are checked
static_assert(kSide * kSide == kCount);

// M, zeros, and P and Q with random numbers.
struct LowRank {
  explicit LowRank(size_t rank)
      : shape{.rows = kSide, .columns = kSide, .rank = rank}, p(kSide * rank), q(kSide * rank) {
    std::mt19937 random(8);
    std::normal_distribution<float> normal;
    for (std::vector<float>* narrow : {&p, &q}) {
      for (float& value : *narrow) value = normal(random);
    }
  }

  std::span<float> m() const { return {memory.data(), kCount}; }
  // Of P Q^T.
  double product(size_t row, size_t column) const {
    double sum = 0;
    for (size_t k = 0; k < shape.rank; ++k) {
      sum += static_cast<double>(p[row * shape.rank + k]) * static_cast<double>(q[column * shape.rank + k]);
    }
    return sum;
  }
  // Of a row or column of M and the last column of P or Q.
  double last_product(size_t begin, size_t step, const std::vector<float>& narrow) const {
    double sum = 0;
    for (size_t i = 0; i < kSide; ++i) {
      sum += static_cast<double>(memory[begin + i * step]) * static_cast<double>(narrow[(i + 1) * shape.rank - 1]);
    }
    return sum;
  }

  low_rank::Shape shape;
  LargeMemory<float> memory{kCount};
  std::vector<float> p, q;
};

void count_flops(benchmark::State& state, size_t flops) {
  state.counters["flops"] =
      benchmark::Counter(static_cast<double>(flops), benchmark::Counter::kIsIterationInvariantRate);
}

void multiply_m(benchmark::State& state, size_t rank, bool is_transposed) {
  const LowRank one(rank);
  fill(one.memory, 1);
  const std::vector<float> q_rows = low_rank::transposed(one.q, rank);
  std::vector<float> found(kSide * rank);
  measure(state, [&] {
    if (is_transposed) {
      low_rank::multiply_transposed(one.shape, one.m(), one.p, found);
    } else {
      low_rank::multiply(one.shape, one.m(), q_rows, found);
    }
  });
  for (size_t i = 0; i < kSide; i += kStride) {
    const double right = is_transposed ? one.last_product(i, kSide, one.p) : one.last_product(i * kSide, 1, one.q);
    if (!(std::abs(static_cast<double>(found[(i + 1) * rank - 1]) - right) < 1e-2)) {
      return state.SkipWithError("a wrong product");
    }
  }
  count_flops(state, 2 * kCount * rank);
}

void write_product(benchmark::State& state, size_t rank, bool subtracts) {
  const LowRank one(rank);
  measure(state, [&] {
    if (subtracts) {
      low_rank::subtract(one.shape, one.p, one.q, one.m());
    } else {
      low_rank::expand(one.shape, one.p, one.q, 0.25F, one.m());
    }
  });
  const double times = subtracts ? -static_cast<double>(state.iterations()) : 0.25;
  for (size_t i = 0; i < kSide; i += kStride) {
    const size_t j = kSide - 1 - i;
    const double off = static_cast<double>(one.memory[i * kSide + j]) / times - one.product(i, j);
    if (!(std::abs(off) < 1e-3)) return state.SkipWithError("a wrong product");
  }
  count_flops(state, 2 * kCount * rank);
}

void orthonormalise_p(benchmark::State& state, size_t rank) {
  LowRank one(rank);
  for (auto _ : state) {
    benchmark::DoNotOptimize(low_rank::orthonormalise(one.p, rank));
    benchmark::ClobberMemory();
  }
  for (size_t k = 0; k < rank; ++k) {
    double sum = 0;
    for (size_t i = 0; i < kSide; ++i) {
      sum += static_cast<double>(one.p[i * rank + k]) * static_cast<double>(one.p[(i + 1) * rank - 1]);
    }
    if (!(std::abs(sum - (k + 1 == rank ? 1 : 0)) < 1e-5)) return state.SkipWithError("columns not orthonormal");
  }
  state.SetBytesProcessed(static_cast<int64_t>(one.p.size() * sizeof(float)) *
                          static_cast<int64_t>(state.iterations()));
  count_flops(state, kSide * rank * (4 * rank + 1));  // two passes over all pairs, two lengths and the division
}

void register_all() {
  const auto add = [](const std::string& name, auto function) {
    benchmark::RegisterBenchmark(name.c_str(), function)->Unit(benchmark::kMillisecond)->MinTime(0.1);
  };
  add("limit/read", limit_of_reading);
  add("limit/write", limit_of_writing);
  add("limit/copy", limit_of_copying);
  add("limit/read+write", limit_of_changing);
  add("limit/read+read+write", limit_of_reading_two_and_writing);
  const auto add_of = [&]<size_t kRead>(std::integral_constant<size_t, kRead>) {
    const std::string part = "_1_of_" + std::to_string(kRead);
    add("limit/encode" + part, limit_of_encode<kRead>);
    add("limit/encode_residual" + part, limit_of_residual<kRead>);
    add("limit/decode" + part, limit_of_decode<kRead, false>);
    add("limit/decode_add" + part, limit_of_decode<kRead, true>);
  };
  add_of(std::integral_constant<size_t, 2>());
  add_of(std::integral_constant<size_t, 4>());
  add_of(std::integral_constant<size_t, 8>());
  add_of(std::integral_constant<size_t, 32>());
  for (const std::string name : {"bfloat16", "float16", "fp8", "mxfp8", "int8", "int4", "mxfp4", "sign",
                                 "fp8:stochastic", "int8:stochastic", "int4:stochastic"}) {
    const Codec codec = parse_codec(name);
    add(name + "/encode", [=](benchmark::State& s) { encode_one(s, codec); });
    add(name + "/encode_residual", [=](benchmark::State& s) { encode_with_residual(s, codec); });
    if (codec.is_stochastic) continue;
    add(name + "/decode", [=](benchmark::State& s) { decode_one(s, codec, false); });
    add(name + "/decode_add", [=](benchmark::State& s) { decode_one(s, codec, true); });
  }
  for (const size_t rank : {1, 2, 4, 8, 16}) {
    const std::string name = "low_rank_" + std::to_string(rank);
    add(name + "/multiply", [=](benchmark::State& s) { multiply_m(s, rank, false); });
    add(name + "/multiply_transposed", [=](benchmark::State& s) { multiply_m(s, rank, true); });
    add(name + "/expand", [=](benchmark::State& s) { write_product(s, rank, false); });
    add(name + "/subtract", [=](benchmark::State& s) { write_product(s, rank, true); });
    add(name + "/orthonormalise", [=](benchmark::State& s) { orthonormalise_p(s, rank); });
  }
}

}  // namespace
}  // namespace banyan::codec

int main(int argc, char** argv) {
  banyan::codec::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
