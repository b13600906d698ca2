#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "banyan/run/host/segment.h"
#include "banyan/testing/orders/explorer.h"
#include "banyan/testing/orders/hooks.h"
#include "banyan/testing/orders/test_segment.h"

namespace banyan::testing::orders {
namespace {

using run::Segment;

// As HostGroup::nap() does it.
template <typename IsThere>
void nap_until(const Segment& segment, uint32_t rank, const IsThere& is_there) {
  while (!is_there()) {
    const uint32_t seen = segment.rings(rank);
    segment.fall_asleep(rank);
    if (!is_there()) segment.sleep(rank, seen);
    segment.wake_up(rank);
  }
}

// With what has to be there when it is seen.
template <bool kBySleepers>
void a_rank_publishes(Trial& trial) {
  auto& host = *new TestHost(trial, 2, kBySleepers);
  trial.thread("rank 0", [&host] {
    run::Post& post = host.segment(0).post(0, 1);
    post.signature = 5;
    host.segment(0).publish(post.sequence, 1);
  });
  trial.thread("rank 1", [&host, &trial] {
    const run::Post& post = host.segment(1).post(0, 1);
    nap_until(host.segment(1), 1, [&] { return post.sequence.load(std::memory_order_acquire) == 1; });
    trial.expect(post.signature == 5, "another signature");
  });
}

// Another rank sleeps already, so that who publishes looks at all.
template <bool kBySleepers>
void others_sleep_already(Trial& trial) {
  auto& host = *new TestHost(trial, 3, kBySleepers);
  host.segment(2).fall_asleep(2);
  trial.thread("rank 0", [&host] { host.segment(0).publish(host.segment(0).staged(0).value, 1); });
  trial.thread("rank 1", [&host] {
    const auto is_there = [&] { return host.segment(1).staged(0).value.load(std::memory_order_acquire) == 1; };
    nap_until(host.segment(1), 1, is_there);
  });
}

// The first error ends the group: who sleeps wakes up, and finds its text.
template <bool kBySleepers>
void a_rank_breaks_the_group(Trial& trial) {
  auto& host = *new TestHost(trial, 3, kBySleepers);
  for (const uint32_t rank : {0u, 1u}) {
    trial.thread(rank == 0 ? "rank 0" : "rank 1",
                 [&host, rank] { host.segment(rank).break_with(static_cast<int>(rank) + 1, rank == 0 ? "a" : "b"); });
  }
  trial.thread("rank 2", [&host, &trial] {
    const Segment& segment = host.segment(2);
    nap_until(segment, 2, [&] { return segment.is_broken(); });
    const char letter = segment.broken_text()[0];
    trial.expect(segment.broken_code() == (letter == 'a' ? 1 : 2), "the code is of another error");
  });
}

// Another thread of its process has something for a rank, and rings.
void a_rank_is_rung(Trial& trial) {
  struct Task {
    TestHost host;
    std::atomic<bool> is_there{false};
  };
  auto& task = *new Task{.host = TestHost(trial, 1, false)};
  trial.thread("rank 0", [&task] {
    nap_until(task.host.segment(0), 0, [&] { return task.is_there.load(std::memory_order_relaxed); });
  });
  trial.thread("another thread", [&task] {
    task.is_there.store(true, std::memory_order_relaxed);
    task.host.segment(0).ring(0);
  });
}

// What a rank has called is looked up while it may be that many operations ahead that it writes there again.
void a_record_is_overwritten(Trial& trial) {
  constexpr run::CallRecord::Numbers kFirst{1, 1, 1, 1}, kNext{2, 2, 2, 2};
  auto& host = *new TestHost(trial, 2, false);
  host.segment(0).call_record(0, 1).write(kFirst);
  trial.thread("rank 0", [&host, kNext] {
    const Segment& segment = host.segment(0);
    segment.publish(segment.post(0, Segment::kPosts).sequence, Segment::kPosts);
    segment.call_record(0, Segment::kPosts + 1).write(kNext);
  });
  trial.thread("rank 1", [&host, &trial, kFirst] {
    const run::CallRecord::Numbers numbers = host.segment(1).call_record(0, 1).read();
    if (host.segment(1).is_kept(0, 1)) trial.expect(numbers == kFirst, "another call");
  });
}

// All come, and know then how many can attach, and who makes barriers.
void ranks_come(Trial& trial) {
  auto& host = *new TestHost(trial, 2);
  for (const uint32_t rank : {0u, 1u}) {
    trial.thread(rank == 0 ? "rank 0" : "rank 1", [&host, &trial, rank] {
      Segment& segment = host.segment(rank);
      segment.say_here(rank, true, true);
      if (rank == 0) {
        trial.await([&] { return segment.here() == 2; });
      } else {
        trial.await([&] { return segment.is_here(0) && segment.is_here(1); });
      }
      trial.expect(segment.can_attach() == 2, "not all can attach");
      segment.settle();
      trial.expect(segment.sleepers_make_barriers(), "not all make barriers");
    });
  }
}

TEST(SegmentOrders, AllCount) {
  EXPECT_EQ(every_order_counts({"segment.h", "segment.cc"},
                               {a_rank_publishes<false>, a_rank_publishes<true>, others_sleep_already<false>,
                                others_sleep_already<true>, a_rank_breaks_the_group<false>,
                                a_rank_breaks_the_group<true>, a_rank_is_rung, a_record_is_overwritten, ranks_come}),
            "");
}

}  // namespace
}  // namespace banyan::testing::orders
