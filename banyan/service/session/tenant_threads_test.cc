#include "banyan/service/session/tenant_threads.h"

#include <future>
#include <mutex>

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

TEST(TenantThreads, DoTheWorkOfAUserInItsOrder) {
  TenantThreads threads;
  std::mutex mutex;
  std::vector<int> done;
  std::promise<void> over;
  for (int i = 0; i < 5; ++i) {
    threads.post({7, 0}, [&, i] {
      const std::lock_guard lock(mutex);
      done.push_back(i);
    });
  }
  threads.post({7, 0}, [&] { over.set_value(); });
  ASSERT_EQ(over.get_future().wait_for(seconds(30)), std::future_status::ready);
  EXPECT_THAT(done, ElementsAre(0, 1, 2, 3, 4));
}

TEST(TenantThreads, HaveNobodyWaitForAnotherUser) {
  TenantThreads threads;
  std::promise<void> released, over;
  threads.post({1, 0}, [waited = released.get_future().share()] { waited.wait(); });
  threads.post({2, 0}, [&] { over.set_value(); });
  EXPECT_EQ(over.get_future().wait_for(seconds(30)), std::future_status::ready);
  released.set_value();
}

TEST(TenantThreads, DropWhatWaitsWhenTheyEnd) {
  std::atomic<int> done = 0;
  std::promise<void> begun, released;
  auto threads = std::make_unique<TenantThreads>();
  threads->post({1, 0}, [&, waited = released.get_future().share()] {
    begun.set_value();
    waited.wait();
    ++done;
  });
  threads->post({1, 0}, [&] { done += 100; });
  begun.get_future().wait();
  std::future<void> end = std::async(std::launch::async, [&] { threads.reset(); });
  EXPECT_EQ(end.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout) << "it waits for what runs";
  released.set_value();
  end.get();
  EXPECT_EQ(done, 1);
}

TEST(TenantThreads, LetGoOfWhatATaskHoldsBeforeTheNextOne) {
  TenantThreads threads;
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> seen = held;
  std::promise<bool> is_gone;
  threads.post({1, 0}, [held = std::move(held)] {});
  threads.post({1, 0}, [&] { is_gone.set_value(seen.expired()); });
  EXPECT_TRUE(is_gone.get_future().get());
}

// A user with very many threads leaves none for these.
TEST(TenantThreads, DoNothingOnTheCallerWhereNoThreadCanBeMade) {
  std::atomic<bool> is_short = false;
  TenantThreads threads([&](std::function<void()> body) {
    if (is_short) throw Error(ErrorCode::io, "no thread");
    std::thread(std::move(body)).detach();
  });
  std::promise<void> released, by_retry, by_another_line, held;
  std::atomic<int> done = 0;
  threads.post({1, 0}, [&, waited = released.get_future().share()] {
    held.set_value();
    waited.wait();
  });
  held.get_future().wait();
  is_short = true;
  threads.post({2, 0}, [&] {
    ++done;
    by_retry.set_value();
  });
  EXPECT_FALSE(threads.try_post({4, 5}, [&] { done += 100; }));
  threads.go_on();
  EXPECT_EQ(done, 0);
  is_short = false;
  threads.go_on();
  EXPECT_EQ(by_retry.get_future().wait_for(seconds(30)), std::future_status::ready);
  is_short = true;
  threads.post({3, 0}, [&] { by_another_line.set_value(); });
  released.set_value();
  EXPECT_EQ(by_another_line.get_future().wait_for(seconds(30)), std::future_status::ready);
}

TEST(TenantThreads, EndAtOnceWhereNothingRuns) {
  bool is_done = false;
  const auto begin = std::chrono::steady_clock::now();
  {
    TenantThreads threads([](const auto&) { throw Error(ErrorCode::io, "no thread"); });
    threads.post({1, 0}, [&] { is_done = true; });
  }
  EXPECT_FALSE(is_done);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(1));
}

}  // namespace
}  // namespace banyan::service
