// PlanSource: where schedules come from. The runtime executes plans and makes none (ARCHITECTURE.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/engine/rank_plan.h"
#include "banyan/run/transport/connector.h"
#include "banyan/schedule/schedule.h"

namespace banyan {

// Who the ranks of a communicator are.
struct Seating {
  std::vector<uint32_t> members;  // rank i is process members[i] of the job
  uint32_t job_size = 0;
  std::vector<uint32_t> host_of_rank;  // hosts numbered in order of first appearance
};

class PlanSource {
 public:
  PlanSource() = default;
  PlanSource(const PlanSource&) = delete;
  PlanSource& operator=(const PlanSource&) = delete;
  virtual ~PlanSource() = default;

  struct Question {
    CollectiveKind kind = CollectiveKind::allreduce;
    uint32_t root = 0;  // of broadcast and reduce; participant number
    Bytes total{0};     // as in schedule/collective.h
  };
  // The same on every rank for the same question.
  struct Answer {
    const Schedule* schedule = nullptr;  // its participants are the ranks, in order; stays as long as the source
    std::string planner;                 // "forest", for people
    uint64_t slice_bytes = 0;            // the piece that moves at once
    double seconds = 0;                  // how long it should take
    double busy_seconds = 0;             // of which the busiest link is busy
  };
  // Throws Error when there is no plan.
  virtual Answer plan(const Question& question) = 0;

  // The addresses whose packets cross the links of a lane between rank `own` and its peer; nothing when the network
  // offers no choice. The two ends of a lane get the same, turned round.
  virtual std::optional<Path> path(uint32_t own, const PlanLane& lane) const = 0;
};

}  // namespace banyan
