#include "banyan/service/share/virtual_queue.h"

#include <algorithm>

#include "banyan/base/check.h"

namespace banyan::service {
namespace {
constexpr int128 kPartsOfAByte = 1'000'000'000;
constexpr int128 whole_above(int128 number, int128 divisor) { return (number + divisor - 1) / divisor; }
}  // namespace

int128 VirtualQueue::left_over(Time now) const {
  if (backlog_ == 0) return 0;
  CHECK(now >= at_) << now.count() << " ns is before " << at_.count() << " ns";
  const int128 passed = int128{now.count()} - at_.count();
  // Dividing first keeps the product below the backlog, whatever the rate.
  return passed > backlog_ / rate_ ? 0 : backlog_ - passed * rate_;
}

void VirtualQueue::set_rate(uint64_t rate, Time now) {
  // The old rate has drained the queue until now, the new one does from here on.
  backlog_ = rate == kUnlimited ? 0 : left_over(now);
  at_ = now;
  rate_ = rate;
}

VirtualQueue::Time VirtualQueue::earliest(Time now) const {
  const int128 excess = left_over(now) - burst_ * kPartsOfAByte;
  // All that is beyond the burst must have drained. Rounded up, so that nothing leaves too early.
  if (excess <= 0) return now;
  const int128 then = now.count() + whole_above(excess, rate_);
  return Time(static_cast<int64_t>(std::min<int128>(then, Time::max().count())));
}

void VirtualQueue::leave(uint64_t bytes, Time now) {
  if (rate_ == kUnlimited) return;
  backlog_ = left_over(now) + bytes * kPartsOfAByte;
  at_ = now;
}

uint64_t VirtualQueue::backlog(Time now) const {
  return static_cast<uint64_t>(std::min<int128>(whole_above(left_over(now), kPartsOfAByte), UINT64_MAX));
}

}  // namespace banyan::service
