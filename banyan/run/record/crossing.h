// Communicators that wait for one another: the same processes call them in different orders.
#pragma once

#include <span>
#include <vector>

#include "banyan/run/record/communicator_case.h"

namespace banyan::run {

// One process on the way from communicator to communicator: in an operation of `in`, where it is `rank`, it waits for
// the next one.
struct CrossingStep {
  const CommunicatorCase* in = nullptr;
  uint32_t rank = 0;
};

// A circle of processes, each waiting in one communicator for the next, which has not made that call because it waits
// in another. At least two steps; empty when there is none.
std::vector<CrossingStep> find_crossing(std::span<const CommunicatorCase> cases);

Finding crossing_finding(const std::vector<CrossingStep>& circle);

// The operation of another communicator in which the process of this rank is; no `in` when it is in none.
CrossingStep elsewhere(std::span<const CommunicatorCase> cases, const CommunicatorCase& here, uint32_t rank);

}  // namespace banyan::run
