#include "banyan/run/system/reactor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace banyan::run {
namespace {

using ::testing::ElementsAre;

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

}  // namespace
}  // namespace banyan::run
