#include "banyan/job/kineto/test_sample_rank.h"

#include <algorithm>
#include <utility>

namespace banyan::testing {
namespace {

constexpr int64_t kEpoch = 1'700'000'000'000'000'000;

}  // namespace

RankRun::RankRun(const SampleOptions& options, uint32_t rank)
    : options_(options), rank_(rank), profiler_(options, rank) {
  const auto clock = options.clocks.find(rank);
  if (clock != options.clocks.end()) clock_ahead_ = clock->second;
  threads_[kMainThread] = kEpoch + clock_ahead_ + 1000 * rank;
  threads_[kAutogradThread] = 0;
}

SampleProfiler::Operator RankRun::begin(uint64_t thread) {
  first_ = std::min(first_, now(thread));
  return profiler_.begin(thread, now(thread));
}

void RankRun::plain(uint64_t thread, const std::string& name, int64_t ns) {
  const auto op = begin(thread);
  pass(thread, ns);
  profiler_.end(op, name, now(thread));
}

void RankRun::call(uint64_t thread, const std::string& name, int64_t ns, int64_t correlation) {
  profiler_.call(thread, name, now(thread), ns, correlation);
  pass(thread, ns);
  last_ = std::max(last_, now(thread));
}

// The call that launches; returns its end.
int64_t RankRun::launch(uint64_t thread, const std::string& name, int64_t correlation, bool lost) {
  const int64_t begin = now(thread);
  constexpr int64_t kLaunchTime = 5'000;
  if (options_.runtime && !lost) profiler_.call(thread, name, begin, kLaunchTime, correlation);
  if (!lost) profiler_.arrow(thread, begin, correlation);
  pass(thread, kLaunchTime);
  last_ = std::max(last_, now(thread));
  return now(thread);
}

// When work that is launched now can begin.
int64_t RankRun::earliest(int stream, int64_t launched) {
  int64_t at = std::max(free_[stream], launched + 4'000);
  for (const int64_t end : std::exchange(waits_[stream], {})) at = std::max(at, end);
  return at;
}

void RankRun::run_on_gpu(const SampleProfiler::GpuEvent& event) {
  profiler_.gpu(event);
  free_[event.stream] = event.start + event.duration;
  last_ = std::max(last_, free_[event.stream]);
}

void RankRun::kernel(uint64_t thread, const Kernel& kernel) {
  const auto op = begin(thread);
  pass(thread, kernel.host_ns);
  const int64_t correlation = correlation_++;
  const int64_t launched = launch(thread, "cudaLaunchKernel", correlation);
  run_on_gpu({.category = "kernel",
              .name = kernel.name,
              .stream = kernel.stream,
              .start = earliest(kernel.stream, launched),
              .duration = kernel.gpu_ns,
              .correlation = correlation,
              .external = op.external,
              .more = ""});
  kernels_.push_back({kernel.name, "GPU 0 stream " + std::to_string(kernel.stream), kernel.gpu_ns});
  pass(thread, 2'000);
  profiler_.end(op, kernel.op, now(thread));
}

void RankRun::copy_to_host(int stream) {
  const auto op = begin(kMainThread);
  const int64_t correlation = correlation_++;
  const int64_t launched = launch(kMainThread, "cudaMemcpyAsync", correlation);
  run_on_gpu({.category = "gpu_memcpy",
              .name = "Memcpy DtoH (Device -> Pinned)",
              .stream = stream,
              .start = earliest(stream, launched),
              .duration = 7'000,
              .correlation = correlation,
              .external = op.external,
              .more = "\"bytes\": 4096"});
  const int64_t sync = correlation_++;
  const int64_t until = std::max(free_[stream], now(kMainThread)) + 6'000;
  call(kMainThread, "cudaStreamSynchronize", until - now(kMainThread), sync);
  profiler_.sync({.kind = "Stream Sync", .correlation = sync, .stream = stream, .source = {}, .recorded = 0});
  profiler_.end(op, "aten::_local_scalar_dense", now(kMainThread));
}

void RankRun::wait(uint64_t thread, int stream, int source) {
  const int64_t recorded = correlation_++;
  call(thread, "cudaEventRecord", 1'000, recorded);
  const int64_t correlation = correlation_++;
  call(thread, "cudaStreamWaitEvent", 1'000, correlation);
  waits_[stream].push_back(free_[source]);
  profiler_.sync({.kind = "Stream Wait Event",
                  .correlation = correlation,
                  .stream = stream,
                  .source = source,
                  .recorded = recorded});
}

RankRun::Begun RankRun::begin_comm(const SampleComm& comm, uint64_t thread, int stream, std::optional<int> after) {
  const std::string base = comm.name.front() == '_' ? comm.name.substr(1) : comm.name;
  const auto outer = begin(thread);
  pass(thread, 3'000);
  const auto told = begin(thread);
  pass(thread, 2'000);
  if (after) wait(thread, stream, *after);
  const auto inner = begin(thread);
  Begun begun{.stream = stream,
              .start = 0,
              .correlations = {},
              .external = told.external,
              .lost = options_.lost_kernels.contains({rank_, comms_++})};
  for (uint32_t k = 0; k < comm.kernels; ++k) {
    begun.correlations.push_back(correlation_++);
    const int64_t launched = launch(thread, "cudaLaunchKernelExC", begun.correlations.back(), begun.lost);
    if (k == 0) begun.start = earliest(stream, launched);
  }
  profiler_.end(inner, "nccl:" + base, now(thread));
  pass(thread, 1'000);
  profiler_.end(told, "record_param_comms", now(thread), &comm);
  pass(thread, 1'000);
  profiler_.end(outer, "c10d::" + base + "_", now(thread));
  return begun;
}

void RankRun::end_comm(const Begun& begun, const SampleComm& comm, int64_t end) {
  const auto kernels = static_cast<int64_t>(begun.correlations.size());
  for (int64_t k = 0; k < kernels && !begun.lost; ++k) {
    const int64_t from = begun.start + (end - begun.start) * k / kernels,
                  to = begun.start + (end - begun.start) * (k + 1) / kernels;
    run_on_gpu({.category = "kernel",
                .name = comm.kernel,
                .stream = begun.stream,
                .start = from,
                .duration = to - from - (k + 1 < kernels ? 500 : 0),
                .correlation = begun.correlations[static_cast<size_t>(k)],
                .external = begun.external,
                .more = profiler_.kernel_args(comm)});
  }
  free_[begun.stream] = end;
  last_ = std::max(last_, end);
}

SampleRank RankRun::finish() && {
  SampleRank out;
  out.kernels = std::move(kernels_);
  out.host = profiler_.host();
  out.kineto = std::move(profiler_).kineto();
  return out;
}

}  // namespace banyan::testing
