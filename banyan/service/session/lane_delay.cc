#include "banyan/service/session/lane_delay.h"

#include <algorithm>

namespace banyan::service {
namespace {

double seconds(LaneDelay::Time time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

// The first look has nothing to compare with, and is overwritten before it counts.
void LaneDelay::look(const run::LaneLoad& load, Time passed) {
  const auto busy = (load.busy - last_.busy) - (load.receiver_was_full - last_.receiver_was_full);
  const uint64_t bytes = load.arrived - last_.arrived;
  looks_[count_ % kLooks] = {.seconds = seconds(passed),
                             .bytes = static_cast<double>(bytes),
                             .busy = std::max(0.0, seconds(busy)),
                             .round_trip = seconds(load.round_trip),
                             .may_be_put_off = bytes == 0 && load.under_way < kManyPackets};
  last_ = load;
  ++count_;
}

bool LaneDelay::is_delayed(double most) const {
  if (count_ <= kLooks || most <= 0) return false;
  // One look with an acknowledgement that may have been put off spoils the judgement.
  Look all{.round_trip = looks_.front().round_trip};
  double mean = 0;
  for (const Look& each : looks_) {
    if (each.may_be_put_off) return false;
    all.seconds += each.seconds;
    all.bytes += each.bytes;
    all.busy += each.busy;
    all.round_trip = std::min(all.round_trip, each.round_trip);
    mean += each.round_trip / kLooks;
  }
  if (all.busy < kLeastBusy * all.seconds || all.bytes == 0) return false;
  // Little's law: the rate of arrival times the mean round trip.
  const double under_way = all.bytes / all.busy * mean;
  // A link that is well needs its least round trip, and the time to send what is under way.
  const double needed = seconds(last_.least_round_trip) + under_way / most;
  return under_way >= kLeastUnderWay && all.round_trip >= kSteady * mean && all.round_trip >= kDelayed * needed;
}

LaneDelay::Time LaneDelay::least_round_trip() const {
  const auto least = std::min_element(looks_.begin(), looks_.end(),
                                      [](const Look& a, const Look& b) { return a.round_trip < b.round_trip; });
  return std::chrono::round<Time>(std::chrono::duration<double>(least->round_trip));
}

}  // namespace banyan::service
