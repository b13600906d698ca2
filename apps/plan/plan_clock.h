// Times the phases of a plan and shows them on the progress line. The planner reads no clock; this does.
#pragma once

#include <array>
#include <chrono>
#include <optional>

#include "apps/terminal.h"
#include "banyan/plan/forest.h"

namespace banyan::app {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class PlanClock : public plan::PlanObserver {
 public:
  explicit PlanClock(Progress& progress) : progress_(progress) {}

  void phase_begins(Phase phase) override;
  void progress(double fraction_done) override;
  // The planner does not say when its last phase ends; whoever called it does.
  void planning_ended();

  // Summed over all times the phase was entered (an allreduce may enter each twice). Zero for a phase never entered.
  double seconds(Phase phase) const { return seconds_[static_cast<size_t>(phase)]; }

 private:
  Progress& progress_;
  Stopwatch since_phase_;
  std::optional<Phase> phase_;
  std::array<double, 5> seconds_{};
};

}  // namespace banyan::app
