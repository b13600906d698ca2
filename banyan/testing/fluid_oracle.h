// An obviously right fluid network, to hold the quick one against: after every event all rates are found again by the
// textbook's progressive filling, one bottleneck at a time. Shares no code with predict/fluid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace banyan::testing {

struct OracleFlow {
  std::vector<std::pair<uint32_t, double>> hops;  // link, bytes there per byte of the flow
  double bytes = 0;
  double start_seconds = 0;
  double weight = 1;
  double cap = 0;  // bytes per second; 0: none
  int priority = 0;
};

// Weighted max-min fair rates of all flows, priority by priority. O(flows^2 * links).
std::vector<double> fair_rates(const std::vector<double>& capacities, const std::vector<OracleFlow>& flows);

// Why `rates` are not the fair ones, empty when they are: looks at the definition only, not at how they came about.
// `tolerance` is relative.
std::string why_not_fair(const std::vector<double>& capacities, const std::vector<OracleFlow>& flows,
                         const std::vector<double>& rates, double tolerance);

// When each flow ends, in seconds.
std::vector<double> ends(const std::vector<double>& capacities, const std::vector<OracleFlow>& flows);

}  // namespace banyan::testing
