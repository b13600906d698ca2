// PlanObserver: hears what a long plan is doing, and may end it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace banyan::plan {

// The planner itself reads no clock. Called on the planning thread, often: be quick. A call that throws ends the work;
// what it throws comes out of the function that plans.
class PlanObserver {
 public:
  virtual ~PlanObserver() = default;
  // Others: planners other than the forest. Verifying is said by those who have a plan verified.
  enum class Phase : uint8_t { bound, switches, one_root, packing, lowering, others, verifying };
  virtual void phase_begins(Phase phase) = 0;
  virtual void progress(double fraction_done) = 0;  // of the phase
  virtual void works_on() {}                        // nothing to say but that it goes on: before every flow
};
constexpr size_t kPlanPhases = 7;

// "computing the bound"; a literal.
constexpr const char* in_words(PlanObserver::Phase phase) {
  switch (phase) {
    case PlanObserver::Phase::bound:
      return "computing the bound";
    case PlanObserver::Phase::switches:
      return "computing capacities";
    case PlanObserver::Phase::one_root:
      return "planning trees of one root";
    case PlanObserver::Phase::packing:
      return "packing trees";
    case PlanObserver::Phase::lowering:
      return "lowering trees";
    case PlanObserver::Phase::others:
      return "planning rings and trees";
    case PlanObserver::Phase::verifying:
      return "verifying the plan";
  }
  return "planning";
}

}  // namespace banyan::plan
