#include "banyan/predict/simulation/flows.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace banyan::predict {
namespace {

constexpr double kSecondsPerPicosecond = 1e-12;

// By step of the loads, the bytes that the link could carry, as its bandwidth was then.
std::vector<double> most_bytes(const Fabric& fabric, const LinkTimeline& timeline, LinkId link, Picoseconds load_step) {
  const double own = static_cast<double>(fabric.link(link).bandwidth.bytes_per_second());
  const double step = static_cast<double>(load_step.count());
  double bandwidth = own;
  std::vector<double> most(LoadSeries::kSteps, own * step * kSecondsPerPicosecond);
  // Each change adds its difference to all steps after it, and its part to the step that it falls into.
  for (const LinkTimeline::Moment& moment : timeline.moments()) {
    const auto change = std::ranges::lower_bound(moment.changes, link, {}, &LinkEvent::link);
    if (change == moment.changes.end() || change->link != link) continue;
    const double next = change->bandwidth ? static_cast<double>(change->bandwidth->bytes_per_second()) : own;
    const double more = (next - std::exchange(bandwidth, next)) * step * kSecondsPerPicosecond;
    const double at = static_cast<double>(moment.time.count()) / step;
    for (size_t i = 0; i < most.size(); ++i) most[i] += more * (1 - std::clamp(at - static_cast<double>(i), 0.0, 1.0));
  }
  return most;
}

}  // namespace

JobLoad load_of(std::span<const FluidHop> bytes_on, double efficiency, Picoseconds latency) {
  JobLoad load{.hops = bytes_on, .unit = 0, .efficiency = efficiency, .latency = latency};
  // The flow counts the bytes of the link where it has most.
  for (const FluidHop& hop : load.hops) load.unit = std::max(load.unit, hop.coefficient);
  // Above an efficiency of 1, switches reduce, and links carry less.
  load.bytes = load.unit / std::max(1.0, efficiency);
  return load;
}

JobFlows::JobFlows(const std::vector<PlacedJob>& jobs, const JobKinds& kinds, JobLinks& links,
                   const JobSimulationOptions& options)
    : jobs_(jobs),
      kinds_(kinds),
      links_(links),
      on_failure_(options.on_failure),
      network_(kinds.capacities(), {.window = options.window}),
      loads_(kinds.capacities().size()) {}

uint32_t JobFlows::new_flow() {
  if (free_.empty()) {
    flows_.emplace_back();
    return static_cast<uint32_t>(flows_.size() - 1);
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  return number;
}

void JobFlows::release(uint32_t number) {
  flows_[number].is_under_way = false;
  free_.push_back(number);
}

void JobFlows::start(Owner owner, uint32_t job, uint32_t alike, const JobLoad& load) {
  const uint32_t number = new_flow();
  Flow& flow = flows_[number];
  flow.owner = owner;
  flow.job = job;
  flow.alike = alike;
  flow.begin = now();
  flow.moves_from = flow.begin + load.latency;
  flow.is_under_way = true;
  set_out(number, load, 1);
  // A flow may begin on a link that has failed before.
  if (on_failure_ == OnFailure::fail && links_.is_blocked(flow.way)) failing_.push_back(job);
}

// Puts what is left of a flow, `fraction` of all, on links.
void JobFlows::set_out(uint32_t number, const JobLoad& load, double fraction) {
  Flow& flow = flows_[number];
  double seconds = 0;  // for `unit` bytes of the flow, at the busiest link at its full bandwidth
  for (const FluidHop& hop : load.hops) seconds = std::max(seconds, hop.coefficient / links_.usable(hop.link));
  flow.efficiency = load.efficiency;
  flow.unit = load.unit;
  flow.all = load.bytes;
  if (links_.ever_change()) flow.way.assign(load.hops.begin(), load.hops.end());
  // All that are alike move at once: on kinds of links they load what one of them loads on links.
  flow.hops = kinds_.folded(load.hops, flow.alike);
  for (FluidHop& hop : flow.hops) hop.coefficient /= load.unit;
  flow.bytes = load.bytes * fraction;
  flow.booked = 0;
  flow.booked_until = now();
  // A share of what its links would allow is a cap on its rate.
  Bandwidth cap;
  if (load.efficiency < 1 && seconds > 0) {
    const double rate = std::max(1.0, std::round(load.unit / seconds * load.efficiency));
    cap = Bandwidth::bytes_per_second(static_cast<uint64_t>(rate));
  }
  flow.fluid = network_.start({.hops = flow.hops,
                               .bytes = flow.bytes,
                               .latency = std::max(Picoseconds(0), flow.moves_from - now()),
                               .weight = jobs_[flow.job].weight,
                               .cap = cap,
                               .priority = jobs_[flow.job].priority,
                               .tag = number});
}

// Adds to the loads what the flow has moved since it was booked last, `left` of its bytes being left.
void JobFlows::book(Flow& flow, double left) {
  const double moved = flow.bytes - left - std::exchange(flow.booked, flow.bytes - left);
  const Picoseconds since = std::exchange(flow.booked_until, now());
  for (const FluidHop& hop : flow.hops) loads_.add(hop.link, hop.coefficient * moved, since, now());
}

const std::vector<JobFlows::Ended>& JobFlows::advance(Picoseconds time) {
  ended_.clear();
  for (const FluidEnd& end : network_.advance(time)) {
    const uint32_t number = static_cast<uint32_t>(end.tag);
    // The loads get what it has moved since it was booked last.
    book(flows_[number], 0);
    ended_.push_back({flows_[number].owner, flows_[number].begin});
    release(number);
  }
  return ended_;
}

void JobFlows::change_links(const std::function<JobLoad(Owner)>& load_now) {
  // 1. Flows that the change touches, or that cross a failed link, are booked up to now at the rates they had.
  const LinkTimeline::Moment& moment = links_.change();
  std::vector<bool> has_changed(kinds_.link_count(), false);
  std::vector<std::pair<uint32_t, double>> affected;  // flows, and what they have left
  for (const LinkEvent& change : moment.changes) has_changed[index(change.link)] = true;
  for (uint32_t number = 0; number < flows_.size(); ++number) {
    Flow& flow = flows_[number];
    if (!flow.is_under_way) continue;
    const bool is_touched = std::ranges::any_of(flow.way, [&](const FluidHop& hop) { return has_changed[hop.link]; });
    if (!is_touched && !links_.is_blocked(flow.way)) continue;
    affected.emplace_back(number, network_.remaining(flow.fluid));
    book(flow, affected.back().second);
  }
  // 2. The capacities of now.
  for (const LinkEvent& change : moment.changes) {
    const uint32_t link = index(change.link);
    network_.set_capacity(kinds_.kind_of_link(link), links_.usable(link));
  }
  // 3. A flow on a failed link moves if there is another way, and else waits, or brings its job down.
  for (const auto& [number, left] : affected) {
    const Flow& flow = flows_[number];
    if (links_.is_blocked(flow.way)) {
      if (on_failure_ == OnFailure::fail) failing_.push_back(flow.job);
      if (links_.rerouting() == nullptr) continue;
      const JobLoad load = load_now(flow.owner);
      if (!links_.is_blocked(load.hops)) go_on_along(number, load, left);
    } else if (flow.efficiency < 1) {  // its cap is another one now
      const std::vector<FluidHop> way = flow.way;
      const JobLoad same{.hops = way, .unit = flow.unit, .bytes = flow.all, .efficiency = flow.efficiency};
      go_on_along(number, same, left);
    }
  }
}

void JobFlows::go_on_along(uint32_t number, const JobLoad& load, double left) {
  // The rest is kept as a fraction of all: another way may put other bytes on links.
  const double fraction = left / flows_[number].all;
  network_.stop(flows_[number].fluid);
  set_out(number, load, fraction);
}

void JobFlows::stop(uint32_t job) {
  for (uint32_t number = 0; number < flows_.size(); ++number) {
    Flow& flow = flows_[number];
    if (!flow.is_under_way || flow.job != job) continue;
    // The links keep what has moved by now.
    book(flow, network_.stop(flow.fluid));
    release(number);
  }
}

bool JobFlows::any_crosses(LinkId link) const {
  return std::ranges::any_of(flows_, [&](const Flow& flow) {
    return flow.is_under_way &&
           std::ranges::any_of(flow.way, [&](const FluidHop& hop) { return hop.link == index(link); });
  });
}

void JobFlows::report(const Fabric& fabric, const LinkTimeline& timeline, Prediction& prediction) {
  for (uint32_t number = 0; number < fabric.links().size(); ++number) {
    const uint32_t kind = kinds_.kind_of_link(number);
    PredictedLink link{.bytes = network_.bytes_carried(kind), .full = network_.time_full(kind), .load = {}};
    const std::vector<float>& loads = loads_.bytes(kind);
    if (!loads.empty()) {
      // Loads are told as parts of what the link could carry at that time.
      const std::vector<double> most = most_bytes(fabric, timeline, LinkId{number}, loads_.step());
      const double least = 1e-9 * *std::ranges::max_element(most);  // below it is rounding
      for (size_t step = 0; step < loads.size(); ++step) {
        link.load.push_back(most[step] > least ? static_cast<float>(loads[step] / most[step]) : 0);
      }
    }
    prediction.links.push_back(std::move(link));
  }
  prediction.load_step = loads_.step();
  prediction.window = network_.window_error();
}

}  // namespace banyan::predict
