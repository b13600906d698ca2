// Lossless coding of 16 MiB of elements: bytes a second, and the part that they shrink to. Every result is checked.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "banyan/element/reduce.h"
#include "banyan/tensor/lossless.h"

namespace banyan::tensor {
namespace {

// The counter `share`: the part of their bytes that the coded elements take.
void lossless(benchmark::State& state, element::DataType type, bool decodes) {
  std::vector<std::byte> elements(size_t{16} << 20);
  std::vector<float> values(elements.size() / 2);
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.01f);
  for (float& value : values) value = normal(random);  // nothing repeats
  const size_t size = element::size_of(type);
  if (type == element::DataType::float32) {
    std::memcpy(elements.data(), values.data(), elements.size());
  } else {
    element::narrow(type, elements.data(), values.data(), elements.size() / size);
  }
  std::vector<std::byte> coded = encode_lossless(elements, {.element_bytes = size}), decoded(elements.size());
  for (auto _ : state) {
    if (decodes) {
      decode_lossless(coded, decoded);
    } else {
      coded = encode_lossless(elements, {.element_bytes = size});
    }
    benchmark::ClobberMemory();
  }
  decode_lossless(coded, decoded);
  if (decoded != elements) return state.SkipWithError("wrong elements");
  state.counters["share"] = static_cast<double>(coded.size()) / static_cast<double>(elements.size());
  state.SetBytesProcessed(static_cast<int64_t>(elements.size()) * static_cast<int64_t>(state.iterations()));
}

}  // namespace
}  // namespace banyan::tensor

int main(int argc, char** argv) {
  using banyan::element::DataType;
  for (const DataType type : {DataType::float32, DataType::bfloat16, DataType::float16}) {
    for (const bool decodes : {false, true}) {
      const std::string name = "lossless_" + std::string(to_string(type)) + (decodes ? "/decode" : "/encode");
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
        banyan::tensor::lossless(state, type, decodes);
      })->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
