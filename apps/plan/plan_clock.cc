#include "apps/plan/plan_clock.h"

namespace banyan::app {

void PlanClock::phase_begins(Phase phase) {
  planning_ended();
  phase_ = phase;
  since_phase_ = Stopwatch();
  switch (phase) {
    case Phase::bound:
      progress_.say("computing the bound");
      break;
    case Phase::switches:
      progress_.say("computing capacities");
      break;
    case Phase::one_root:
      progress_.say("planning trees of one root");
      break;
    case Phase::packing:
      progress_.say("packing trees");
      break;
    case Phase::lowering:
      progress_.say("lowering trees");
      break;
  }
}

void PlanClock::progress(double fraction_done) { progress_.fraction(fraction_done); }

void PlanClock::planning_ended() {
  if (phase_) seconds_[static_cast<size_t>(*phase_)] += since_phase_.seconds();
  phase_.reset();
}

}  // namespace banyan::app
