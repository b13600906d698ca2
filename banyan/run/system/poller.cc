#include "banyan/run/system/poller.h"

#include <poll.h>
#include <sys/epoll.h>

#include <array>
#include <cerrno>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

// What an event of the kernel names: a time of watching, and which descriptor of the source.
constexpr unsigned kIndexBits = 16;

static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLERR == EPOLLERR && POLLHUP == EPOLLHUP);

}  // namespace

Poller::Poller() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_.is_open()) throw system_error("cannot make a descriptor to wait with");
}

bool Poller::watch(EventSource& source, std::function<void()> ready) {
  WaitSet set;
  source.prepare(set);
  if (set.deadline_ == WaitSet::Clock::time_point::min()) return false;
  CHECK(set.polled_.size() < size_t{1} << kIndexBits) << set.polled_.size() << " descriptors";
  const uint64_t number = ++next_number_;
  const auto [entry, is_new] = watched_.try_emplace(&source);
  CHECK(is_new) << "the source is watched already";
  by_number_.emplace(number, &source);
  entry->second = {
      .number = number, .ready = std::move(ready), .polled = std::move(set.polled_), .deadline = set.deadline_};
  if (set.deadline_ != WaitSet::Clock::time_point::max()) deadlines_.emplace(set.deadline_, &source);
  try {
    uint64_t index = 0;
    for (const pollfd& wanted : entry->second.polled) arm(wanted, number << kIndexBits | index++);
  } catch (...) {
    forget(source);
    throw;
  }
  return true;
}

// For one event. A descriptor stays known to the kernel until it is closed, so most have been armed before.
void Poller::arm(const pollfd& wanted, uint64_t what) {
  epoll_event event{.events = static_cast<uint32_t>(wanted.events) | EPOLLONESHOT, .data = {.u64 = what}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, wanted.fd, &event) == 0) return;
  if (errno == ENOENT && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wanted.fd, &event) == 0) return;
  throw system_error("cannot wait for a descriptor");
}

// What it has armed may still happen once: nobody has that number then.
void Poller::forget(EventSource& source) {
  const auto entry = watched_.find(&source);
  if (entry == watched_.end()) return;
  by_number_.erase(entry->second.number);
  deadlines_.erase({entry->second.deadline, &source});
  watched_.erase(entry);
}

void Poller::look() {
  if (watched_.empty()) return;
  std::array<epoll_event, 64> events;
  std::vector<EventSource*> found;
  for (;;) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    if (count < 0 && errno != EINTR) throw system_error("cannot wait for connections");
    for (int i = 0; i < count; ++i) {
      const epoll_event event = events[static_cast<size_t>(i)];
      const auto source = by_number_.find(event.data.u64 >> kIndexBits);
      if (source == by_number_.end()) continue;
      pollfd& polled = watched_.at(source->second).polled.at(event.data.u64 & ((uint64_t{1} << kIndexBits) - 1));
      polled.revents = static_cast<short>(event.events);
      found.push_back(source->second);
    }
    if (count < static_cast<int>(events.size())) break;
  }
  if (!deadlines_.empty()) {
    const auto now = WaitSet::Clock::now();
    for (const auto& [deadline, source] : deadlines_) {
      if (deadline > now) break;
      found.push_back(source);
    }
  }
  for (EventSource* const source : found) tell(*source);
}

// Twice for a source of which two things have happened: the second time it may be forgotten, or watched anew.
void Poller::tell(EventSource& source) {
  const auto entry = watched_.find(&source);
  if (entry == watched_.end()) return;
  const std::vector<pollfd> polled = std::move(entry->second.polled);
  const std::function<void()> ready = std::move(entry->second.ready);
  forget(source);
  if (source.react(polled) || !try_watching(source, ready)) ready();
}

// Who cannot be watched any more is used again, and hears of it when it is to be watched the next time.
bool Poller::try_watching(EventSource& source, const std::function<void()>& ready) {
  try {
    return watch(source, ready);
  } catch (const Error&) {
    return false;
  }
}

void Poller::prepare(WaitSet& set) {
  set.watch(epoll_.get(), POLLIN);
  if (!deadlines_.empty()) set.wake_at(deadlines_.begin()->first);
}

bool Poller::react(std::span<const pollfd> polled) {
  if (polled.front().revents != 0) return true;
  return !deadlines_.empty() && deadlines_.begin()->first <= WaitSet::Clock::now();
}

}  // namespace banyan::run
