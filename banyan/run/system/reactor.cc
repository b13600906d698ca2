#include "banyan/run/system/reactor.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>

#include "banyan/base/check.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {

// All reactors of the process. One object for the process, since pthread_atfork(3) knows nothing smaller.
class ReactorsAtFork {
 public:
  static ReactorsAtFork& instance() {
    static ReactorsAtFork* const reactors = new ReactorsAtFork;  // outlives all statics
    return *reactors;
  }
  void add(Reactor* reactor) {
    const std::lock_guard lock(mutex_);
    reactors_.push_back(reactor);
  }
  void remove(Reactor* reactor) {
    const std::lock_guard lock(mutex_);
    std::erase(reactors_, reactor);
  }

 private:
  ReactorsAtFork() {
    const int rc =
        pthread_atfork([] { instance().prepare(); }, [] { instance().go_on(); }, [] { instance().close_all(); });
    CHECK_EQ(rc, 0) << "pthread_atfork";
  }
  void prepare() {
    mutex_.lock();
    for (Reactor* reactor : reactors_) reactor->fork_mutex_.lock();
  }
  void go_on() {
    for (Reactor* reactor : reactors_) reactor->fork_mutex_.unlock();
    mutex_.unlock();
  }
  // In the child, which uses none of them any more.
  void close_all() {
    for (Reactor* reactor : reactors_) {
      for (const auto& [fd, watch] : reactor->watches_) close(fd);
      close(reactor->epoll_.get());
      reactor->fork_mutex_.unlock();
    }
    reactors_.clear();
    mutex_.unlock();
  }

  std::mutex mutex_;  // protects reactors_
  std::vector<Reactor*> reactors_;
};

Mailbox::Mailbox() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_.is_open()) throw system_error("cannot make an event descriptor");
}

bool Mailbox::post(Task task) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return false;
  tasks_.push_back(std::move(task));
  if (tasks_.size() == 1) {
    const uint64_t one = 1;
    const ssize_t written = write(event_.get(), &one, sizeof one);
    CHECK(written == sizeof one || errno == EAGAIN)
        << "eventfd: " << std::strerror(errno);  // EAGAIN: it is set already
  }
  return true;
}

std::vector<Mailbox::Task> Mailbox::take() {
  const std::lock_guard lock(mutex_);
  uint64_t count = 0;
  const ssize_t got = read(event_.get(), &count, sizeof count);
  CHECK(got == sizeof count || errno == EAGAIN || errno == EINTR) << "eventfd: " << std::strerror(errno);
  return std::exchange(tasks_, {});
}

Reactor::Reactor(const TimeSource& time)
    : time_(time), epoll_(epoll_create1(EPOLL_CLOEXEC)), mailbox_(std::make_shared<Mailbox>()) {
  if (!epoll_.is_open()) throw system_error("cannot make an epoll descriptor");
  watch(mailbox_->event_.get(), EPOLLIN, [this](uint32_t) {
    for (const Mailbox::Task& task : mailbox_->take()) task();
  });
  ReactorsAtFork::instance().add(this);
}

Reactor::~Reactor() { ReactorsAtFork::instance().remove(this); }

void Reactor::watch(int fd, uint32_t events, Handler handler) {
  auto entry = std::make_shared<Watch>(Watch{.number = ++next_number_ & 0xffffffff, .handler = std::move(handler)});
  epoll_event event{};
  event.events = events;
  event.data.u64 = entry->number << 32 | static_cast<uint32_t>(fd);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) throw system_error("cannot watch a descriptor");
  const std::lock_guard lock(fork_mutex_);
  watches_[fd] = std::move(entry);
}

void Reactor::change(int fd, uint32_t events) {
  const auto found = watches_.find(fd);
  CHECK(found != watches_.end()) << "descriptor " << fd << " is not watched";
  epoll_event event{};
  event.events = events;
  event.data.u64 = found->second->number << 32 | static_cast<uint32_t>(fd);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0) throw system_error("cannot watch a descriptor");
}

void Reactor::forget(int fd) {
  {
    const std::lock_guard lock(fork_mutex_);
    if (watches_.erase(fd) == 0) return;
  }
  const int rc = epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  CHECK_EQ(rc, 0) << "descriptor " << fd << " was closed before it was forgotten";
}

Reactor::Timer Reactor::at(TimePoint when, std::function<void()> task) {
  const Timer timer{when, ++next_number_};
  timers_.emplace(timer, std::move(task));
  return timer;
}

void Reactor::run() {
  std::array<epoll_event, 64> events;
  while (!is_stopped_) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), sleep_time());
    CHECK(count >= 0 || errno == EINTR) << "epoll_wait: " << std::strerror(errno);
    for (int i = 0; i < count; ++i) serve(events[static_cast<size_t>(i)]);
    run_timers();
  }
  const std::lock_guard lock(mailbox_->mutex_);
  mailbox_->is_closed_ = true;
  mailbox_->tasks_.clear();
}

void Reactor::stop() {
  mailbox_->post([this] { is_stopped_ = true; });
}

void Reactor::serve(const epoll_event& event) {
  const auto found = watches_.find(static_cast<int>(event.data.u64 & 0xffffffff));
  // An earlier event of this batch may have closed it, and another may have its number now.
  if (found == watches_.end() || found->second->number != event.data.u64 >> 32) return;
  const std::shared_ptr<Watch> entry = found->second;
  entry->handler(event.events);
}

void Reactor::run_timers() {
  if (timers_.empty()) return;
  const TimePoint now = this->now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    const auto node = timers_.extract(timers_.begin());
    node.mapped()();
  }
}

int Reactor::sleep_time() const {
  if (timers_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first.first - now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, AwakeTime::kLongestSleep.count()));
}

}  // namespace banyan::run
