#include "banyan/run/execute/pacer.h"

#include <algorithm>

namespace banyan::run {
namespace {

constexpr double kPaced = 0.85;  // of the time that the busiest link needs

}  // namespace

bool Pacer::admit(const SliceOffer& offer) {
  if (outer_ != nullptr && !outer_->admit(offer)) return false;
  if (offer.channel >= channels_.size()) channels_.resize(offer.channel + 1);
  Channel& channel = channels_[offer.channel];
  // The rate is that of the call whose slice leaves next: calls have their turns on a channel.
  if (channel.sequence != offer.sequence) begin_turn(channel, offer);
  return true;
}

void Pacer::begin_turn(Channel& channel, const SliceOffer& offer) {
  channel.sequence = offer.sequence;
  const std::vector<PlanLane>& lanes = offer.plan->lanes;
  const auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const PlanLane& each) {
    return each.peer == offer.peer && each.lane == offer.lane;
  });
  const uint64_t planned = lane == lanes.end() ? 0 : lane->bytes_per_second;
  set(offer.channel, planned > 0 && !is_late(offer) ? planned : 0);
}

// Begins to count the time of a call with its first turn, after that of those before it.
bool Pacer::is_late(const SliceOffer& offer) {
  if (std::find(late_.begin(), late_.end(), offer.sequence) != late_.end()) return true;
  const auto found =
      std::find_if(timed_.begin(), timed_.end(), [&](const Timed& each) { return each.sequence == offer.sequence; });
  if (found == timed_.end()) {
    // Calls follow each other on the links, so the time of one begins where that of the one before ends.
    const std::chrono::duration<double> time(offer.plan->busy_seconds * kPaced);
    last_until_ = std::max(last_until_, now_()) + std::chrono::duration_cast<Clock::duration>(time);
    timed_.push_back({.sequence = offer.sequence, .until = last_until_});
  }
  return false;
}

void Pacer::set(uint32_t number, uint64_t rate) {
  if (channels_[number].rate == rate) return;
  channels_[number].rate = rate;
  set_rate_(number, rate);
}

void Pacer::look_at_clock() {
  while (!timed_.empty() && now_() >= timed_.front().until) {
    // A call that is late hurries on all its channels.
    const uint64_t sequence = timed_.front().sequence;
    timed_.erase(timed_.begin());
    late_.push_back(sequence);
    for (uint32_t number = 0; number < channels_.size(); ++number) {
      if (channels_[number].sequence == sequence) set(number, 0);
    }
  }
}

void Pacer::end(uint64_t sequence) {
  std::erase_if(timed_, [&](const Timed& each) { return each.sequence == sequence; });
  std::erase(late_, sequence);
  if (timed_.empty()) last_until_ = {};
}

void Pacer::forget_all() {
  channels_.clear();
  timed_.clear();
  late_.clear();
  last_until_ = {};
}

}  // namespace banyan::run
