#include "banyan/answer/plan_answer.h"

#include <array>
#include <chrono>
#include <utility>

#include "banyan/answer/timed_plan.h"
#include "banyan/base/error.h"
#include "banyan/plan/choose.h"
#include "banyan/plan/flow/all_to_all.h"
#include "banyan/plan/planner.h"
#include "banyan/schedule/cost.h"

namespace banyan::answer {
namespace {

// Every rank roots a tree that spans all: the edges of a plan are the square of this, and so is the memory.
constexpr size_t kMaxParticipants = 16'384;

void require_plannable(const Collective& collective) {
  const size_t count = collective.participants().size();
  if (count <= kMaxParticipants) return;
  throw Error(ErrorCode::unsupported, std::to_string(count) + " ranks are more than the " +
                                          std::to_string(kMaxParticipants) +
                                          " that one plan is made for; choose some with --ranks");
}

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Times the phases of a plan and passes on what it hears. The planner reads no clock; this does.
class PlanClock : public plan::PlanObserver {
 public:
  explicit PlanClock(plan::PlanObserver* listener) : listener_(listener) {}

  void phase_begins(Phase phase) override {
    end();
    phase_ = phase;
    since_ = Stopwatch();
    if (listener_) listener_->phase_begins(phase);
  }
  void progress(double fraction_done) override {
    if (listener_) listener_->progress(fraction_done);
  }
  void works_on() override {
    if (listener_) listener_->works_on();
  }

  // The planner does not say when its last phase ends.
  void end() {
    if (phase_) seconds_[static_cast<size_t>(*phase_)] += since_.seconds();
    phase_.reset();
  }
  // Summed over all times the phase was entered (an allreduce may enter each twice). Zero for a phase never entered.
  double seconds(Phase phase) const { return seconds_[static_cast<size_t>(phase)]; }

 private:
  plan::PlanObserver* listener_;
  Stopwatch since_;
  std::optional<Phase> phase_;
  std::array<double, plan::kPlanPhases> seconds_{};
};

// The paths of an all-to-all, in place of a forest.
plan::ForestPlan plan_paths(const Fabric& fabric, const Collective& collective, const plan::ForestOptions& options) {
  if (options.trees || options.max_height) {
    throw Error(ErrorCode::invalid_input,
                std::string(to_string(collective.kind())) +
                    " takes paths; a number of trees and a height are for the other kinds",
                options.trees ? "--trees" : "--max-height");
  }
  plan::FlowPlan flow = plan::plan_all_to_all(fabric, collective, {.observer = options.observer});
  return {.schedule = std::move(flow.schedule),
          .bound = {.seconds_per_byte = flow.bound, .witness = std::move(flow.lengths)},
          .seconds_per_byte = flow.seconds_per_byte,
          .optimal = flow.optimal,
          .guaranteed_excess = {}};
}

}  // namespace

PlanAnswer make_plan(const Fabric& fabric, const Collective& collective, const plan::ForestOptions& options) {
  using Phase = plan::PlanObserver::Phase;
  require_plannable(collective);
  const Stopwatch total;
  PlanClock clock(options.observer);
  plan::ForestOptions timed = options;
  timed.observer = &clock;
  plan::ForestPlan plan =
      collective.is_personal() ? plan_paths(fabric, collective, timed) : plan_forest(fabric, collective, timed);
  const std::string_view planner = plan::planners_of(collective.kind()).front()->name;
  clock.phase_begins(Phase::verifying);
  plan::check_own_plan(plan.schedule, planner, plan.seconds_per_byte);
  clock.end();
  return {.plan = std::move(plan),
          .seconds = {.bound = clock.seconds(Phase::bound),
                      .switches = clock.seconds(Phase::switches),
                      .packing = clock.seconds(Phase::one_root) + clock.seconds(Phase::packing),
                      .lowering = clock.seconds(Phase::lowering),
                      .verify = clock.seconds(Phase::verifying),
                      .total = total.seconds()},
          .planner = std::string(planner)};
}

void choose_by_simulation(PlanAnswer& answer, Bytes total, plan::PlanObserver* planning,
                          predict::SimulationObserver* simulating, const CodecQuestion* codecs) {
  if (total.count() == 0) {
    throw invalid("there is no quickest plan for zero bytes; give a size such as 64KiB");
  }
  plan::ForestPlan& plan = answer.plan;
  std::vector<plan::Candidate> candidates =
      plan::plans_of_all(plan.schedule.fabric(), plan.schedule.collective(), planning);
  std::vector<TimedCandidate> ranking;
  if (codecs != nullptr) {
    answer.codecs = choose_codec(candidates, total, codecs->wish, codecs->cores, {.observer = simulating});
    ranking = answer.codecs->chosen().ranking;
  } else {
    ranking = rank_by_simulation(candidates, total, {.observer = simulating});
  }
  answer.contenders.clear();
  if (!is_personal(plan.schedule.collective().kind())) {
    const Bytes on_wire = answer.codecs ? answer.codecs->chosen().on_wire : total;
    answer.followed = candidates[choose_of_all(candidates, on_wire)].planner;
  }
  answer.left_out = candidates.size() - ranking.size();
  for (const auto& [candidate, time] : ranking) answer.contenders.push_back({candidates[candidate].planner, time});
  plan::Candidate& best = candidates[ranking.front().candidate];
  answer.planner = best.planner;
  plan.schedule = std::move(best.schedule);
  plan.seconds_per_byte = seconds_per_byte(plan.schedule);
  plan.optimal = plan.seconds_per_byte <= plan.bound.seconds_per_byte;
  plan.guaranteed_excess = Fraction(0);
  plan.gave_up_overlap = false;
}

schedule::ScheduleFile to_file(PlanAnswer&& answer) {
  plan::ForestPlan& plan = answer.plan;
  return {.schedule = std::move(plan.schedule),
          .planner = std::move(answer.planner),
          .claimed_seconds_per_byte = plan.seconds_per_byte,
          .bound_seconds_per_byte = plan.bound.seconds_per_byte};
}

}  // namespace banyan::answer
