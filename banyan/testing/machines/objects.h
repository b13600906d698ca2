// What besides sockets has a descriptor in a simulated process: counters of eventfd(2), epoll(7), pidfd_open(2).
#pragma once

#include <poll.h>

#include <cstring>
#include <map>
#include <utility>

#include "banyan/testing/machines/kernel.h"

namespace banyan::testing::machines {

class EventCounter final : public Object {
 public:
  explicit EventCounter(uint64_t count) : count_(count) {}
  uint32_t events() const override { return POLLOUT | (count_ > 0 ? POLLIN : 0u); }
  ssize_t read(void* into, size_t size) override {
    if (size < sizeof count_) return fail(EINVAL);
    if (count_ == 0) return fail(EAGAIN);
    const uint64_t count = std::exchange(count_, 0);
    std::memcpy(into, &count, sizeof count);
    return sizeof count;
  }
  ssize_t write(const void* from, size_t size) override {
    if (size < sizeof count_) return fail(EINVAL);
    uint64_t more = 0;
    std::memcpy(&more, from, sizeof more);
    count_ += more;
    return sizeof more;
  }

 private:
  uint64_t count_;
};

class ProcessDescriptor final : public Object {
 public:
  explicit ProcessDescriptor(const Process& process) : process_(process) {}
  uint32_t events() const override { return process_.is_over ? POLLIN : 0; }

 private:
  const Process& process_;
};

// Connecting one sends nothing: it tells the address that would be used.
class DatagramSocket final : public Object {
 public:
  uint32_t events() const override { return POLLOUT; }
  Address local;
};

class EventPoll final : public Object {
 public:
  explicit EventPoll(Kernel& kernel) : kernel_(kernel) {}
  uint32_t events() const override { return has_any() ? POLLIN : 0; }
  int control(int operation, int fd, const epoll_event* event) {
    const bool is_known = watched_.contains(fd);
    if (kernel_.find(fd) == nullptr) return fail(EBADF);
    if (operation == EPOLL_CTL_ADD && is_known) return fail(EEXIST);
    if (operation != EPOLL_CTL_ADD && !is_known) return fail(ENOENT);
    if (operation == EPOLL_CTL_DEL) {
      watched_.erase(fd);
    } else {
      watched_[fd] = {.object = kernel_.find(fd), .event = *event};
    }
    return 0;
  }
  bool has_any() const {
    for (const auto& [fd, watched] : watched_) {
      if (found(watched) != 0) return true;
    }
    return false;
  }
  // In any order.
  int take(epoll_event* into, int most) {
    std::vector<epoll_event> all;
    for (const auto& [fd, watched] : watched_) {
      if (const uint32_t events = found(watched); events != 0) {
        all.push_back({.events = events, .data = watched.event.data});
      }
    }
    for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[kernel_.scheduler().draw(i)]);
    const int count = std::min(most, static_cast<int>(all.size()));
    std::copy_n(all.begin(), count, into);
    return count;
  }

 private:
  struct Watched {
    std::weak_ptr<Object> object;
    epoll_event event{};
  };
  // A descriptor that was closed is watched no more.
  static uint32_t found(const Watched& watched) {
    const std::shared_ptr<Object> object = watched.object.lock();
    return object == nullptr || object->owner == nullptr
               ? 0
               : object->events() & (watched.event.events | EPOLLERR | EPOLLHUP);
  }

  Kernel& kernel_;
  std::map<int, Watched> watched_;
};

}  // namespace banyan::testing::machines
