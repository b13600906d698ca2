#include "banyan/run/system/reactor.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <optional>

#include "banyan/base/check.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

template <typename Failed, typename Body>
void guard(const Failed& failed, const Body& body) noexcept {
  try {
    body();
  } catch (...) {
    failed(current_error());
  }
}

}  // namespace

// All reactors of the process. One object for the process, since pthread_atfork(3) knows nothing smaller.
class ReactorsAtFork {
 public:
  static ReactorsAtFork& instance() {
    static ReactorsAtFork* const reactors = new ReactorsAtFork;  // outlives all statics
    return *reactors;
  }
  void add(Reactor* reactor) {
    const std::lock_guard lock(mutex_);
    idle_.reserve(reactors_.size() + 1);  // a fork allocates nothing
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
  // A reactor that serves something may hold a lock of libcrypto or of ours. In the child nobody would ever unlock it,
  // so the fork waits. Not for ever: the reactor may itself wait for a lock that the forking thread holds.
  void prepare() {
    mutex_.lock();
    const auto patience = std::chrono::steady_clock::now() + kPatience;
    for (Reactor* reactor : reactors_) {
      if (reactor->serving_mutex_.try_lock_until(patience)) idle_.push_back(reactor);
    }
    for (Reactor* reactor : reactors_) reactor->fork_mutex_.lock();
  }
  void go_on() {
    for (Reactor* reactor : reactors_) reactor->fork_mutex_.unlock();
    for (Reactor* reactor : idle_) reactor->serving_mutex_.unlock();
    idle_.clear();
    mutex_.unlock();
  }
  // In the child, which uses none of them any more.
  void close_all() {
    for (Reactor* reactor : reactors_) {
      for (const auto& [fd, watch] : reactor->watches_) close(fd);
      close(reactor->epoll_.get());
    }
    go_on();
    reactors_.clear();
  }

  static constexpr std::chrono::seconds kPatience{1};
  std::mutex mutex_;  // protects the two
  std::vector<Reactor*> reactors_;
  std::vector<Reactor*> idle_;  // while the process is forked
};

bool Mailbox::post(Task task) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return false;
  tasks_.push_back(std::move(task));
  if (tasks_.size() > 1 || event_.set()) return true;
  tasks_.pop_back();
  throw system_error("cannot wake a thread");
}

std::vector<Mailbox::Task> Mailbox::take() {
  const std::lock_guard lock(mutex_);
  if (!event_.clear()) throw system_error("cannot read an event");
  return std::exchange(tasks_, {});
}

void Mailbox::ask_to_stop() noexcept {
  shall_stop_.store(true, std::memory_order_release);
  event_.set();
}

void Mailbox::close() noexcept {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  tasks_.clear();
}

Reactor::Reactor(const TimeSource& time)
    : time_(time), epoll_(epoll_create1(EPOLL_CLOEXEC)), mailbox_(std::make_shared<Mailbox>()) {
  if (!epoll_.is_open()) throw system_error("cannot make an epoll descriptor");
  watch(mailbox_->event_.fd(), EPOLLIN, [this](uint32_t) { run_tasks(); });
  ReactorsAtFork::instance().add(this);
}

Reactor::~Reactor() { ReactorsAtFork::instance().remove(this); }

void Reactor::watch(int fd, uint32_t events, Handler handler) {
  auto entry = std::make_shared<Watch>(Watch{.number = ++next_number_ & 0xffffffff, .handler = std::move(handler)});
  epoll_event event{};
  event.events = events;
  event.data.u64 = entry->number << 32 | static_cast<uint32_t>(fd);
  const std::lock_guard lock(fork_mutex_);
  watches_[fd] = std::move(entry);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return;
  const int error = errno;
  watches_.erase(fd);
  throw system_error("cannot watch a descriptor", error);
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
  // Whatever else there is, the descriptor is closed soon, and is served no more.
  const int rc = epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  CHECK(rc == 0 || errno != EBADF) << "descriptor " << fd << " was closed before it was forgotten";
}

Reactor::Timer Reactor::at(TimePoint when, std::function<void()> task) {
  const Timer timer{when, ++next_number_};
  timers_.emplace(timer, std::move(task));
  return timer;
}

void Reactor::run(const Failed& failed) noexcept {
  while (!mailbox_->shall_stop_.load(std::memory_order_acquire)) run_once(failed);
  // What was posted before.
  guard(failed, [this] { run_tasks(); });
  mailbox_->close();
}

void Reactor::run_once(const Failed& failed) {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), sleep_time());
  const std::lock_guard lock(serving_mutex_);
  if (count < 0 && errno != EINTR) failed(system_error("cannot wait for events"));
  for (int i = 0; i < count; ++i) guard(failed, [&] { serve(events[static_cast<size_t>(i)]); });
  const TimePoint now = this->now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) guard(failed, [this] { run_timer(); });
}

// One that throws takes no other with it.
void Reactor::run_tasks() {
  std::optional<Error> first;
  for (const Mailbox::Task& task : mailbox_->take()) {
    guard([&](const Error& error) { first = first ? first : error; }, task);
  }
  if (first) throw Error(*first);
}

void Reactor::serve(const epoll_event& event) {
  const auto found = watches_.find(static_cast<int>(event.data.u64 & 0xffffffff));
  // An earlier event of this batch may have closed it, and another may have its number now.
  if (found == watches_.end() || found->second->number != event.data.u64 >> 32) return;
  const std::shared_ptr<Watch> entry = found->second;
  entry->handler(event.events);
}

// The next one. It is gone before it runs, whatever it throws.
void Reactor::run_timer() {
  const auto node = timers_.extract(timers_.begin());
  node.mapped()();
}

int Reactor::sleep_time() const {
  if (timers_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first.first - now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, AwakeTime::kLongestSleep.count()));
}

}  // namespace banyan::run
