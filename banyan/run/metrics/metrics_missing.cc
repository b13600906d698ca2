// Where the library for the format of Prometheus was missing when Banyan was built.
#include "banyan/run/metrics/metrics.h"
#include "banyan/run/record/log.h"

namespace banyan::run {

void start_metrics(const MetricsWish& wish) {
  if (wish.target.empty()) return;
  BANYAN_LOG(warning) << "BANYAN_METRICS is set, but this library was built without prometheus-cpp (Debian: "
                         "prometheus-cpp-dev): there are no metrics";
}

}  // namespace banyan::run
