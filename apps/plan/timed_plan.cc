#include "apps/plan/timed_plan.h"

#include <csignal>

#include "banyan/base/error.h"

namespace banyan::app {
namespace {

// Slices of a prediction may be as long as a message can be.
constexpr Bytes kMostPredictedSlice{uint64_t{1} << 30};

// A piece is an event on each tree of a kind of its own; so many take minutes.
constexpr uint64_t kMostPieces = uint64_t{1} << 22;

volatile std::sig_atomic_t interrupted = 0;

extern "C" void note_interrupt(int) { interrupted = 1; }

}  // namespace

WatchedSimulation::WatchedSimulation(Progress& progress)
    : progress_(progress), before_(std::signal(SIGINT, note_interrupt)) {}
WatchedSimulation::~WatchedSimulation() { std::signal(SIGINT, before_); }
void WatchedSimulation::progress(double fraction_done, Picoseconds) { progress_.fraction(fraction_done); }
bool WatchedSimulation::stop() { return interrupted != 0; }

void expect_few_pieces(Bytes total, Bytes slice) {
  const uint64_t pieces = total.count() / slice.count();
  if (pieces <= kMostPieces) return;
  throw Error(ErrorCode::unsupported, "slices of " + slice.to_string() + " cut " + total.to_string() + " into " +
                                          std::to_string(pieces) + " pieces, more than the " +
                                          std::to_string(kMostPieces) + " that are simulated; give " +
                                          std::to_string(total.count() / kMostPieces + 1) + " B or more");
}

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
