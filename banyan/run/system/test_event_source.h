// FakeSource: an event source of tests, with some descriptors, a deadline, and work: each if the test says so.
#pragma once

#include <sys/eventfd.h>

#include "banyan/run/system/event_source.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/testing/test.h"

namespace banyan::run {

class FakeSource : public EventSource {
 public:
  explicit FakeSource(size_t descriptors = 1) {
    for (size_t i = 0; i < descriptors; ++i) events.emplace_back(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  }
  void prepare(WaitSet& set) override {
    ++prepared;
    for (const FileDescriptor& event : events) set.watch(event.get(), POLLIN);
    if (deadline) set.wake_at(*deadline);
    if (has_work) set.work_now();
  }
  bool react(std::span<const pollfd> polled) override {
    EXPECT_EQ(polled.size(), events.size());
    bool is_news = false;
    for (size_t i = 0; i < polled.size(); ++i) {
      EXPECT_EQ(polled[i].fd, events[i].get());
      if (polled[i].revents == 0) continue;
      rung.push_back(i);
      eventfd_t count = 0;
      eventfd_read(events[i].get(), &count);
      is_news = !ignores_rings;
    }
    if (deadline && WaitSet::Clock::now() >= *deadline) {
      deadline.reset();
      is_news = true;
    }
    return is_news;
  }
  void ring(size_t descriptor = 0) const { eventfd_write(events.at(descriptor).get(), 1); }

  std::vector<FileDescriptor> events;
  std::optional<WaitSet::Clock::time_point> deadline;
  bool has_work = false, ignores_rings = false;
  size_t prepared = 0;
  std::vector<size_t> rung;  // which, in their order
};

}  // namespace banyan::run
