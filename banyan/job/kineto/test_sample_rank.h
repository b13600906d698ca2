// RankRun: one rank of the sample's run in time: two threads of the host, and streams of a GPU that wait for one
// another. What it does, its profiler writes down. Times are ns of the rank's clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "banyan/job/kineto/test_sample_profiler.h"

namespace banyan::testing {

class RankRun {
 public:
  RankRun(const SampleOptions& options, uint32_t rank);

  int64_t now(uint64_t thread) const { return threads_.at(thread); }
  // The thread does nothing until then.
  void idle_until(uint64_t thread, int64_t time) { threads_[thread] = time; }

  // An operator that takes time and does nothing of note.
  void plain(uint64_t thread, const std::string& name, int64_t ns);
  // An operator that launches a kernel.
  struct Kernel {
    std::string op, name;
    int stream;
    int64_t host_ns, gpu_ns;
  };
  void kernel(uint64_t thread, const Kernel& kernel);
  // A copy to the host on a stream, for which the host then waits.
  void copy_to_host(int stream);
  // Stream `stream` waits for what stream `source` has now.
  void wait(uint64_t thread, int stream, int source);
  void step(uint32_t number, int64_t start) { profiler_.step(number, start, now(kMainThread)); }

  // A communication of which this rank has launched its part. It ends when all have.
  struct Begun {
    int stream;
    int64_t start;  // of its first kernel
    std::vector<int64_t> correlations;
    int64_t external;
    bool lost;
  };
  Begun begin_comm(const SampleComm& comm, uint64_t thread, int stream, std::optional<int> after);
  void end_comm(const Begun& begun, const SampleComm& comm, int64_t end);

  // How far its clock is ahead of the common one.
  int64_t clock_ahead() const { return clock_ahead_; }
  int64_t first() const { return first_; }
  int64_t last() const { return last_; }
  // The traces and kernels; calls and the end are the run's to say.
  SampleRank finish() &&;

 private:
  SampleProfiler::Operator begin(uint64_t thread);
  void call(uint64_t thread, const std::string& name, int64_t ns, int64_t correlation);
  int64_t launch(uint64_t thread, const std::string& name, int64_t correlation, bool lost = false);
  int64_t earliest(int stream, int64_t launched);
  void run_on_gpu(const SampleProfiler::GpuEvent& event);
  // The thread is busy.
  void pass(uint64_t thread, int64_t ns) { threads_[thread] += ns; }

  const SampleOptions& options_;
  const uint32_t rank_;
  int64_t clock_ahead_ = 0;
  SampleProfiler profiler_;
  std::map<uint64_t, int64_t> threads_;        // their time
  std::map<int, int64_t> free_;                // by stream: when it is
  std::map<int, std::vector<int64_t>> waits_;  // by stream: ends to wait for before the next work
  int64_t correlation_ = 100;
  uint32_t comms_ = 0;
  int64_t first_ = INT64_MAX, last_ = 0;
  std::vector<SampleKernel> kernels_;
};

}  // namespace banyan::testing
