// Shows the phases of a plan on the progress line.
#pragma once

#include "apps/terminal.h"
#include "banyan/plan/graph/plan_observer.h"

namespace banyan::app {

class PlanProgress : public plan::PlanObserver {
 public:
  explicit PlanProgress(Progress& progress) : progress_(progress) {}

  void phase_begins(Phase phase) override { progress_.say(plan::in_words(phase)); }
  void progress(double fraction_done) override { progress_.fraction(fraction_done); }

 private:
  Progress& progress_;
};

}  // namespace banyan::app
