#include "banyan/service/session/rate_gate.h"

#include <algorithm>

#include "banyan/run/engine/rank_plan.h"

namespace banyan::service {
namespace {

// The lower of two rates.
uint64_t slower(uint64_t a, uint64_t b) {
  if (a == VirtualQueue::kUnlimited) return b;
  return b == VirtualQueue::kUnlimited ? a : std::min(a, b);
}

}  // namespace

void RateGate::set_rate(uint64_t rate) {
  rate_of_steward_ = rate;
  valid_until_ = now_() + kValid;
}

void RateGate::begin(uint64_t number, double busiest_bytes, uint64_t most) {
  calls_[number] = {.busiest_bytes = busiest_bytes, .most = most};
}

void RateGate::limit(uint64_t number, uint64_t most) {
  const auto found = calls_.find(number);
  if (found != calls_.end()) found->second.most = most;
}

void RateGate::go_at(uint64_t rate, Time now) {
  if (rate == queue_.rate()) return;
  queue_.set_rate(rate, now);
  const std::chrono::duration<double> late = kLate;
  queue_.set_burst(std::max(kLeastBurst, static_cast<uint64_t>(static_cast<double>(rate) * late.count())));
}

bool RateGate::admit(const run::SliceOffer& offer) {
  const auto found = calls_.find(offer.sequence);
  if (found == calls_.end()) return true;
  CallState& call = found->second;
  if (call.elements == 0) call.elements = std::max<uint64_t>(1, run::elements_sent(*offer.plan));
  const Time now = now_();
  // The lower of the steward's rate, while it counts, and that of the call's links or cap.
  go_at(slower(now < valid_until_ ? rate_of_steward_ : VirtualQueue::kUnlimited, call.most), now);
  if (call.busiest_bytes > 0) {
    if (const Time opens = queue_.earliest(now); opens > now) {
      opens_at_ = opens;
      return false;
    }
    // The slice is the same part of the call on the busiest link as of what this rank sends.
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
