// The metrics page of a process: what the board of statistics says, as families of Prometheus. docs/metrics.md lists
// them.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "banyan/run/communicator/statistics.h"

namespace banyan::run {

// Peers for which a communicator has waited each have a label of their own; beyond this number the others are summed
// as "others". A peer that has a label keeps it, and no value ever falls.
class PeerLabels {
 public:
  static constexpr size_t kMost = 64;

  struct Value {
    std::string peer;
    uint64_t nanoseconds;
  };
  // The values of the next reading. `waited`: nanoseconds by rank, none lower than at the last.
  std::vector<Value> next(const std::vector<uint64_t>& waited);

 private:
  std::vector<uint64_t> last_;
  std::map<size_t, uint64_t> shown_;  // ranks with a label, and what of theirs stays with the others
};

// Any thread.
class MetricsPage : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
  // The same as text.
  std::string text() const;

 private:
  mutable std::mutex mutex_;                          // protects what follows
  mutable std::map<std::string, PeerLabels> labels_;  // by communicator
};

// The process whose metrics are shown.
struct ShownProcess {
  JobPlace place = {};
  std::string job = {};     // by the scheduler; empty: none
  uint64_t not_proved = 0;  // callers that did not prove themselves (run/join/acceptor.h)
};
// The metrics of `statistics`, which are indexed by the name of the communicator. Pure, but for `labels`.
std::vector<prometheus::MetricFamily> metrics_of(const std::map<std::string, Statistics>& statistics,
                                                 const ShownProcess& process,
                                                 std::map<std::string, PeerLabels>& labels);

}  // namespace banyan::run
