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

static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLERR == EPOLLERR && POLLHUP == EPOLLHUP);

}  // namespace

Poller::Poller() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_.is_open()) throw system_error("cannot make a descriptor to wait with");
}

bool Poller::watch(EventSource& source, std::function<void()> ready) {
  WaitSet set;
  source.prepare(set);
  if (set.deadline_ == WaitSet::Clock::time_point::min()) return false;
  const uint64_t number = ++next_number_;
  const auto [entry, is_new] = watched_.try_emplace(&source);
  CHECK(is_new) << "the source is watched already";
  by_number_.emplace(number, &source);
  entry->second = {
      .number = number, .ready = std::move(ready), .polled = std::move(set.polled_), .deadline = set.deadline_};
  if (set.deadline_ != WaitSet::Clock::time_point::max()) deadlines_.emplace(set.deadline_, &source);
  try {
    const std::vector<pollfd>& polled = entry->second.polled;
    for (size_t i = 0; i < polled.size(); ++i) {
      arm(polled[i], {.since = set.since_[i], .events = polled[i].events, .number = number, .index = i});
    }
  } catch (...) {
    forget(source);
    throw;
  }
  return true;
}

// For one event, unless it is kept. A descriptor stays known to the kernel until it is closed, so most have been armed
// before.
void Poller::arm(const pollfd& wanted, Armed armed) {
  Armed& last = armed_[wanted.fd];
  const bool is_kept = armed.since != 0 && armed.since == last.since && armed.events == last.events;
  last = armed;
  if (is_kept) return;
  last.since = 0;  // where the kernel refuses
  epoll_event event{.events = static_cast<uint32_t>(wanted.events), .data = {.fd = wanted.fd}};
  if (armed.since == 0) event.events |= EPOLLONESHOT;
  const auto tell = [&](int operation) { return epoll_ctl(epoll_.get(), operation, wanted.fd, &event) == 0; };
  if (!tell(EPOLL_CTL_MOD) && (errno != ENOENT || !tell(EPOLL_CTL_ADD))) {
    throw system_error("cannot wait for a descriptor");
  }
  last.since = armed.since;
}

// Not by events of none: the kernel would go on telling that the other end is gone.
void Poller::disarm(int fd) {
  armed_.at(fd).since = 0;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

// What it has armed may still happen: nobody has that number then.
void Poller::forget(EventSource& source) {
  const auto entry = watched_.find(&source);
  if (entry == watched_.end()) return;
  by_number_.erase(entry->second.number);
  deadlines_.erase({entry->second.deadline, &source});
  watched_.erase(entry);
}

void Poller::look() {
  const bool has_slept = std::exchange(has_slept_, false);
  if (watched_.empty()) return;
  std::array<epoll_event, 64> events;
  std::vector<EventSource*> found;
  size_t for_nobody = 0;
  // The kernel tells of what it goes on watching again and again: of each once.
  for (size_t told = 0; told <= armed_.size(); told += events.size()) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    if (count < 0 && errno != EINTR) throw system_error("cannot wait for connections");
    for (int i = 0; i < count; ++i) {
      const epoll_event event = events[static_cast<size_t>(i)];
      const Armed& armed = armed_.at(event.data.fd);
      const auto source = by_number_.find(armed.number);
      if (source == by_number_.end()) {
        if (has_slept || ++for_nobody > kMostForNobody) disarm(event.data.fd);
        continue;
      }
      watched_.at(source->second).polled.at(armed.index).revents = static_cast<short>(event.events);
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

// What happens to nobody's descriptors is no reason to wake.
void Poller::prepare(WaitSet& set) {
  has_slept_ = true;
  if (watched_.empty()) return;
  set.watch(epoll_.get(), POLLIN);
  if (!deadlines_.empty()) set.wake_at(deadlines_.begin()->first);
}

bool Poller::react(std::span<const pollfd> polled) {
  if (!polled.empty() && polled.front().revents != 0) return true;
  return !deadlines_.empty() && deadlines_.begin()->first <= WaitSet::Clock::now();
}

}  // namespace banyan::run
