// Poller: waits for any number of event sources at a cost that does not grow with those to which nothing happens
// (epoll(7)). For a thread that serves very many, of which most wait.
//
// A source is watched from watch() until it may have work, and must not be used meanwhile, except to be forgotten. The
// thread finds the sources that may have work by look(). It sleeps until there are any by a Waiter (waiter.h): the
// poller is an event source itself.
//
// Finding costs one system call. Watching costs one for each descriptor, but none for those that are the same as the
// last time (WaitSet::watch_kept): the kernel goes on watching them while their source is used otherwise. An event of
// such a descriptor is then for nobody. The kernel ceases to watch a descriptor whose event for nobody may have ended a
// sleep, or comes after kMostForNobody others in one look(). So look() costs what happens to those that are watched,
// and a little.
//
// One thread; a descriptor belongs to one source.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/run/system/event_source.h"
#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {

class Poller : public EventSource {
 public:
  // Throws Error{io}.
  Poller();
  ~Poller() = default;
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  static constexpr size_t kMostForNobody = 16;

  // Until the source may have work, or is forgotten; then, from look(), `ready` is called once. False: it has work
  // already, and is not watched. It must not be watched before. Throws what the source throws, and Error{io}.
  bool watch(EventSource& source, std::function<void()> ready);
  // Before the source is used otherwise, or ends. Nothing where it is not watched.
  void forget(EventSource& source);
  // Tells those that may have work. Never waits. Throws Error{io}.
  void look();
  bool is_idle() const { return watched_.empty(); }

  // The events by which look() may find any.
  void prepare(WaitSet& set) override;
  bool react(std::span<const pollfd> polled) override;

 private:
  struct Watched {
    uint64_t number = 0;
    std::function<void()> ready;
    std::vector<pollfd> polled;  // as the source has asked
    WaitSet::Clock::time_point deadline;
  };
  // The last request to the kernel for a descriptor.
  struct Armed {
    uint64_t since = 0;  // as in WaitSet::watch_kept; 0: it is to be told anew
    short events = 0;
    uint64_t number = 0;  // of the time of watching that it is for,
    size_t index = 0;     // and which descriptor of the source it is there
  };

  void arm(const pollfd& wanted, Armed armed);
  void disarm(int fd);
  void tell(EventSource& source);
  bool try_watching(EventSource& source, const std::function<void()>& ready);

  FileDescriptor epoll_;
  uint64_t next_number_ = 0;
  bool has_slept_ = false;                // since look()
  std::unordered_map<int, Armed> armed_;  // by descriptor
  std::unordered_map<EventSource*, Watched> watched_;
  std::unordered_map<uint64_t, EventSource*> by_number_;
  std::set<std::pair<WaitSet::Clock::time_point, EventSource*>> deadlines_;  // of those that have one
};

}  // namespace banyan::run
