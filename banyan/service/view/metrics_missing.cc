// Where the library for the format of Prometheus was missing when Banyan was built.
#include "banyan/base/error.h"
#include "banyan/service/view/metrics.h"

namespace banyan::service {

std::string metrics_of(const HostView&, MetricsMemory&) {
  throw Error(ErrorCode::unsupported,
              "this daemon was built without prometheus-cpp (Debian: prometheus-cpp-dev), so it "
              "has no metrics");
}

}  // namespace banyan::service
