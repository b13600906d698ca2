#include "banyan/run/system/waiter.h"

#include <sys/eventfd.h>

#include "banyan/run/system/test_event_source.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using Clock = std::chrono::steady_clock;

TEST(Waiter, WakesForAnyDescriptorOfAnySource) {
  FakeSource first(2), second(0), third(3);
  Waiter waiter;
  for (FakeSource* source : {&first, &second, &third}) waiter.add(*source);
  EXPECT_FALSE(waiter.wait(milliseconds(0)));
  for (FakeSource* source : {&first, &third}) {
    for (const FileDescriptor& event : source->events) {
      const size_t before = source->rung.size();
      eventfd_write(event.get(), 1);
      EXPECT_TRUE(waiter.wait(seconds(20)));
      EXPECT_EQ(source->rung.size(), before + 1);
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
  EXPECT_EQ(idle.rung.size(), 1u) << "descriptors are looked at all the same";
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
  EXPECT_EQ(source.rung.size(), 1u);
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
