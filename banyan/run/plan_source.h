// PlanSource: where schedules come from. The runtime executes plans and makes none (ARCHITECTURE.md).
#pragma once

#include <cstdint>

#include "banyan/schedule/schedule.h"

namespace banyan {

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
  // The schedule to use, the same for the same question on every rank; its participants are the ranks of the
  // communicator, in order. It stays where it is as long as the source. Throws Error when there is none.
  virtual const Schedule& plan(const Question& question) = 0;
};

}  // namespace banyan
