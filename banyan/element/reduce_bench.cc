// Bytes read and written per second by reduce() and copy(), by type, sources and size of the result, with ordinary and
// streaming stores, in the build of the kernels that BANYAN_ISA names (default: the best). Every case checks its
// answer.
#include <benchmark/benchmark.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "banyan/element/isa.h"
#include "banyan/element/reduce.h"
#include "banyan/element/test_memory.h"

namespace banyan::element {
namespace {

using Buffer = LargeMemory<std::byte>;

// Source k holds k + 1 + i mod 5, so sums are exact in every type.
void fill(std::byte* buffer, DataType type, size_t count, size_t k) {
  for (size_t i = 0; i < count; ++i) {
    write_element(type, buffer + i * size_of(type), static_cast<double>(k + 1 + i % 5));
  }
}

void reduce_many(benchmark::State& state, DataType type, ReduceOp op) {
  const size_t sources = static_cast<size_t>(state.range(0)), bytes = static_cast<size_t>(state.range(1));
  const size_t count = bytes / size_of(type);
  // Apart by a page and a line more than the size, as separate allocations would be.
  const size_t stride = bytes + 4096 + 64;
  const Buffer memory((sources + 1) * stride);
  std::vector<const std::byte*> from;
  for (size_t k = 0; k < sources; ++k) {
    fill(memory.data() + (k + 1) * stride, type, count, k);
    from.push_back(memory.data() + (k + 1) * stride);
  }
  const ReduceTask task = {
      .type = type, .op = op, .divisor = static_cast<uint32_t>(sources), .streaming = state.range(2) != 0};
  for (auto _ : state) {
    reduce(task, memory.data(), nullptr, from, count);
    benchmark::ClobberMemory();
  }
  for (size_t i = 0; i < count; i += 1 + count / 1000) {
    double expected = static_cast<double>(sources * (sources + 1) / 2 + sources * (i % 5));
    if (op == ReduceOp::avg) expected /= static_cast<double>(sources);
    if (op == ReduceOp::max) expected = static_cast<double>(sources + i % 5);
    if (op == ReduceOp::bxor) {
      size_t bits = 0;
      for (size_t k = 0; k < sources; ++k) bits ^= k + 1 + i % 5;
      expected = static_cast<double>(bits);
    }
    if (read_element(type, memory.data() + i * size_of(type)) != expected) {
      return state.SkipWithError(("wrong at " + std::to_string(i)).c_str());
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes * (sources + 1)) * static_cast<int64_t>(state.iterations()));
}

void copy_one(benchmark::State& state) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  const Buffer from(bytes), to(bytes + 64);
  fill(from.data(), DataType::uint8, bytes, 7);
  for (auto _ : state) {
    copy(to.data(), from.data(), bytes, state.range(1) != 0);
    benchmark::ClobberMemory();
  }
  if (std::memcmp(to.data(), from.data(), bytes) != 0) return state.SkipWithError("wrong copy");
  state.SetBytesProcessed(static_cast<int64_t>(2 * bytes) * static_cast<int64_t>(state.iterations()));
}

// What a call costs: a few elements, in cache.
void reduce_few(benchmark::State& state, DataType type) {
  const size_t count = static_cast<size_t>(state.range(0));
  std::vector<std::byte> left(count * size_of(type)), right(left.size()), result(left.size());
  fill(left.data(), type, count, 0);
  fill(right.data(), type, count, 1);
  const std::byte* const sources[] = {left.data(), right.data()};
  for (auto _ : state) {
    reduce({.type = type}, result.data(), nullptr, sources, count);
    benchmark::ClobberMemory();
  }
  for (size_t i = 0; i < count; ++i) {
    if (read_element(type, result.data() + i * size_of(type)) != static_cast<double>(3 + 2 * (i % 5))) {
      return state.SkipWithError("wrong sum");
    }
  }
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"sources", "bytes", "streaming"});
  bench->ArgsProduct({{2, 4}, {4 << 10, 256 << 10, 2 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20}, {0, 1}})
      ->MinTime(0.05);
}
void copy_sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"bytes", "streaming"})
      ->ArgsProduct({{4 << 10, 256 << 10, 2 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20}, {0, 1}});
  bench->MinTime(0.05);
}

BENCHMARK_CAPTURE(reduce_many, float32_sum, DataType::float32, ReduceOp::sum)->Apply(sizes);
BENCHMARK_CAPTURE(reduce_many, float16_sum, DataType::float16, ReduceOp::sum)->Apply(sizes);
BENCHMARK_CAPTURE(reduce_many, bfloat16_sum, DataType::bfloat16, ReduceOp::sum)->Apply(sizes);
void in_cache(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"sources", "bytes", "streaming"})->Args({2, 256 << 10, 0});
}
BENCHMARK_CAPTURE(reduce_many, float32_avg, DataType::float32, ReduceOp::avg)->Apply(in_cache)->Args({7, 256 << 10, 0});
BENCHMARK_CAPTURE(reduce_many, float32_max, DataType::float32, ReduceOp::max)->Apply(in_cache);
BENCHMARK_CAPTURE(reduce_many, int8_max, DataType::int8, ReduceOp::max)->Apply(in_cache);
BENCHMARK_CAPTURE(reduce_many, int32_sum, DataType::int32, ReduceOp::sum)->Apply(in_cache);
BENCHMARK_CAPTURE(reduce_many, int32_bxor, DataType::int32, ReduceOp::bxor)->Apply(in_cache);
BENCHMARK_CAPTURE(reduce_many, float32_sum_of_8, DataType::float32, ReduceOp::sum)
    ->Args({8, 256 << 10, 0})
    ->ArgNames({"sources", "bytes", "streaming"});
BENCHMARK(copy_one)->Apply(copy_sizes);
BENCHMARK_CAPTURE(reduce_few, float32, DataType::float32)->Arg(1)->Arg(3)->Arg(16)->Arg(17)->Arg(64);
BENCHMARK_CAPTURE(reduce_few, bfloat16, DataType::bfloat16)->Arg(1)->Arg(16)->Arg(64);
BENCHMARK_CAPTURE(reduce_few, int8, DataType::int8)->Arg(13)->Arg(64);

}  // namespace
}  // namespace banyan::element

BENCHMARK_MAIN();
