#include "banyan/service/daemon/rate_gate.h"

#include <algorithm>

#include "banyan/run/engine/rank_plan.h"

namespace banyan::service {

void RateGate::set_rate(uint64_t rate) {
  const Time now = now_();
  valid_until_ = now + kValid;
  if (rate != queue_.rate()) queue_.set_rate(rate, now);
}

void RateGate::begin(uint64_t number, double busiest_bytes) { calls_[number] = {.busiest_bytes = busiest_bytes}; }

bool RateGate::admit(const run::SliceOffer& offer) {
  const auto found = calls_.find(offer.sequence);
  if (found == calls_.end()) return true;
  CallState& call = found->second;
  if (call.elements == 0) call.elements = std::max<uint64_t>(1, run::elements_sent(*offer.plan));
  if (queue_.rate() != VirtualQueue::kUnlimited) {
    const Time now = now_();
    if (now >= valid_until_) {
      queue_.set_rate(VirtualQueue::kUnlimited, now);
    } else if (const Time opens = queue_.earliest(now); opens > now) {
      opens_at_ = opens;
      return false;
    }
    const double part = static_cast<double>(offer.elements) / static_cast<double>(call.elements);
    queue_.leave(static_cast<uint64_t>(part * call.busiest_bytes), now);
  }
  opens_at_.reset();
  call.sent = std::min(call.elements, call.sent + offer.elements);
  return true;
}

double RateGate::done(uint64_t number) const {
  const auto found = calls_.find(number);
  if (found == calls_.end() || found->second.elements == 0) return 0;
  return static_cast<double>(found->second.sent) / static_cast<double>(found->second.elements);
}

}  // namespace banyan::service
