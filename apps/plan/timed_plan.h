// Plans and the times that the simulator gives them: what `predict` prints and `plan --bytes` chooses by.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/terminal.h"
#include "banyan/plan/choose.h"
#include "banyan/predict/collective/schedule_simulation.h"

namespace banyan::app {

struct TimingOptions {
  std::optional<Bytes> slice = {};  // absent: the best of three near the one that choose_slice would take
  Picoseconds alpha = std::chrono::microseconds(5);
  Picoseconds window{0};
  bool fold = true;
};

struct TimedPlan {
  Bytes slice;
  predict::ScheduleSimulation simulation;
};

// Throws Error{unsupported} when slices are so small that a simulation would not end.
void expect_few_pieces(Bytes total, Bytes slice);

// Ends early, and says so in the result, when Ctrl-C is pressed.
TimedPlan time_plan(const Schedule& schedule, Bytes total, const TimingOptions& options, Progress& progress);

// A long simulation that shows its progress and ends at Ctrl-C, which is the program's again when this goes.
class WatchedSimulation : public predict::SimulationObserver {
 public:
  explicit WatchedSimulation(Progress& progress);
  ~WatchedSimulation() override;
  WatchedSimulation(const WatchedSimulation&) = delete;
  WatchedSimulation& operator=(const WatchedSimulation&) = delete;

  void progress(double fraction_done, Picoseconds now) override;
  bool stop() override;

 private:
  Progress& progress_;
  void (*before_)(int);
};

}  // namespace banyan::app
