// How fast jobs of ten million nodes are built, checked, read and written. Each benchmark checks what it made. Ends
// with the peak memory of the process on stderr, so run one at a time with --benchmark_filter to see whose it is.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>

#include "banyan/base/check.h"
#include "banyan/job/chakra/chakra.h"
#include "banyan/job/check.h"
#include "banyan/job/goal/goal.h"
#include "banyan/job/job.h"

namespace banyan::job {
namespace {

constexpr uint32_t kRanks = 100, kSteps = 25'000;  // four nodes a step

// A ring: every step computes, sends to the next rank, receives from the one before, and computes on what came.
Job ring_job() {
  Job::Builder builder("ring");
  const uint32_t names[] = {builder.add_name("forward"), builder.add_name("send"), builder.add_name("receive"),
                            builder.add_name("use")};
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    builder.begin_program("rank " + std::to_string(rank));
    const uint16_t cpu = builder.add_stream({"cpu 0", Stream::Order::ready});
    const uint16_t card = builder.add_stream({"cpu 0 nic 0", Stream::Order::free});
    for (uint32_t step = 0; step < kSteps; ++step) {
      const uint32_t at = 4 * step;
      builder.add_node({.stream = cpu, .name = names[0], .duration = std::chrono::nanoseconds(step + rank)});
      builder.add_node({.kind = NodeKind::send, .stream = card, .name = names[1], .slot = 0, .bytes = step});
      builder.add_node({.kind = NodeKind::receive, .stream = card, .name = names[2], .slot = 1, .bytes = step});
      builder.add_node({.stream = cpu, .name = names[3], .duration = std::chrono::nanoseconds(step)});
      if (step > 0) builder.add_need(at, at - 1);
      builder.add_need(at + 1, at);
      builder.add_need(at + 2, at);
      builder.add_need(at + 3, at + 2);
    }
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    builder.add_rank(rank, {}, std::vector{(rank + 1) % kRanks, (rank + kRanks - 1) % kRanks});
  }
  Job job = std::move(builder).build();
  CHECK_EQ(job.node_count(), uint64_t{4} * kRanks * kSteps);
  return job;
}

void report(benchmark::State& state) {
  state.SetItemsProcessed(int64_t{4} * kRanks * kSteps * state.iterations());
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}

void BuildTenMillionNodes(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(ring_job());
  report(state);
}
BENCHMARK(BuildTenMillionNodes)->Unit(benchmark::kMillisecond)->Iterations(1);

// All on one rank and named backwards, so that each node waits for a higher one and the search for circles has its
// work.
void BuildTenMillionNodesBackwards(benchmark::State& state) {
  constexpr uint32_t kNodes = 10'000'000;
  for (auto _ : state) {
    Job::Builder builder("backwards");
    builder.begin_program();
    builder.add_stream({"s", Stream::Order::ready});
    const uint32_t name = builder.add_name("x");
    for (uint32_t i = 0; i < kNodes; ++i) {
      builder.add_node({.name = name});
      if (i > 0) builder.add_need(i - 1, i);
    }
    builder.add_rank(0, {}, {});
    const Job job = std::move(builder).build();
    CHECK_EQ(job.program(0).needs(0)[0], 1u);
  }
  report(state);
}
BENCHMARK(BuildTenMillionNodesBackwards)->Unit(benchmark::kMillisecond)->Iterations(1);

void CheckTenMillionNodes(benchmark::State& state) {
  const Job job = ring_job();
  for (auto _ : state) CHECK(check_job(job).empty());
  report(state);
}
BENCHMARK(CheckTenMillionNodes)->Unit(benchmark::kMillisecond)->Iterations(1);

void GoalOfTenMillionNodes(benchmark::State& state, bool reads) {
  const Job job = ring_job();
  const std::string text = goal::write_job(job);
  for (auto _ : state) {
    if (reads) {
      CHECK_EQ(goal::parse_job(text, "ring").node_count(), job.node_count());
    } else {
      CHECK(goal::write_job(job) == text);
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
  report(state);
}
BENCHMARK_CAPTURE(GoalOfTenMillionNodes, Reads, true)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK_CAPTURE(GoalOfTenMillionNodes, Writes, false)->Unit(benchmark::kMillisecond)->Iterations(1);

void ChakraOfTenMillionNodes(benchmark::State& state, bool reads) {
  const Job job = ring_job();
  const chakra::Files files = chakra::write_job(job);
  int64_t bytes = 0;
  std::vector<chakra::TraceText> texts;
  for (const std::string& trace : files.traces) {
    bytes += static_cast<int64_t>(trace.size());
    texts.push_back({"ring", trace});
  }
  for (auto _ : state) {
    if (reads) {
      CHECK_EQ(chakra::parse_job(texts, files.groups).node_count(), job.node_count());
    } else {
      CHECK(chakra::write_job(job).traces == files.traces);
    }
  }
  state.SetBytesProcessed(bytes * state.iterations());
  report(state);
}
BENCHMARK_CAPTURE(ChakraOfTenMillionNodes, Reads, true)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK_CAPTURE(ChakraOfTenMillionNodes, Writes, false)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace banyan::job

BENCHMARK_MAIN();
