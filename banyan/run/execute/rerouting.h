// Rerouting: which cables are to be avoided when a way between two ranks is lost, but no rank is. The ranks agree on it
// as on any other reason for new plans: revision.h.
//
// Which cable of a lost lane is broken follows from the others: a cable cannot be the one when a lane that crosses it
// was heard of later, at both of its ends. One end is not enough: where a cable loses what goes one way, its other
// end still hears. What is left may be more than the culprit; then all of it is avoided.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

namespace banyan::run {

// By one end of a lane.
struct LaneReport {
  uint32_t rank = 0, peer = 0;   // this end, and the other one
  std::vector<uint32_t> cables;  // the lane crosses
  bool is_lost = false;
  uint64_t silent_ms = 0;
};

// The cables that the reports do not exonerate.
std::set<uint32_t> lost_cables(const std::vector<LaneReport>& reports);

}  // namespace banyan::run
