// ProcessView: what one process of a job knows at a moment, for who looks in from outside (banyan doctor --live).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/run/record/dump.h"
#include "banyan/run/record/health.h"
#include "banyan/run/transport/channel_transport.h"

namespace banyan::run {

// The view of one communicator of the process.
struct CommunicatorView {
  // With its newest operations, and only those of its peers that are not known to be alive.
  RankDump record;
  std::vector<LaneBytes> lanes;
};

// A rank of the world of which this process is not sure.
struct DoubtView {
  uint32_t rank = 0;
  Health health = Health::unknown;  // suspected ranks are alive
  std::string why;
};

struct ProcessView {
  // Bounds, so that it fits into a message between agents.
  static constexpr size_t kMostCommunicators = 32, kMostLanes = 512, kMostDoubts = 64, kMostOperations = 8;
  static constexpr size_t kMostMessages = 32, kMostPairs = 128;

  uint32_t rank = 0, size = 1;  // in the world
  std::string host;
  int64_t pid = 0;
  std::vector<CommunicatorView> communicators;
  std::vector<DoubtView> doubts{};
};

// Leaves out what is beyond the bounds: of lanes, those that carried least.
std::string view_to_json(ProcessView view);
// Throws Error{invalid_input} that says what is wrong where.
ProcessView parse_view(std::string_view json);

}  // namespace banyan::run
