// Metrics: what this process has done, for Prometheus, by HTTP or in a file. docs/metrics.md is the manual.
//
// Nothing is done until a communicator is made; then a thread or two read the board of statistics (statistics.h). A
// failure here is a warning in the log, and never the error of a call.
#pragma once

#include <string>

namespace banyan::run {

// The values of BANYAN_METRICS and BANYAN_METRICS_HOSTS; empty where these are not set.
struct MetricsWish {
  std::string target;
  std::string hosts = {};  // by HTTP, what this host may be called beside its own name (system/host_names.h): "a,.b"
};
MetricsWish metrics_from_environment();

// Shows the metrics of this process, and of those that are forked from it and join anew, from their first communicator
// on: `target` is as target.h says; empty: nowhere. To be called once. Throws nothing.
void start_metrics(const MetricsWish& wish);

}  // namespace banyan::run
