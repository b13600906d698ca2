// Executors of several ranks in one process, each with connections of its own: over sockets, with texts that a test
// carries between them.
#include "banyan/run/execute/net_executor.h"

#include <condition_variable>
#include <deque>
#include <iostream>
#include <mutex>
#include <variant>

#include "banyan/run/execute/test_executors.h"
#include "banyan/run/system/waiter.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using Clock = std::chrono::steady_clock;

// Of float32 that goes as float16, in which these numbers are exact.
struct CodedSum {
  CodedSum(uint32_t rank, uint32_t ranks, int64_t number, size_t count) : in(count), out(count), expected(count) {
    for (size_t i = 0; i < count; ++i) {
      const auto first = static_cast<float>(number % 10), at = static_cast<float>(i % 50);
      in[i] = first + at * static_cast<float>(rank + 1);
      expected[i] = first * static_cast<float>(ranks) + at * static_cast<float>(ranks * (ranks + 1) / 2);
    }
  }
  Call call() {
    return {.kind = OperationKind::all_reduce,
            .type = element::DataType::float32,
            .codec = codec::Codec{.code = codec::ValueCode::float16},
            .send = reinterpret_cast<const std::byte*>(in.data()),
            .recv = reinterpret_cast<std::byte*>(out.data()),
            .count = in.size()};
  }
  bool is_right() const { return out == expected; }
  std::vector<float> in, out, expected;
};

TEST(NetExecutors, OfTwoCommunicatorsAreServedByOneThreadWithOneSleep) {
  Ranks first({.ranks = 2}), second({.ranks = 2});
  std::atomic<bool> is_first_over{false};
  const auto peer_of = [&](Ranks& ranks, const std::atomic<bool>* may_begin) {
    return [&ranks, may_begin] {
      while (may_begin != nullptr && !*may_begin) std::this_thread::yield();
      Sum sum(1, 2, 5, 300'000);
      Impatient watch;
      ranks.executors[1]->start(sum.call(), numbers_of(sum.call()));
      ranks.executors[1]->finish(watch);
      EXPECT_TRUE(sum.is_right());
    };
  };
  std::thread first_peer(peer_of(first, nullptr)), second_peer(peer_of(second, &is_first_over));
  // Both in this thread. The second one's peer begins only when the first is over.
  Sum sums[2] = {Sum(0, 2, 5, 300'000), Sum(0, 2, 5, 300'000)};
  Executor* const executors[2] = {first.executors[0].get(), second.executors[0].get()};
  Waiter waiter;
  for (int i = 0; i < 2; ++i) {
    executors[i]->start(sums[i].call(), numbers_of(sums[i].call()));
    waiter.add(*executors[i]->events());
  }
  bool is_over[2] = {false, false};
  size_t sleeps = 0;
  const Clock::time_point end = Clock::now() + seconds(60);
  while (!(is_over[0] && is_over[1]) && Clock::now() < end) {
    const uint64_t before = executors[0]->steps() + executors[1]->steps();
    for (int i = 0; i < 2; ++i) is_over[i] = is_over[i] || executors[i]->advance();
    if (is_over[0]) is_first_over = true;
    if (executors[0]->steps() + executors[1]->steps() != before) continue;
    waiter.wait(seconds(1));
    ++sleeps;
  }
  is_first_over = true;
  EXPECT_TRUE(is_over[0] && is_over[1]);
  EXPECT_TRUE(sums[0].is_right() && sums[1].is_right());
  EXPECT_GT(sleeps, 0u);
  first_peer.join();
  second_peer.join();
}

constexpr int64_t kCalls = 60;

// Makes calls, asks for other plans amid them, and goes on until all ranks have agreed on so many generations.
std::string call_and_revise(Ranks& ranks, uint32_t rank, uint32_t generations, const PlanWish& wish,
                            const std::function<bool(int64_t call)>& is_time, int64_t calls = kCalls) {
  Executor& executor = *ranks.executors[rank];
  Impatient watch;
  const auto size = static_cast<uint32_t>(ranks.executors.size());
  for (int64_t call = 0; call < calls; ++call) {
    if (is_time(call)) executor.reviser()->propose(wish);
    Sum sum(rank, size, call, 5000);
    executor.start(sum.call(), numbers_of(sum.call()));
    executor.finish(watch);
    if (!sum.is_right()) return "wrong sums in call " + std::to_string(call);
  }
  const auto have_agreed = [&] {
    executor.reviser()->poll();
    return std::all_of(ranks.executors.begin(), ranks.executors.end(),
                       [&](const auto& each) { return each->generation() >= generations; });
  };
  while (!have_agreed()) {
    watch.waiting_for(rank);
    executor.sleep(have_agreed);
  }
  return "right";
}

TEST(NetExecutors, AdoptWhatAnOperatorWantsOnAllRanksAndRepeatTheirCalls) {
  Ranks ranks({.ranks = 3});
  const PlanWish wish{.bytes_per_second = {{4, 1000}}, .plan = "a plan\nof two lines"};
  EXPECT_THAT(ranks.run([&](uint32_t rank) {
    return call_and_revise(ranks, rank, 1, wish, [&](int64_t call) { return rank == 1 && call == 10; });
  }),
              Each("right"));
  const FabricUpdate adopted{.generation = 1, .bytes_per_second = wish.bytes_per_second, .plan = wish.plan};
  for (const auto& executor : ranks.executors) EXPECT_EQ(executor->adopted(), adopted);
  for (const auto& executor : ranks.executors) EXPECT_EQ(executor->reroutes(), 0u) << "nothing was lost";
}

TEST(NetExecutors, AreAskedForTheirReviserByAnyThreadWhilePlansAreRevised) {
  constexpr uint32_t kRevisions = 200;
  Ranks ranks({.ranks = 2});
  std::atomic<bool> is_over{false};
  std::atomic<uint64_t> missing{0};
  std::thread agent([&] {
    while (!is_over) {
      for (const auto& executor : ranks.executors) missing += executor->reviser() == nullptr ? 1 : 0;
    }
  });
  for (uint32_t revision = 1; revision <= kRevisions; ++revision) {
    const PlanWish wish{.bytes_per_second = {{4, 1000 + revision}}};
    const auto reports = ranks.run([&](uint32_t rank) {
      return call_and_revise(
          ranks, rank, revision, wish, [&](int64_t call) { return rank == 1 && call == 0; }, 2);
    });
    EXPECT_THAT(reports, Each("right")) << revision;
    if (HasFailure()) break;
  }
  is_over = true;
  agent.join();
  EXPECT_EQ(missing, 0u);
}

// Tasks in their order, each a while after it was given.
class SlowThread {
 public:
  SlowThread() : thread_([this] { run(); }) {}
  ~SlowThread() {
    give({});
    thread_.join();
  }
  Background background() {
    return [this](std::function<void()> task) { give(std::move(task)); };
  }

 private:
  void give(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_one();
  }
  void run() {
    for (;;) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !tasks_.empty(); });
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      if (!task) return;
      std::this_thread::sleep_for(milliseconds(2));
      task();
    }
  }

  std::mutex mutex_;  // protects tasks_
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::thread thread_;
};

// Calls of two sizes and two codes, several in flight, and a wish of some rank every few calls.
std::string call_through_changes(Ranks& ranks, uint32_t rank, int64_t calls, std::atomic<uint64_t>& longest_wait) {
  NetExecutor& executor = *ranks.executors[rank];
  const auto size = static_cast<uint32_t>(ranks.executors.size());
  Impatient watch;
  std::deque<std::variant<Sum, CodedSum>> sums;
  for (int64_t call = 0; call < calls || !sums.empty();) {
    if (call < calls && sums.size() < 3) {
      if (call % 7 == 3 && call / 7 % size == rank) {
        executor.propose({.bytes_per_second = {{rank, static_cast<uint64_t>(1000 + call)}}});
      }
      const size_t count = call % 2 == 0 ? 20'000 : 3;
      if (call % 4 < 2) {
        sums.emplace_back(std::in_place_type<Sum>, rank, size, call, count);
      } else {
        sums.emplace_back(std::in_place_type<CodedSum>, rank, size, call, count);
      }
      const Call next = std::visit([](auto& sum) { return sum.call(); }, sums.back());
      executor.start(next, numbers_of(next));
      ++call;
      if (call < calls && sums.size() < 3) continue;
    }
    const Clock::time_point begin = Clock::now();
    executor.finish(watch);
    const auto waited = static_cast<uint64_t>((Clock::now() - begin).count());
    for (uint64_t known = longest_wait; waited > known && !longest_wait.compare_exchange_weak(known, waited);) {
    }
    const bool is_right = std::visit([](const auto& sum) { return sum.is_right(); }, sums.front());
    if (!is_right) return "wrong sums in one of the calls before " + std::to_string(call);
    sums.pop_front();
  }
  return "right";
}

TEST(NetExecutors, GoOverToOtherPlansWhileCallsGoOn) {
  SlowThread thread;
  for (const Background& background : {Background(), thread.background()}) {
    Ranks ranks({.ranks = 3, .background = background});
    std::atomic<uint64_t> longest_wait{0};
    EXPECT_THAT(ranks.run([&](uint32_t rank) { return call_through_changes(ranks, rank, 600, longest_wait); }),
                Each("right"));
    uint32_t generations = 0;
    for (const auto& executor : ranks.executors) {
      generations = std::max(generations, executor->generation());
      EXPECT_EQ(executor->suspensions(), 0u) << "calls need not be repeated";
    }
    EXPECT_GE(generations, 10u);
    std::cout << generations << " changes amid 600 calls; the longest wait " << longest_wait / 1000 << " us\n";
  }
}

// An all-to-all-v whose numbers depend on both ranks, the position and the number of the call; some pairs have nothing.
struct Exchange {
  Exchange(uint32_t rank, uint32_t ranks, int64_t number) {
    const auto elements = [&](uint32_t from, uint32_t to) {
      return static_cast<size_t>((from * 5 + to * 3 + number) % 4 * (number % 3 == 0 ? 1000 : 7));
    };
    const auto value = [&](uint32_t from, uint32_t to, size_t i) {
      return number * 1'000'000 + from * 10'000 + to * 100'000 + static_cast<int64_t>(i);
    };
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      sends.push_back(elements(rank, peer));
      comes.push_back(elements(peer, rank));
      for (size_t i = 0; i < sends.back(); ++i) in.push_back(value(rank, peer, i));
      for (size_t i = 0; i < comes.back(); ++i) expected.push_back(value(peer, rank, i));
    }
    out.resize(expected.size());
  }
  Call call() {
    return {.kind = OperationKind::all_to_all_v,
            .type = element::DataType::int64,
            .send = reinterpret_cast<const std::byte*>(in.data()),
            .recv = reinterpret_cast<std::byte*>(out.data()),
            .send_counts = sends,
            .recv_counts = comes};
  }
  bool is_right() const { return out == expected; }
  std::vector<size_t> sends, comes;
  std::vector<int64_t> in, out, expected;
};

// Exchanges and sums by turns, three in flight, and a wish of some rank every few calls.
std::string exchange_through_changes(Ranks& ranks, uint32_t rank, int64_t calls) {
  NetExecutor& executor = *ranks.executors[rank];
  const auto size = static_cast<uint32_t>(ranks.executors.size());
  Impatient watch;
  std::deque<Exchange> exchanges;
  std::deque<Sum> sums;
  const auto finish_one = [&](int64_t call) {
    executor.finish(watch);
    if (call % 3 == 2) {
      const bool is_right = sums.front().is_right();
      sums.pop_front();
      return is_right;
    }
    const bool is_right = exchanges.front().is_right();
    exchanges.pop_front();
    return is_right;
  };
  for (int64_t call = 0; call < calls + 2; ++call) {
    if (call < calls) {
      if (call % 11 == 3 && call / 11 % size == rank) {
        executor.propose({.bytes_per_second = {{rank, static_cast<uint64_t>(1000 + call)}}});
      }
      const Call next = call % 3 == 2 ? sums.emplace_back(rank, size, call, 5000).call()
                                      : exchanges.emplace_back(rank, size, call).call();
      executor.start(next, numbers_of(next));
    }
    if (call >= 2 && !finish_one(call - 2)) return "wrong data of call " + std::to_string(call - 2);
  }
  return "right";
}

TEST(NetExecutors, TellEachOtherTheCountsOfPlannedExchangesWhilePlansChange) {
  SlowThread thread;
  for (const Background& background : {Background(), thread.background()}) {
    Ranks ranks({.ranks = 4, .exchanges = true, .background = background});
    EXPECT_THAT(ranks.run([&](uint32_t rank) { return exchange_through_changes(ranks, rank, 300); }), Each("right"));
    uint32_t generations = 0;
    for (const auto& executor : ranks.executors) {
      generations = std::max(generations, executor->generation());
      EXPECT_EQ(executor->suspensions(), 0u) << "calls need not be repeated";
    }
    EXPECT_GE(generations, 3u);
  }
}

// What a rank throws when it is called, or goes on until another one has thrown something.
std::string first_error(NetExecutor& executor, const Call& call, std::atomic<bool>& is_over) {
  Impatient watch;
  try {
    executor.start(call, numbers_of(call));
    while (!is_over && !executor.advance()) watch.waiting_for(0);
    return "";
  } catch (const Error& error) {
    is_over = true;
    return error.what();
  }
}

TEST(NetExecutors, NameWhoSendsAnotherCountThanIsExpected) {
  Ranks ranks({.ranks = 3, .exchanges = true});
  std::atomic<bool> is_over{false};
  const auto reports = ranks.run([&](uint32_t rank) -> std::string {
    Exchange exchange(rank, 3, 1);
    if (rank == 2) ++exchange.comes[0];
    exchange.out.resize(exchange.out.size() + 1);
    return first_error(*ranks.executors[rank], exchange.call(), is_over);
  });
  EXPECT_EQ(reports[2], "rank 0 sends " + std::to_string(Exchange(0, 3, 1).sends[2]) +
                            " elements where rank 2 expects " + std::to_string(Exchange(0, 3, 1).sends[2] + 1));
}

TEST(NetExecutors, FindOutWhoMakesAnotherCallThanAnExchange) {
  Ranks ranks({.ranks = 2, .exchanges = true});
  std::atomic<bool> is_over{false};
  const auto reports = ranks.run([&](uint32_t rank) -> std::string {
    Exchange exchange(rank, 2, 1);
    Sum sum(rank, 2, 1, 10);
    return first_error(*ranks.executors[rank], rank == 0 ? exchange.call() : sum.call(), is_over);
  });
  // Agents tell the other one.
  EXPECT_THAT(reports[0] + reports[1],
              ::testing::AllOf(::testing::HasSubstr("all-to-allv"), ::testing::HasSubstr("allreduce")));
}

TEST(NetExecutors, AdoptOneWishAfterTheOther) {
  Ranks ranks({.ranks = 3});
  EXPECT_THAT(ranks.run([&](uint32_t rank) {
    const PlanWish wish{.bytes_per_second = {{rank, 1000 + rank}}};
    return call_and_revise(ranks, rank, 1, wish, [&](int64_t call) { return call == 10 * rank; });
  }),
              Each("right"));
  const std::map<uint32_t, uint64_t> all{{0, 1000}, {1, 1001}, {2, 1002}};
  // Until the last of them has agreed on the last wish.
  std::atomic<uint32_t> satisfied{0};
  EXPECT_THAT(ranks.run([&](uint32_t rank) -> std::string {
    NetExecutor& executor = *ranks.executors[rank];
    Impatient watch;
    bool has_all = false;
    const auto have_all = [&] {
      executor.reviser()->poll();
      if (!has_all && executor.adopted().bytes_per_second == all) {
        has_all = true;
        ++satisfied;
      }
      return satisfied == 3;
    };
    while (!have_all()) {
      watch.waiting_for(rank);
      executor.sleep(have_all);
    }
    return "right";
  }),
              Each("right"));
}

TEST(NetExecutors, AdoptNothingOnAnyRankWhenOneCannotFollow) {
  Ranks ranks({.ranks = 3, .refuses = 2});
  const PlanWish wish{.plan = "bad"};
  EXPECT_THAT(ranks.run([&](uint32_t rank) {
    return call_and_revise(ranks, rank, 1, wish, [&](int64_t call) { return rank == 0 && call == 7; });
  }),
              Each("right"));
  for (const auto& executor : ranks.executors) EXPECT_EQ(executor->adopted(), FabricUpdate());
}

}  // namespace
}  // namespace banyan::run
