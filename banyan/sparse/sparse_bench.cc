// Selection of one value in a hundred, in the build of the kernels that BANYAN_ISA names (default: the best), beside
// what memory allows: bytes_per_second counts the values alone. Every case checks its answer.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "banyan/element/reduce.h"
#include "banyan/element/test_memory.h"
#include "banyan/sparse/row_message.h"
#include "banyan/sparse/row_shards.h"
#include "banyan/sparse/selection.h"

namespace banyan::sparse {
namespace {

constexpr size_t kBytes = size_t{64} << 20, kCount = kBytes / sizeof(float), kMost = kCount / 100;

struct Buffer {
  std::span<float> values() const { return {memory.data(), kCount}; }
  element::LargeMemory<float> memory{kCount};
};

// All different: no value is there twice.
void fill(const Buffer& buffer) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (float& value : buffer.values()) value = normal(random);
}

float exact_threshold(std::span<const float> values) {
  std::vector<float> magnitudes(values.begin(), values.end());
  for (float& value : magnitudes) value = std::fabs(value);
  std::nth_element(magnitudes.begin(), magnitudes.begin() + kMost - 1, magnitudes.end(), std::greater<>());
  return magnitudes[kMost - 1];
}

void count_floats(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<int64_t>(kBytes) * static_cast<int64_t>(state.iterations()));
}

// ---- Limits ----

void limit_of_reading(benchmark::State& state) {
  typedef uint64_t Words __attribute__((vector_size(16)));
  const Buffer buffer;
  fill(buffer);
  for (auto _ : state) {
    Words first = {}, second = {};
    for (const float* from = buffer.values().data(); from != buffer.values().data() + kCount; from += 16) {
      Words words[4];
      std::memcpy(words, from, sizeof words);
      first ^= words[0] ^ words[1];
      second ^= words[2] ^ words[3];
    }
    first ^= second;
    benchmark::DoNotOptimize(first);
  }
  count_floats(state);
}

// result = left + result: the bytes of a filter with a residual.
void limit_of_reading_two_and_writing(benchmark::State& state) {
  const Buffer left, result;
  fill(left);
  const std::byte* const sources[] = {reinterpret_cast<const std::byte*>(result.values().data()),
                                      reinterpret_cast<const std::byte*>(left.values().data())};
  for (auto _ : state) {
    element::reduce({.type = element::DataType::float32}, reinterpret_cast<std::byte*>(result.values().data()), nullptr,
                    sources, kCount);
    benchmark::ClobberMemory();
  }
  count_floats(state);
}

// ---- Selection ----

void select_by_nth_element(benchmark::State& state) {
  const Buffer buffer;
  fill(buffer);
  for (auto _ : state) benchmark::DoNotOptimize(exact_threshold(buffer.values()));
  count_floats(state);
}

void above(benchmark::State& state) {
  const Buffer buffer;
  fill(buffer);
  const float threshold = exact_threshold(buffer.values());
  RowList chosen;
  for (auto _ : state) select_above(buffer.values(), {}, threshold, chosen);
  if (chosen.rows.size() != kMost) return state.SkipWithError("other values");
  count_floats(state);
}

// What stays behind is added in the next round.
void above_with_residual(benchmark::State& state) {
  const Buffer buffer, residual;
  fill(buffer);
  const float threshold = 80;  // which the mean magnitude of 0.8 reaches every hundredth time
  RowList chosen;
  double sent = 0;
  for (auto _ : state) {
    select_above(buffer.values(), residual.values(), threshold, chosen);
    state.PauseTiming();
    for (const float value : chosen.values) sent += value;
    state.ResumeTiming();
  }
  double left = 0, given = 0;
  for (const float value : residual.values()) left += value;
  for (const float value : buffer.values()) given += value;
  if (std::fabs(given * static_cast<double>(state.iterations()) - sent - left) > 1e-4 * kCount) {
    return state.SkipWithError("something was lost");
  }
  count_floats(state);
}

void threshold_by_sample(benchmark::State& state) {
  const Buffer buffer;
  fill(buffer);
  float threshold = 0;
  for (auto _ : state) benchmark::DoNotOptimize(threshold = sampled_threshold(buffer.values(), {}, kMost));
  if (std::fabs(threshold - exact_threshold(buffer.values())) > 0.1F) return state.SkipWithError("another threshold");
  count_floats(state);
}

void largest(benchmark::State& state) {
  const Buffer buffer;
  fill(buffer);
  RowList chosen;
  for (auto _ : state) select_largest(buffer.values(), {}, kMost, chosen);
  const float threshold = exact_threshold(buffer.values());
  const bool are_right = chosen.rows.size() == kMost && std::all_of(chosen.values.begin(), chosen.values.end(),
                                                                    [&](float v) { return std::fabs(v) >= threshold; });
  if (!are_right) return state.SkipWithError("other values");
  count_floats(state);
}

void largest_with_residual(benchmark::State& state) {
  const Buffer buffer, residual;
  fill(buffer);
  RowList chosen;
  for (auto _ : state) select_largest(buffer.values(), residual.values(), kMost, chosen);
  if (chosen.rows.size() != kMost) return state.SkipWithError("other values");
  count_floats(state);
}

// One value in a hundred to 16 owners: partition, and all messages.
void to_owners(benchmark::State& state) {
  const Buffer buffer;
  fill(buffer);
  const RowList chosen = select_largest(buffer.values(), {}, kMost);
  const RowShards shards(kCount, 16, 1);
  size_t bytes = 0;
  for (auto _ : state) {
    bytes = 0;
    const RowPartition parts = partition(shards, chosen.rows);
    for (uint32_t shard = 0; shard < 16; ++shard) {
      bytes += write_row_message({.shard = shard, .rows = shards.rows_of(shard)},
                                 rows_of_shard(parts, shard, chosen.values, 1))
                   .size();
    }
  }
  state.counters["bytes"] = static_cast<double>(bytes);
  if (bytes < kMost * 5 || bytes > kMost * 8) return state.SkipWithError("other bytes");
}

void register_all() {
  const auto add = [](const char* name, auto function) {
    benchmark::RegisterBenchmark(name, function)->Unit(benchmark::kMillisecond)->MinTime(0.2);
  };
  add("limit/read", limit_of_reading);
  add("limit/read+read+write", limit_of_reading_two_and_writing);
  add("above", above);
  add("above_with_residual", above_with_residual);
  add("sampled_threshold", threshold_by_sample);
  add("largest", largest);
  add("largest_with_residual", largest_with_residual);
  add("largest/nth_element", select_by_nth_element);
  add("to_owners", to_owners);
}

}  // namespace
}  // namespace banyan::sparse

int main(int argc, char** argv) {
  banyan::sparse::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
