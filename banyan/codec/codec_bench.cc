// Float32 coded and decoded per second, of each codec in the build of the kernels that BANYAN_ISA names (default: the
// best), beside what memory allows: bytes_per_second counts the float32 values, so that all figures compare. A limit
// moves the same bytes as the cases after which it is named, without arithmetic. Every case checks its answer.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/codec/codec.h"
#include "banyan/element/reduce.h"

namespace banyan::codec {
namespace {

constexpr size_t kBytes = size_t{64} << 20, kCount = kBytes / sizeof(float);

// Page-aligned memory whose pages are present, in large pages where the system gives them.
template <typename T>
class Buffer {
 public:
  explicit Buffer(size_t count) : bytes_(count * sizeof(T) + 4096) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED) << bytes_;
    madvise(memory, bytes_, MADV_HUGEPAGE);
    data_ = static_cast<T*>(memory);
    std::memset(memory, 0, bytes_);
  }
  ~Buffer() { munmap(data_, bytes_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() const { return data_; }
  T& operator[](size_t i) const { return data_[i]; }

 private:
  size_t bytes_;
  T* data_;
};

void fill(const Buffer<float>& buffer, float scale) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(4096 + 37);
  for (float& value : values) value = normal(random) * scale;
  for (size_t i = 0; i < kCount; ++i) buffer[i] = values[i % values.size()];
}

void count_floats(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<int64_t>(kBytes) * static_cast<int64_t>(state.iterations()));
}

// ---- Limits ----

void limit_of_reading(benchmark::State& state) {
  const Buffer<float> values(kCount);
  fill(values, 1);
  uint64_t sum = 0;
  for (auto _ : state) {
    uint64_t sums[16] = {};
    const auto* words = reinterpret_cast<const uint64_t*>(values.data());
    for (size_t i = 0; i < kBytes / 8; i += 16) {
      for (size_t k = 0; k < 16; ++k) {
        uint64_t word = 0;
        std::memcpy(&word, words + i + k, 8);
        sums[k] ^= word;
      }
    }
    for (const uint64_t part : sums) sum ^= part;
    benchmark::DoNotOptimize(sum);
  }
  count_floats(state);
}

// Reads all values and writes `share` of as many bytes: encode into bytes of the codec.
void limit_of_encode(benchmark::State& state, size_t divisor) {
  const Buffer<float> values(kCount), written(kCount);
  fill(values, 1);
  constexpr size_t kPiece = 4096;
  for (auto _ : state) {
    uint64_t sum = 0;
    for (size_t at = 0; at < kBytes; at += kPiece) {
      const auto* from = reinterpret_cast<const std::byte*>(values.data()) + at;
      auto* to = reinterpret_cast<std::byte*>(written.data()) + at / divisor;
      std::memcpy(to, from, kPiece / divisor);
      for (size_t i = kPiece / divisor; i < kPiece; i += 64) {
        for (size_t k = 0; k < 64; k += 8) {
          uint64_t word = 0;
          std::memcpy(&word, from + i + k, 8);
          sum ^= word;
        }
      }
    }
    benchmark::DoNotOptimize(sum);
    benchmark::ClobberMemory();
  }
  count_floats(state);
}

// Copies: decode.
void limit_of_copying(benchmark::State& state) {
  const Buffer<float> values(kCount), written(kCount);
  fill(values, 1);
  for (auto _ : state) {
    std::memcpy(written.data(), values.data(), kBytes);
    benchmark::ClobberMemory();
  }
  count_floats(state);
}

// result = left + result: two streams read, one of them written.
void limit_of_reading_two_and_writing(benchmark::State& state) {
  const Buffer<float> left(kCount), result(kCount);
  fill(left, 1);
  const std::byte* const sources[] = {reinterpret_cast<const std::byte*>(result.data()),
                                      reinterpret_cast<const std::byte*>(left.data())};
  for (auto _ : state) {
    element::reduce({.type = element::DataType::float32}, reinterpret_cast<std::byte*>(result.data()), nullptr, sources,
                    kCount);
    benchmark::ClobberMemory();
  }
  count_floats(state);
}

// values += factor: one stream, read and written.
void limit_of_changing(benchmark::State& state) {
  const Buffer<float> values(kCount);
  fill(values, 1);
  auto* const bytes = reinterpret_cast<std::byte*>(values.data());
  for (auto _ : state) {
    element::scale(element::DataType::float32, bytes, bytes, kCount, 1.0);
    benchmark::ClobberMemory();
  }
  count_floats(state);
}

// Writes: decode.
void limit_of_writing(benchmark::State& state) {
  const Buffer<float> written(kCount);
  for (auto _ : state) {
    std::memset(written.data(), 1, kBytes);
    benchmark::ClobberMemory();
  }
  count_floats(state);
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
bool is_right(const Codec& codec, const Buffer<std::byte>& coded, const Buffer<float>& values, float residual) {
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
  const Buffer<float> values(kCount);
  const Buffer<std::byte> coded(coded_bytes(codec, kCount));
  fill(values, 1);
  for (auto _ : state) {
    encode({.codec = codec, .values = values.data(), .count = kCount}, coded.data());
    benchmark::ClobberMemory();
  }
  if (!is_right(codec, coded, values, 0)) return state.SkipWithError("wrong codes");
  count_floats(state);
}

void encode_with_residual(benchmark::State& state, const Codec& codec) {
  const Buffer<float> values(kCount), residual(kCount);
  const Buffer<std::byte> coded(coded_bytes(codec, kCount));
  fill(values, 1);
  for (auto _ : state) {
    encode({.codec = codec,
            .values = values.data(),
            .residual = residual.data(),
            .lost = residual.data(),
            .count = kCount},
           coded.data());
    benchmark::ClobberMemory();
  }
  if (!is_right(codec, coded, values, codec.code == ValueCode::sign ? 100 : 4)) {
    return state.SkipWithError("wrong codes");
  }
  count_floats(state);
}

void decode_one(benchmark::State& state, const Codec& codec, bool adds) {
  const Buffer<float> values(kCount), decoded(kCount);
  const Buffer<std::byte> coded(coded_bytes(codec, kCount));
  fill(values, 1);
  encode({.codec = codec, .values = values.data(), .count = kCount}, coded.data());
  for (auto _ : state) {
    if (adds) {
      decode_add(codec, coded.data(), decoded.data(), kCount);
    } else {
      decode(codec, coded.data(), decoded.data(), kCount);
    }
    benchmark::ClobberMemory();
  }
  const auto times = adds ? static_cast<double>(state.iterations()) : 1.0;
  for (size_t i = 0; i < kCount; i += 101) {
    const double off = static_cast<double>(decoded[i]) / times - static_cast<double>(values[i]);
    if (!(std::abs(off) <= worst_error(codec))) return state.SkipWithError("wrong values");
  }
  count_floats(state);
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
  for (const size_t divisor : {2, 4, 8}) {
    add("limit/read+write_1/" + std::to_string(divisor), [=](benchmark::State& s) { limit_of_encode(s, divisor); });
  }
  for (const std::string name : {"bfloat16", "float16", "fp8", "mxfp8", "int8", "int4", "mxfp4", "sign",
                                 "fp8:stochastic", "int8:stochastic", "int4:stochastic"}) {
    const Codec codec = parse_codec(name);
    add(name + "/encode", [=](benchmark::State& s) { encode_one(s, codec); });
    add(name + "/encode_residual", [=](benchmark::State& s) { encode_with_residual(s, codec); });
    if (codec.is_stochastic) continue;
    add(name + "/decode", [=](benchmark::State& s) { decode_one(s, codec, false); });
    add(name + "/decode_add", [=](benchmark::State& s) { decode_one(s, codec, true); });
  }
}

}  // namespace
}  // namespace banyan::codec

int main(int argc, char** argv) {
  banyan::codec::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
