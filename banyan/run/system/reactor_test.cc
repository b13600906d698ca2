#include "banyan/run/system/reactor.h"

#include <unistd.h>

#include <future>
#include <new>
#include <stdexcept>

#include "banyan/run/system/child.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

TEST(Reactor, TellsWhatWasThrownAndServesTheOthers) {
  Reactor reactor;
  std::vector<std::string> told, served;
  Event event;
  event.set();
  reactor.watch(event.fd(), EPOLLIN, [&](uint32_t) {
    event.clear();
    throw Error(ErrorCode::io, "handler");
  });
  reactor.after(std::chrono::milliseconds(1), [] { throw std::bad_alloc(); });
  reactor.after(std::chrono::milliseconds(2), [&] { served.emplace_back("timer"); });
  reactor.mailbox()->post([] { throw std::runtime_error("task"); });
  reactor.mailbox()->post([&] { served.emplace_back("task"); });
  reactor.after(std::chrono::milliseconds(20), [&] { reactor.stop(); });
  reactor.run([&](const Error& error) { told.emplace_back(error.what()); });
  EXPECT_THAT(told, ::testing::UnorderedElementsAre("handler", "task", "there is not enough memory"));
  EXPECT_THAT(served, ElementsAre("task", "timer"));
}

TEST(Reactor, DoesWhatWasPostedBeforeItWasStoppedAndNothingLater) {
  Reactor reactor;
  bool is_done = false;
  EXPECT_TRUE(reactor.mailbox()->post([&] { is_done = true; }));
  reactor.stop();
  reactor.run([](const Error& error) { ADD_FAILURE() << error.what(); });
  EXPECT_TRUE(is_done);
  EXPECT_FALSE(reactor.mailbox()->post([] {}));
}

// The exit status of a child that is forked while a reactor serves `handler`, which can see whether that is over.
int exit_status_of_fork(const std::function<void(const std::atomic<bool>& has_forked)>& handler,
                        const std::function<bool()>& is_well_in_child) {
  Reactor reactor;
  std::promise<void> begun;
  std::atomic<bool> has_forked{false};
  reactor.mailbox()->post([&] {
    begun.set_value();
    handler(has_forked);
  });
  std::thread thread([&] { reactor.run([](const Error& error) { ADD_FAILURE() << error.what(); }); });
  begun.get_future().wait();
  Child child([&] { return is_well_in_child() ? 0 : 1; });
  has_forked = true;
  reactor.stop();
  const int status = child.reap();
  thread.join();
  return status;
}

TEST(Reactor, IsNotForkedInTheMiddleOfWhatItServes) {
  std::atomic<bool> is_served{false};
  const auto handler = [&](const std::atomic<bool>&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    is_served = true;
  };
  EXPECT_EQ(exit_status_of_fork(handler, [&] { return is_served.load(); }), 0);
}

TEST(Reactor, HoldsNoForkForEver) {
  const auto handler = [](const std::atomic<bool>& has_forked) {
    while (!has_forked) std::this_thread::yield();
  };
  EXPECT_EQ(exit_status_of_fork(handler, [] { return true; }), 0);
}

}  // namespace
}  // namespace banyan::run
