#include "banyan/run/system/waiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// Some descriptors, a deadline, and work: each if the test says so.
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
      ++rung;
      eventfd_t count = 0;
      eventfd_read(events[i].get(), &count);
      is_news = !ignores_rings;
    }
    if (deadline && Clock::now() >= *deadline) {
      deadline.reset();
      is_news = true;
    }
    return is_news;
  }

  std::vector<FileDescriptor> events;
  std::optional<Clock::time_point> deadline;
  bool has_work = false, ignores_rings = false;
  size_t prepared = 0, rung = 0;
};

TEST(Waiter, WakesForAnyDescriptorOfAnySource) {
  FakeSource first(2), second(0), third(3);
  Waiter waiter;
  for (FakeSource* source : {&first, &second, &third}) waiter.add(*source);
  EXPECT_FALSE(waiter.wait(milliseconds(0)));
  for (FakeSource* source : {&first, &third}) {
    for (const FileDescriptor& event : source->events) {
      const size_t before = source->rung;
      eventfd_write(event.get(), 1);
      EXPECT_TRUE(waiter.wait(seconds(20)));
      EXPECT_EQ(source->rung, before + 1);
    }
  }
  EXPECT_FALSE(waiter.wait(milliseconds(0)));
}

TEST(Waiter, OnlyLooksWhereThereIsWork) {
  FakeSource idle, busy;
  busy.has_work = true;
  Waiter waiter;
  waiter.add(idle);
  waiter.add(busy);
  eventfd_write(idle.events[0].get(), 1);
  EXPECT_TRUE(waiter.wait(seconds(60)));
  EXPECT_EQ(idle.rung, 1u) << "descriptors are looked at all the same";
  EXPECT_TRUE(waiter.wait(seconds(60)));
}

TEST(Waiter, WakesForTheEarliestDeadline) {
  FakeSource early, late;
  const Clock::time_point begin = Clock::now();
  early.deadline = begin + milliseconds(3);
  late.deadline = begin + seconds(60);
  Waiter waiter;
  waiter.add(late);
  waiter.add(early);
  EXPECT_TRUE(waiter.wait(seconds(60)));
  EXPECT_GE(Clock::now(), begin + milliseconds(3));
  EXPECT_FALSE(early.deadline);
  EXPECT_TRUE(late.deadline);
}

TEST(Waiter, SleepsOnAfterWhatIsNoNews) {
  FakeSource source;
  source.ignores_rings = true;
  eventfd_write(source.events[0].get(), 1);
  EXPECT_FALSE(wait_for(source, milliseconds(2)));
  EXPECT_EQ(source.rung, 1u);
  EXPECT_GE(source.prepared, 2u);
}

TEST(Waiter, WaitsNoMoreForWhatWasRemoved) {
  FakeSource kept, removed;
  removed.has_work = true;
  Waiter waiter;
  waiter.add(kept);
  waiter.add(removed);
  waiter.remove(removed);
  EXPECT_FALSE(waiter.wait(milliseconds(0)));
  EXPECT_EQ(removed.prepared, 0u);
}

TEST(Waiter, IsWokenByAnotherThread) {
  FakeSource source;
  std::thread other([&] { eventfd_write(source.events[0].get(), 1); });
  EXPECT_TRUE(wait_for(source, seconds(60)));
  other.join();
}

}  // namespace
}  // namespace banyan::run
