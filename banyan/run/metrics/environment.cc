#include <cstdlib>

#include "banyan/run/metrics/metrics.h"

namespace banyan::run {

std::string metrics_from_environment() {
  const char* const text = std::getenv("BANYAN_METRICS");
  return text == nullptr ? "" : text;
}

}  // namespace banyan::run
