// Plans timed by simulation: the time of one plan for a size, and the quickest of several.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/plan/choose.h"
#include "banyan/predict/collective/schedule_simulation.h"

namespace banyan::answer {

struct TimingOptions {
  // Absent: the best of three near the one that choose_slice would take, without those that make very many messages.
  std::optional<Bytes> slice = {};
  Picoseconds alpha = std::chrono::microseconds(5);
  Picoseconds window{0};
  bool fold = true;
  // Slices, and plans where they are chosen, are then those for the bytes of the code.
  std::optional<predict::CodecCost> codec = {};
  predict::SimulationObserver* observer = nullptr;
};

struct TimedPlan {
  Bytes slice;
  predict::ScheduleSimulation simulation;  // not complete when the observer has ended it
};

// Throws Error{unsupported} when slices are so small that a simulation would not end.
void expect_few_pieces(Bytes total, Bytes slice);

TimedPlan time_plan(const Schedule& schedule, Bytes total, const TimingOptions& options);

struct TimedCandidate {
  size_t candidate;  // index of the plan among those asked about
  Picoseconds time;
};

// The quickest for `total` bytes first; of equally quick ones the one that stands first. None that is left out is
// quicker than the first: no simulation ends before the busiest link has carried its bytes, nor before the highest tree
// has been climbed, so that a plan for which this alone takes longer than another needs is not simulated. At least one
// is needed. Throws Error{aborted} when the observer ends a simulation.
std::vector<TimedCandidate> rank_by_simulation(std::span<const plan::Candidate> candidates, Bytes total,
                                               const TimingOptions& options);

}  // namespace banyan::answer
