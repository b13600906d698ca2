// The operations that ranks carry out while they do not compute.
#pragma once

#include <string>
#include <vector>

#include "banyan/predict/simulation/prediction.h"

namespace banyan::predict::report {

struct Uncovered {
  std::string name;  // of the operation, as its spans are called; "other" for all beyond the first
  double share = 0;  // of the prediction's time, the mean over all ranks that have spans
};

// Time of collectives, sends, receives and waits in which no stream of the rank computes or moves memory, largest
// first, at most `most`; operations under way together share it. It is the exposed communication and the waiting for
// others. O(spans log spans).
std::vector<Uncovered> uncovered_operations(const Prediction& prediction, size_t most);

}  // namespace banyan::predict::report
