#include "banyan/service/session/way_meter.h"

#include <algorithm>

#include "banyan/service/share/tenant_label.h"

namespace banyan::service {

// Under the mutex.
void WayMeter::turn(Time now) {
  if (now < began_ + kHalf) return;
  // After a pause nothing of the half before says how things are now.
  has_before_ = now < began_ + 2 * kHalf;
  before_ = has_before_ ? std::move(present_) : Half();
  present_.clear();
  before_length_ = now - began_;
  began_ = now;
}

void WayMeter::Sums::add(const std::string& tenant, uint64_t more) {
  bytes[tenant_label(tenant, bytes, kMostTenants)] += more;
}

void WayMeter::LaneSums::add(const LaneSums& later) {
  busy += later.busy;
  pressed += later.pressed;
  delayed += later.delayed;
  if (round_trip == Time(0) || (later.round_trip > Time(0) && later.round_trip < round_trip)) {
    round_trip = later.round_trip;
  }
  thread.waited += later.thread.waited;
  thread.turns += later.thread.turns;
  allowed = later.allowed;
}

// It is of the time before now, so of the half that may be over.
void WayMeter::add(const Way& way, const Sent& sent, Time now) {
  const std::lock_guard lock(mutex_);
  Sums& sums = present_[way];
  if (sent.bytes > 0) sums.add(sent.tenant, sent.bytes);
  sums.lanes[{sent.session, sent.lane}].add({.busy = sent.busy,
                                             .pressed = sent.pressed,
                                             .delayed = sent.delayed,
                                             .round_trip = sent.round_trip,
                                             .thread = sent.thread,
                                             .allowed = sent.allowed});
  turn(now);
}

std::vector<WayMeter::Row> WayMeter::rows(Time now) {
  const std::lock_guard lock(mutex_);
  turn(now);
  std::vector<Row> rows;
  if (!has_before_) return rows;
  // The window is the present half and the whole one before it.
  Half window = before_;
  for (const auto& [way, sums] : present_) {
    Sums& all = window[way];
    for (const auto& [tenant, bytes] : sums.bytes) all.add(tenant, bytes);
    for (const auto& [lane, of_lane] : sums.lanes) all.lanes[lane].add(of_lane);
  }
  for (const auto& [way, sums] : window) {
    Row row{.way = way, .window = before_length_ + (now - began_), .bytes = sums.bytes, .allowed = 0};
    for (const auto& [lane, of_lane] : sums.lanes) {
      row.busy = std::max(row.busy, of_lane.busy);
      if (of_lane.thread.turns > 0) {
        row.wake = std::max<Time>(row.wake, of_lane.thread.waited / static_cast<int64_t>(of_lane.thread.turns));
      }
      // The lane that is pressed most speaks for the way.
      if (of_lane.pressed > row.pressed) {
        row.pressed = of_lane.pressed;
        row.delayed = of_lane.delayed;
        row.round_trip = of_lane.round_trip;
      }
      row.allowed = row.allowed && of_lane.allowed ? std::optional(*row.allowed + *of_lane.allowed) : std::nullopt;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

double LaneWatch::capacity_of(const WayMeter::Way& way) const {
  double least = 0;
  for (const uint32_t link : way.links) {
    if (link >= options_.capacities.size()) return 0;
    least = least == 0 ? options_.capacities[link] : std::min(least, options_.capacities[link]);
  }
  return least;
}

// None, at the first look and where nobody knows.
run::RunDelay LaneWatch::thread_since_last() {
  const std::optional<run::RunDelay> now = options_.run_delay();
  const std::optional<run::RunDelay> before = std::exchange(thread_, now);
  if (!now || !before) return {};
  return {.waited = now->waited - before->waited, .turns = now->turns - before->turns};
}

void LaneWatch::look(std::optional<uint64_t> rate, Time now) {
  const Time passed = now - std::exchange(looked_, now);
  const run::RunDelay thread = thread_since_last();
  ++looks_;
  for (run::NetExecutor::LaneOnCables& each : options_.loads()) {
    const run::LaneLoad& load = each.load;
    Seen& seen = lanes_[{load.peer, load.lane}];
    seen.look = looks_;
    // The first look at a lane only notes its counters.
    if (std::exchange(seen.is_new, false)) {
      seen.way = options_.way(load.peer, each.cables);
      seen.most = capacity_of(seen.way);
      seen.delay.look(load, passed);
      seen.last = load;
      continue;
    }
    WayMeter::Sent sent{.session = this,
                        .tenant = options_.tenant,
                        .lane = (uint64_t{load.peer} << 32) | load.lane,
                        .bytes = load.arrived - seen.last.arrived,
                        .thread = thread,
                        .allowed = rate};
    if (load.rate > 0) sent.allowed = std::min(load.rate, rate.value_or(load.rate));
    // A lane whose receiver was full was not held back by the network.
    const auto busy = load.busy - seen.last.busy, full = load.receiver_was_full - seen.last.receiver_was_full;
    sent.busy = std::clamp<Time>(busy - full, Time(0), passed);
    seen.delay.look(load, passed);
    // It is pressed if bytes waited in the kernel at both looks, or stand in the network.
    const bool waits = load.has_more && seen.last.has_more;
    const double most = sent.allowed ? std::min(seen.most, static_cast<double>(*sent.allowed)) : seen.most;
    if (!waits && seen.delay.is_delayed(most)) {
      sent.delayed = sent.busy;
      sent.round_trip = seen.delay.least_round_trip();
    }
    if (waits || sent.delayed > Time(0)) sent.pressed = sent.busy;
    seen.last = load;
    options_.meter->add(seen.way, sent, now);
  }
  std::erase_if(lanes_, [&](const auto& lane) { return lane.second.look != looks_; });
}

}  // namespace banyan::service
