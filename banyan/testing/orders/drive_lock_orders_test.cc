#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "banyan/run/communicator/drive_lock.h"
#include "banyan/testing/orders/explorer.h"
#include "banyan/testing/orders/hooks.h"

namespace banyan::testing::orders {
namespace {

using run::DriveLock;

struct Work {
  DriveLock lock;
  int driven = 0;                    // by who has the lock
  std::atomic<bool> is_over{false};  // as Operation has it
};

Work& work(bool has_barriers) {
  set_barriers(has_barriers);
  return *new Work;
}

constexpr std::chrono::milliseconds kLong{1000};

// Two threads drive, one after the other; who does not get the lock sleeps until it is free.
template <bool kHasBarriers>
void threads_drive(Trial& trial) {
  Work& work = banyan::testing::orders::work(kHasBarriers);
  for (int i = 0; i < 2; ++i) {
    trial.thread("a thread", [&work] {
      while (!work.lock.try_take()) work.lock.sleep([] { return false; }, kLong);
      ++work.driven;
      work.lock.give_back();
    });
  }
  trial.at_end([&work, &trial] { trial.expect(work.driven == 2, "somebody has not driven"); });
}

// One drives on, and tells who waits for an operation that it is over; with kIsSecond it has announced something
// before, so that this announcement finds the first one's number.
template <bool kHasBarriers, bool kIsSecond>
void an_operation_ends(Trial& trial) {
  Work& work = banyan::testing::orders::work(kHasBarriers);
  work.lock.try_take();
  trial.thread("driver", [&work] {
    if (kIsSecond) work.lock.announce();
    work.is_over.store(true, std::memory_order_seq_cst);
    work.lock.announce();
  });
  trial.thread("waiter", [&work] {
    const auto is_over = [&] { return work.is_over.load(std::memory_order_seq_cst); };
    while (!is_over()) work.lock.sleep(is_over, kLong);
  });
}

// A progress thread does not take the lock while somebody waits for it; in the end it gets it.
void a_progress_thread_gives_way(Trial& trial) {
  Work& work = banyan::testing::orders::work(true);
  trial.thread("waiter", [&work] {
    const DriveLock::Waiter waiter(work.lock);
    while (!work.lock.try_take()) work.lock.sleep([] { return false; }, kLong);
    ++work.driven;
    work.lock.give_back();
  });
  trial.thread("progress", [&work, &trial] {
    trial.await([&] { return !work.lock.has_waiters(); });
    while (!work.lock.try_take()) work.lock.sleep([] { return false; }, kLong);
    ++work.driven;
    work.lock.give_back();
  });
}

TEST(DriveLockOrders, AllCount) {
  EXPECT_EQ(
      every_order_counts({"drive_lock.h"}, {threads_drive<true>, threads_drive<false>, an_operation_ends<true, false>,
                                            an_operation_ends<false, false>, an_operation_ends<true, true>,
                                            an_operation_ends<false, true>, a_progress_thread_gives_way}),
      "");
  set_barriers(true);
}

}  // namespace
}  // namespace banyan::testing::orders
