#include "banyan/service/daemon/way_meter.h"

#include <algorithm>

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
  const bool is_one_of_others = bytes.size() >= kMostTenants && !bytes.contains(tenant);
  bytes[is_one_of_others ? kOthers : tenant] += more;
}

// It is of the time before now, so of the half that may be over.
void WayMeter::add(const Way& way, const Sent& sent, Time now) {
  const std::lock_guard lock(mutex_);
  Sums& sums = present_[way];
  if (sent.bytes > 0) sums.add(sent.tenant, sent.bytes);
  LaneSums& lane = sums.lanes[{sent.session, sent.lane}];
  lane.pressed += sent.pressed;
  lane.allowed = sent.allowed;
  turn(now);
}

std::vector<WayMeter::Row> WayMeter::rows(Time now) {
  const std::lock_guard lock(mutex_);
  turn(now);
  std::vector<Row> rows;
  if (!has_before_) return rows;
  Half window = before_;
  for (const auto& [way, sums] : present_) {
    Sums& all = window[way];
    for (const auto& [tenant, bytes] : sums.bytes) all.add(tenant, bytes);
    for (const auto& [lane, of_lane] : sums.lanes) {
      LaneSums& both = all.lanes[lane];
      both.pressed += of_lane.pressed;
      both.allowed = of_lane.allowed;
    }
  }
  for (const auto& [way, sums] : window) {
    Row row{.way = way, .window = before_length_ + (now - began_), .bytes = sums.bytes, .allowed = 0};
    for (const auto& [lane, of_lane] : sums.lanes) {
      row.pressed = std::max(row.pressed, of_lane.pressed);
      row.allowed = row.allowed && of_lane.allowed ? std::optional(*row.allowed + *of_lane.allowed) : std::nullopt;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void LaneWatch::look(std::optional<uint64_t> rate, Time now) {
  const Time passed = now - std::exchange(looked_, now);
  ++looks_;
  for (run::NetExecutor::LaneOnCables& each : options_.loads()) {
    const run::LaneLoad& load = each.load;
    Seen& seen = lanes_[{load.peer, load.lane}];
    seen.look = looks_;
    if (std::exchange(seen.is_new, false)) {
      seen.way = options_.way(load.peer, each.cables);
      seen.last = load;
      continue;
    }
    WayMeter::Sent sent{.session = this,
                        .tenant = options_.tenant,
                        .lane = (uint64_t{load.peer} << 32) | load.lane,
                        .bytes = load.arrived - seen.last.arrived,
                        .allowed = rate};
    if (load.rate > 0) sent.allowed = std::min(load.rate, rate.value_or(load.rate));
    if (load.has_more && seen.last.has_more) {
      const auto busy = load.busy - seen.last.busy, full = load.receiver_was_full - seen.last.receiver_was_full;
      sent.pressed = std::clamp<Time>(busy - full, Time(0), passed);
    }
    seen.last = load;
    options_.meter->add(seen.way, sent, now);
  }
  std::erase_if(lanes_, [&](const auto& lane) { return lane.second.look != looks_; });
}

}  // namespace banyan::service
