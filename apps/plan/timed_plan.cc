#include "apps/plan/timed_plan.h"

#include <csignal>

namespace banyan::app {
namespace {

// Slices of a prediction may be as long as a message can be.
constexpr Bytes kMostPredictedSlice{uint64_t{1} << 30};

volatile std::sig_atomic_t interrupted = 0;

extern "C" void note_interrupt(int) { interrupted = 1; }

}  // namespace

WatchedSimulation::WatchedSimulation(Progress& progress)
    : progress_(progress), before_(std::signal(SIGINT, note_interrupt)) {}
WatchedSimulation::~WatchedSimulation() { std::signal(SIGINT, before_); }
void WatchedSimulation::progress(double fraction_done, Picoseconds) { progress_.fraction(fraction_done); }
bool WatchedSimulation::stop() { return interrupted != 0; }

TimedPlan time_plan(const Schedule& schedule, Bytes total, const TimingOptions& options, Progress& progress) {
  WatchedSimulation watch(progress);
  const auto simulate = [&](Bytes slice) {
    return TimedPlan{.slice = slice,
                     .simulation = predict::simulate_schedule(schedule, {.total = total,
                                                                .slice = slice,
                                                                .alpha = options.alpha,
                                                                .window = options.window,
                                                                .fold = options.fold,
                                                                .observer = &watch})};
  };
  if (options.slice) return simulate(*options.slice);
  const Bytes guess = plan::choose_slice(schedule, total, {.per_message = options.alpha}, kMostPredictedSlice);
  TimedPlan best = simulate(guess);
  for (const Bytes other : {Bytes(guess.count() / 4), Bytes(guess.count() * 4)}) {
    if (!best.simulation.complete) break;
    TimedPlan timed = simulate(other);
    if (timed.simulation.complete && timed.simulation.time < best.simulation.time) best = std::move(timed);
  }
  return best;
}

}  // namespace banyan::app
