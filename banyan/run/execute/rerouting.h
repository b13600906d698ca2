// Rerouting: which cables are to be avoided when a path between two ranks is lost, but no rank is. The ranks agree on
// it as on any other reason for new plans: revision.h.
//
// The other lanes show which cable of a lost lane is broken: a cable is not the one if both ends of another lane that
// crosses it have received something later. One end is not enough: if a cable loses data in one direction, the end that
// sends that way still receives. Several cables may remain; then all of them are avoided.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

namespace banyan::run {

// Report of one end of a lane.
struct LaneReport {
  uint32_t rank = 0, peer = 0;   // this end, and the other one
  std::vector<uint32_t> cables;  // the lane crosses
  bool is_lost = false;
  uint64_t silent_ms = 0;
};

// The cables that the reports do not exonerate.
std::set<uint32_t> lost_cables(const std::vector<LaneReport>& reports);

}  // namespace banyan::run
