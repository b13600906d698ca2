#include "banyan/run/system/waiter.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "banyan/run/system/system_error.h"

namespace banyan::run {

bool Waiter::wait(std::chrono::milliseconds at_most) {
  const WaitSet::Clock::time_point end = WaitSet::Clock::now() + at_most;
  for (;;) {
    if (sleep_once(end)) return true;
    if (WaitSet::Clock::now() >= end) return false;
  }
}

// One poll(2). Whether a source may have work.
bool Waiter::sleep_once(WaitSet::Clock::time_point end) {
  set_.polled_.clear();
  set_.since_.clear();
  set_.deadline_ = end;
  first_.clear();
  for (EventSource* const source : sources_) {
    first_.push_back(set_.polled_.size());
    source->prepare(set_);
  }
  first_.push_back(set_.polled_.size());
  const bool has_work = set_.deadline_ == WaitSet::Clock::time_point::min();
  timespec time{};
  if (!has_work) {
    const auto left =
        std::chrono::nanoseconds(std::max(set_.deadline_ - WaitSet::Clock::now(), WaitSet::Clock::duration::zero()));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    time = {.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
  }
  if (ppoll(set_.polled_.data(), set_.polled_.size(), &time, nullptr) < 0) {
    if (errno != EINTR) throw system_error("cannot wait for connections");
    for (pollfd& each : set_.polled_) each.revents = 0;
  }
  bool may_work = has_work;
  for (size_t i = 0; i < sources_.size(); ++i) {
    may_work |= sources_[i]->react(std::span(set_.polled_).subspan(first_[i], first_[i + 1] - first_[i]));
  }
  return may_work;
}

}  // namespace banyan::run
