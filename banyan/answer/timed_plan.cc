#include "banyan/answer/timed_plan.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/schedule/cost.h"

namespace banyan::answer {
namespace {

// Slices of a prediction may be as long as a message can be.
constexpr Bytes kMostPredictedSlice{uint64_t{1} << 30};

// A piece is an event on each tree of a kind of its own; so many take minutes.
constexpr uint64_t kMostPieces = uint64_t{1} << 22;

// Slices are not made smaller for a better time when a simulation would have more messages; so many take seconds, on a
// slow or busy machine more than ten.
constexpr uint64_t kMostMessages = uint64_t{1} << 20;

// Into so many slices all bytes are cut at most, unless a slice was asked for: where these would be longer than
// kMostPredictedSlice, what a message costs is nothing beside its bytes.
constexpr uint64_t kMostSlices = 4096;

// Besides the slice that choose_slice would take, tried are those of so many times its size and of so many to it.
constexpr uint64_t kTriedFactor = 4;

// That every simulation needs: each message of the highest tree costs its fixed time, one after the other, and the
// busiest link carries all of its bytes.
double least_seconds(const Schedule& schedule, Bytes total, Picoseconds alpha) {
  const double climbing = static_cast<double>(heights(schedule).max) * std::chrono::duration<double>(alpha).count();
  return std::max(climbing, seconds_per_byte(schedule).to_double() * static_cast<double>(total.count()) * (1 - 1e-9));
}

Bytes bytes_on_wire(Bytes total, const TimingOptions& options) {
  return options.codec ? options.codec->coded(total) : total;
}

}  // namespace

void expect_few_pieces(Bytes total, Bytes slice) {
  const uint64_t pieces = total.count() / slice.count();
  if (pieces <= kMostPieces) return;
  throw Error(ErrorCode::unsupported, "slices of " + slice.to_string() + " cut " + total.to_string() + " into " +
                                          std::to_string(pieces) + " pieces, more than the " +
                                          std::to_string(kMostPieces) + " that are simulated; give " +
                                          std::to_string(total.count() / kMostPieces + 1) + " B or more");
}

TimedPlan time_plan(const Schedule& schedule, Bytes total, const TimingOptions& options) {
  Picoseconds window = options.window;
  const auto simulate = [&](Bytes slice) {
    return TimedPlan{.slice = slice,
                     .simulation = predict::simulate_schedule(schedule, {.total = total,
                                                                         .slice = slice,
                                                                         .alpha = options.alpha,
                                                                         .window = window,
                                                                         .fold = options.fold,
                                                                         .codec = options.codec,
                                                                         .observer = options.observer})};
  };
  if (options.slice) return simulate(*options.slice);
  const Bytes wire = bytes_on_wire(total, options);
  const Bytes guess = plan::choose_slice(schedule, wire, {.per_message = options.alpha}, kMostPredictedSlice);
  const uint64_t longest = guess.count() * kTriedFactor, least = wire.count() / kMostSlices;
  if (least > longest) {
    // Such slices move for so long that a double no longer tells picoseconds: ends that coincide would be told apart.
    const double seconds = least_seconds(schedule, wire, options.alpha);
    if (seconds >= std::chrono::duration<double>(predict::FluidNetwork::kNever).count())
      throw predict::longer_than_time();
    window = std::max(window, Picoseconds(static_cast<int64_t>(seconds * 1e3)));  // 10^-9 of it
    return simulate(Bytes(least));
  }
  TimedPlan best = simulate(Bytes(longest));
  uint64_t messages = best.simulation.messages_simulated;
  for (const Bytes smaller : {guess, Bytes(guess.count() / kTriedFactor)}) {
    if (!best.simulation.complete || messages > kMostMessages / kTriedFactor) break;
    TimedPlan timed = simulate(smaller);
    messages = timed.simulation.messages_simulated;
    if (!timed.simulation.complete || timed.simulation.time > best.simulation.time) continue;
    if (timed.simulation.time < best.simulation.time || smaller == guess) best = std::move(timed);
  }
  return best;
}

std::vector<TimedCandidate> rank_by_simulation(std::span<const plan::Candidate> candidates, Bytes total,
                                               const TimingOptions& options) {
  const Bytes carried = bytes_on_wire(total, options);
  // In the order of their estimates, which are the sum of what they need at least.
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < candidates.size(); ++i)
    order.emplace_back(estimate_seconds(candidates[i].schedule, carried, {.per_message = options.alpha}), i);
  std::stable_sort(order.begin(), order.end());
  std::vector<TimedCandidate> ranking;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [estimate, i] : order) {
    if (least_seconds(candidates[i].schedule, carried, options.alpha) > least) continue;
    const TimedPlan timed = time_plan(candidates[i].schedule, total, options);
    least = std::min(least, std::chrono::duration<double>(timed.simulation.time).count());
    if (!timed.simulation.complete) throw Error(ErrorCode::aborted, "interrupted before a plan was chosen");
    ranking.push_back({.candidate = i, .time = timed.simulation.time});
  }
  std::sort(ranking.begin(), ranking.end(), [](const TimedCandidate& a, const TimedCandidate& b) {
    return std::tie(a.time, a.candidate) < std::tie(b.time, b.candidate);
  });
  return ranking;
}

}  // namespace banyan::answer
