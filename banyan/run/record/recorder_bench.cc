// What recording costs an operation: begin and end of the smallest, which read the exact clock every 31st time, and of
// a large one, which always do. The aim for the first is 15 ns, a tenth of the smallest allreduce between two cores.
#include <benchmark/benchmark.h>

#include "banyan/base/check.h"
#include "banyan/run/record/recorder.h"

namespace banyan::run {
namespace {

alignas(64) std::byte g_memory[Recorder::kMemoryBytes];

void record(benchmark::State& state) {
  Recorder recorder(g_memory);
  for (auto _ : state) {
    Recorder::Entry entry = recorder.begin({.kind = OperationKind::all_reduce,
                                            .type = element::DataType::float32,
                                            .count = static_cast<uint64_t>(state.range(0))});
    benchmark::ClobberMemory();
    entry.finish();
  }
  const auto last = current_operation(g_memory);
  CHECK(last && last->sequence == static_cast<uint64_t>(state.iterations()) && last->state == OperationState::done);
}
BENCHMARK(record)->Arg(1)->Arg(1 << 20);

void look(benchmark::State& state) {
  Recorder recorder(g_memory);
  recorder.begin({.kind = OperationKind::barrier});
  for (auto _ : state) {
    const auto now = current_operation(g_memory);
    CHECK(now && now->sequence == 1);
  }
}
BENCHMARK(look);

}  // namespace
}  // namespace banyan::run

BENCHMARK_MAIN();
