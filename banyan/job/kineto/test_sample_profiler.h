// What PyTorch's profilers would write of one rank of a sample: a Kineto trace and a host trace, with the pieces left
// out that SampleOptions says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/job/kineto/test_sample.h"

namespace banyan::testing {

// The host's threads of the program.
constexpr uint64_t kMainThread = 1001, kAutogradThread = 1002;

// A call of a communication on one rank.
struct SampleComm {
  std::string name;    // as PyTorch calls it
  std::string kernel;  // as NCCL does
  uint64_t in = 0, out = 0;
  uint32_t group = 0;  // number of its name
  std::vector<uint32_t> ranks;
  uint32_t peer = 0;  // in the group: root, or own rank, or the other
  uint32_t kernels = 1;
  bool message = false;
  uint32_t sender = 0, receiver = 0;
};

class SampleProfiler {
 public:
  // The options are borrowed.
  SampleProfiler(const SampleOptions& options, uint32_t rank);

  // An operator of the host from its begin to its end; those in between are within it.
  struct Operator {
    uint64_t thread, id;
    int64_t external, record, index, start;
  };
  Operator begin(uint64_t thread, int64_t now);
  void end(const Operator& op, const std::string& name, int64_t now, const SampleComm* comm = nullptr);

  // Times are ns of the rank's clock.
  void call(uint64_t thread, const std::string& name, int64_t start, int64_t ns, int64_t correlation);
  void arrow(uint64_t thread, int64_t start, int64_t correlation);
  // What a call waits for: a stream, or an event that the call with correlation `recorded` recorded on `source`.
  struct Sync {
    std::string kind;
    int64_t correlation;
    int stream;
    std::optional<int> source;
    int64_t recorded;
  };
  void sync(const Sync& sync);
  struct GpuEvent {
    const char* category;
    std::string name;
    int stream;
    int64_t start, duration, correlation, external;
    std::string more;  // args
  };
  void gpu(const GpuEvent& event);
  void step(uint32_t number, int64_t start, int64_t end);

  // The args of a kernel that carries it out.
  std::string kernel_args(const SampleComm& comm) const;

  std::string kineto() &&;
  std::string host() const;

 private:
  void node(const Operator& op, const std::string& name, const SampleComm* comm);
  std::string comm_args(const SampleComm& comm) const;
  std::string message_args(const SampleComm& comm) const;
  std::string group_table() const;
  void group_init();

  struct Written {
    int64_t start;
    std::string json;
  };
  const SampleOptions& options_;
  const uint32_t rank_;
  std::vector<std::string> events_, nodes_;
  std::vector<Written> gpu_;
  std::vector<uint64_t> open_nodes_;  // ids
  int64_t external_ = 500, record_ = 1, index_ = 0;
  uint64_t id_ = 3;
  uint32_t skip_, operators_ = 0;
};

}  // namespace banyan::testing
