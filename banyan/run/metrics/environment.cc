#include <cstdlib>

#include "banyan/run/metrics/metrics.h"

namespace banyan::run {

MetricsWish metrics_from_environment() {
  const auto value_of = [](const char* name) -> std::string {
    const char* const text = std::getenv(name);
    return text == nullptr ? "" : text;
  };
  return {.target = value_of("BANYAN_METRICS"), .hosts = value_of("BANYAN_METRICS_HOSTS")};
}

}  // namespace banyan::run
