// What one execution takes on this machine, by collective, transport, ranks and total. Every run checks its answer.
#include <benchmark/benchmark.h>

#include <string>

#include "banyan/run/trial/local.h"
#include "banyan/testing/test_sample_forest.h"

namespace banyan::run {
namespace {

void run(benchmark::State& state, CollectiveKind kind, Communicator::Transports transport) {
  const Schedule schedule =
      testing::sample_forest({.kind = kind, .ranks = static_cast<uint32_t>(state.range(0)), .trees_per_root = 1});
  const Bytes total(static_cast<uint64_t>(state.range(1)));
  for (auto _ : state) {
    const LocalRunReport report = run_locally(schedule, {.total = total, .transport = transport, .repeats = 21});
    if (report.wrong_elements > 0) return state.SkipWithError(report.first_wrong.c_str());
    state.SetIterationTime(report.median_seconds);
  }
  state.SetBytesProcessed(static_cast<int64_t>(total.count()) * static_cast<int64_t>(state.iterations()));
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"ranks", "bytes"})->ArgsProduct({{2, 4, 8}, {8 << 10, 1 << 20, 8 << 20}});
  bench->UseManualTime()->Iterations(3)->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(run, allreduce_shm, CollectiveKind::all_reduce, Communicator::Transports::automatic)->Apply(sizes);
BENCHMARK_CAPTURE(run, allreduce_tcp, CollectiveKind::all_reduce, Communicator::Transports::tcp)->Apply(sizes);
BENCHMARK_CAPTURE(run, allgather_shm, CollectiveKind::all_gather, Communicator::Transports::automatic)->Apply(sizes);
BENCHMARK_CAPTURE(run, allgather_tcp, CollectiveKind::all_gather, Communicator::Transports::tcp)->Apply(sizes);
BENCHMARK_CAPTURE(run, reduce_scatter_shm, CollectiveKind::reduce_scatter, Communicator::Transports::automatic)
    ->Apply(sizes);

}  // namespace
}  // namespace banyan::run

BENCHMARK_MAIN();
