// The Driver with a false executor, in one process: who drives, who waits, and what is left when something throws.
#include "banyan/run/communicator/driver.h"

#include <condition_variable>
#include <deque>
#include <future>
#include <new>

#include "banyan/base/check.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// Ends a call for each permit that the test gives, in order. A message goes when it is started. Aborts when two threads
// use it at once, and when it is used after it has failed.
class FakeExecutor : public Executor, public PlanReviser {
 public:
  void permit(size_t calls) {
    permits_.fetch_add(calls);
    wake();
  }
  std::function<void()> on_advance = [] {};         // may throw
  static constexpr uint64_t kRefused = UINT64_MAX;  // of elements

  size_t depth() const override { return 2; }
  void start(const Call& call, const CallNumbers&) override {
    const Use use(*this);
    if (call.count == kRefused) throw Error(ErrorCode::invalid_input, "there is no plan for it");
    under_way_.push_back(call.count);
  }
  bool advance() override {
    const Use use(*this);
    has_failed_ = true;
    on_advance();
    has_failed_ = false;
    if (under_way_.empty() || permits_ == 0) return false;
    --permits_;
    ++steps_;
    over_.push_back(under_way_.front());
    under_way_.pop_front();
    return true;
  }
  void finish(Watch& watch) override {
    while (!advance()) {
      watch.waiting_for(1);
      sleep([] { return false; });
    }
  }
  uint64_t start_message(const Call&) override {
    const Use use(*this);
    return ++tickets_;
  }
  bool advance_messages(std::vector<MessageDone>& done) override {
    const Use use(*this);
    if (tickets_ == tickets_done_) return false;
    done.push_back({.ticket = ++tickets_done_, .peer = 7});
    return true;
  }
  void sleep(const std::function<bool()>& try_again) override {
    if (try_again()) return;
    std::unique_lock lock(mutex_);
    wakes_.wait_for(lock, milliseconds(100), [&] { return is_woken_; });
    is_woken_ = false;
  }
  void wake() override {
    const std::lock_guard lock(mutex_);
    is_woken_ = true;
    wakes_.notify_all();
  }
  BackOff back_off() const override { return BackOff(true); }
  uint32_t waiting_for() const override { return 1; }
  bool can_do_without(uint32_t) const override { return false; }
  uint64_t steps() const override { return steps_; }
  uint32_t reroutes() const override { return 0; }
  uint64_t propose(const PlanWish&) override { return 1; }
  std::optional<WishOutcome> outcome(uint64_t) const override { return std::nullopt; }
  uint32_t generation() const override { return 0; }
  void receive(const std::string&) override {}
  void poll() override { ++attended; }
  void break_with(const Error&) override {}
  std::optional<Error> broken() const override { return std::nullopt; }
  PlanReviser* reviser() override { return this; }
  EventSource* events() override { return nullptr; }

  std::atomic<int> attended{0};
  const std::vector<uint64_t>& over() const { return over_; }  // counts of the calls, in the order of their end

 private:
  struct Use {
    explicit Use(FakeExecutor& executor) : executor_(executor) {
      CHECK(!executor.is_used_.exchange(true)) << "two threads drive at once";
      CHECK(!executor.has_failed_) << "it is used after it has failed";
    }
    ~Use() { executor_.is_used_ = false; }
    FakeExecutor& executor_;
  };

  std::atomic<bool> is_used_{false}, has_failed_{false};
  std::atomic<size_t> permits_{0};
  std::deque<uint64_t> under_way_;
  std::vector<uint64_t> over_;
  uint64_t steps_ = 0, tickets_ = 0, tickets_done_ = 0;
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool is_woken_ = false;
};

// What a communicator does around its operations, as little as possible.
class FakeOwner : public Driver::Owner, public std::enable_shared_from_this<FakeOwner> {
 public:
  explicit FakeOwner(Progress progress) : driver(executor, *this, AwakeTime::instance(), patience, progress) {}
  ~FakeOwner() override = default;

  FakeExecutor executor;
  Patience patience;
  Driver driver;
  std::function<void()> on_cause = [] {};  // may throw
  MessageBook messages{8};
  std::atomic<int64_t> waits{0};

  void begin(const Call& call) override { executor.start(call, {}); }
  void end_oldest(OperationState) override {}
  MessageBook::Place begin_message(const Call& message) override {
    return messages.begin({.is_send = message.kind == OperationKind::send, .peer = message.other});
  }
  void record_wait(MessageBook::Place place) override { messages.record_wait(place, ++waits); }
  void end_message(const Call& message, MessageBook::Place place, uint32_t peer, OperationState state) override {
    messages.end(place, message.kind == OperationKind::send, peer, state);
  }
  void restart_watch() override {}
  void waiting_for(uint32_t) override {
    if (has_failed_) throw Error(*error_);
  }
  Error cause_of(const Error& error) override {
    on_cause();
    return has_failed_ ? *error_ : error;
  }
  void fail(const Error& error) noexcept override {
    const std::lock_guard lock(mutex_);
    if (!has_failed_) error_ = error;
    has_failed_ = true;
  }
  const Error& error() const override { return *error_; }
  Error error_of(const Call&) noexcept override { return *error_; }
  std::shared_ptr<void> keep() override { return shared_from_this(); }

 private:
  std::mutex mutex_;
  std::optional<Error> error_;
  std::atomic<bool> has_failed_{false};
};

struct World {
  explicit World(Progress progress) : owner(std::make_shared<FakeOwner>(progress)) {}
  ~World() {
    owner->driver.stop_threads();
    owner->driver.end_all([&](bool) { owner->fail(Error(ErrorCode::aborted, "the test is over")); });
  }
  Driver& driver() { return owner->driver; }
  FakeExecutor& executor() { return owner->executor; }
  std::shared_ptr<Operation> start(uint64_t count) {
    const Call call{.count = count};
    return driver().start({&call, 1}).front();
  }
  std::shared_ptr<FakeOwner> owner;
};

// "" or the text of the error that `body` throws.
template <typename Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool is_ready(std::future<std::string>& result, milliseconds within) {
  return result.wait_for(within) == std::future_status::ready;
}

TEST(Driver, HandsDrivingOverToTheThreadThatWaits) {
  World world(Progress::by_nobody);
  const auto first = world.start(1), second = world.start(2);
  const auto wait = [&](Operation& operation) { return error_of([&] { world.driver().wait(operation); }); };
  auto waits_for_second = std::async(std::launch::async, [&] { return wait(*second); });
  auto waits_for_first = std::async(std::launch::async, [&] { return wait(*first); });
  world.executor().permit(1);
  EXPECT_EQ(waits_for_first.get(), "");
  EXPECT_FALSE(is_ready(waits_for_second, milliseconds(20))) << "it has no permit yet";
  world.executor().permit(1);
  EXPECT_EQ(waits_for_second.get(), "");
  EXPECT_EQ(world.executor().over(), (std::vector<uint64_t>{1, 2}));
}

TEST(Driver, TellsAWaitingThreadAtOnceThatTheDriverHasDoneItsOperation) {
  World world(Progress::by_nobody);
  const auto first = world.start(1), second = world.start(2);
  std::promise<void> driving;
  world.executor().on_advance = [&, is_told = false]() mutable {
    if (!std::exchange(is_told, true)) driving.set_value();
  };
  auto driver = std::async(std::launch::async, [&] { return error_of([&] { world.driver().wait(*second); }); });
  driving.get_future().wait();
  auto waiter = std::async(std::launch::async, [&] { return error_of([&] { world.driver().wait(*first); }); });
  world.executor().permit(1);
  EXPECT_EQ(waiter.get(), "");
  EXPECT_FALSE(is_ready(driver, milliseconds(20)));
  world.executor().permit(1);
  EXPECT_EQ(driver.get(), "");
}

TEST(Driver, CarriesOutBlockingCallsOfTwoThreadsOneAfterTheOther) {
  World world(Progress::by_nobody);
  constexpr uint64_t kCalls = 500;
  world.executor().permit(2 * kCalls);
  const auto run_calls = [&] {
    return error_of([&] {
      for (uint64_t i = 0; i < kCalls; ++i) world.driver().run({.count = i});
    });
  };
  auto one = std::async(std::launch::async, run_calls), other = std::async(std::launch::async, run_calls);
  EXPECT_EQ(one.get() + other.get(), "");
  EXPECT_EQ(world.executor().over().size(), 2 * kCalls);
}

class DriverThreads : public ::testing::TestWithParam<Progress> {};
INSTANTIATE_TEST_SUITE_P(By, DriverThreads, ::testing::Values(Progress::soon, Progress::at_once),
                         [](const auto& test) { return test.param == Progress::soon ? "Soon" : "AtOnce"; });

TEST_P(DriverThreads, FinishARequestThatNobodyWaitsFor) {
  World world(GetParam());
  std::promise<std::thread::id> finished;
  const auto operation = world.start(1);
  operation->on_done([&] { finished.set_value(std::this_thread::get_id()); });
  world.executor().permit(1);
  std::future<std::thread::id> by = finished.get_future();
  ASSERT_EQ(by.wait_for(seconds(20)), std::future_status::ready);
  EXPECT_NE(by.get(), std::this_thread::get_id());
}

TEST_P(DriverThreads, LetACallbackStartCallsAndWaitForThem) {
  World world(GetParam());
  world.executor().permit(4);
  std::promise<std::string> called_back;
  world.start(1)->on_done([&] {
    called_back.set_value(error_of([&] {
      world.driver().run({.count = 2});
      world.driver().wait(*world.start(3));
      // A second callback, inside the first: another thread has to drive meanwhile.
      std::promise<void> inner;
      world.start(4)->on_done([&] { inner.set_value(); });
      inner.get_future().wait();
    }));
  });
  std::future<std::string> result = called_back.get_future();
  ASSERT_TRUE(is_ready(result, seconds(20)));
  EXPECT_EQ(result.get(), "");
}

TEST_P(DriverThreads, AttendToWhatTheExecutorHasHeard) {
  World world(GetParam());
  world.driver().poll_reviser();
  for (int i = 0; world.executor().attended == 0 && i < 2000; ++i) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(world.executor().attended, 1);
}

TEST(Driver, WaitsNoLongerThanItIsTold) {
  World world(Progress::by_nobody);
  const auto operation = world.start(1);
  EXPECT_FALSE(world.driver().wait_for(*operation, milliseconds(5)));
  world.executor().permit(1);
  EXPECT_TRUE(world.driver().wait_for(*operation, seconds(20)));
}

TEST(Driver, WaitsForAnyOfSeveral) {
  World world(Progress::by_nobody);
  const auto first = world.start(1), second = world.start(2);
  const std::vector<Operation*> both{second.get(), first.get()};
  world.executor().permit(1);
  EXPECT_EQ(world.driver().wait_for_any(both), 1u);
  EXPECT_TRUE(first->is_over());
  EXPECT_FALSE(second->is_over());
}

TEST(Driver, MovesMessagesBesideACallThatStandsStill) {
  World world(Progress::by_nobody);
  const auto call = world.start(1);
  const Call message{.kind = OperationKind::recv, .other = kAnyRank};
  const auto received = world.driver().start({&message, 1}).front();
  world.driver().wait(*received);
  EXPECT_EQ(received->peer, 7u);
  EXPECT_FALSE(call->is_over());
  world.driver().wait_for_calls(milliseconds(5));
  EXPECT_FALSE(call->is_over());
}

// A thread has a blocking call, and another one a message, without which no peer may come to the call.
TEST(Driver, MovesMessagesOfOtherThreadsBesideABlockingCall) {
  World world(Progress::by_nobody);
  auto call = std::async(std::launch::async, [&] { return error_of([&] { world.driver().run({.count = 1}); }); });
  while (!world.driver().is_busy()) std::this_thread::yield();
  const Call message{.kind = OperationKind::recv, .other = kAnyRank};
  auto received = std::async(std::launch::async, [&] { return error_of([&] { world.driver().run(message); }); });
  const bool came = is_ready(received, seconds(20));
  EXPECT_FALSE(is_ready(call, milliseconds(0)));
  world.executor().permit(1);
  EXPECT_TRUE(came);
  EXPECT_EQ(received.get() + call.get(), "");
}

TEST(Driver, EndsEverythingWithTheFirstError) {
  World world(Progress::by_nobody);
  const auto first = world.start(1), second = world.start(2);
  world.executor().on_advance = [] { throw Error(ErrorCode::peer_lost, "rank 1 is dead"); };
  EXPECT_EQ(error_of([&] { world.driver().wait(*second); }), "rank 1 is dead");
  EXPECT_EQ(error_of([&] { world.driver().wait(*first); }), "rank 1 is dead");
  EXPECT_FALSE(world.driver().is_busy());
}

// Each thread finds the communicator whole and waits for its turn, which comes after the first call has failed.
TEST(Driver, BeginsNothingOfTheThreadsThatWaitedWhileACallFailed) {
  for (const bool are_messages : {false, true}) {
    World world(Progress::by_nobody);
    constexpr int kThreads = 7;
    std::atomic<int> waiting{0};
    std::promise<void> driving;
    world.executor().on_advance = [&] {
      driving.set_value();  // others find the lock taken: else they would have driven their messages themselves
      for (int i = 0; waiting < kThreads && i < 20'000; ++i) std::this_thread::sleep_for(milliseconds(1));
      throw Error(ErrorCode::mismatch, "the counts differ");
    };
    std::future<std::string> first =
        std::async(std::launch::async, [&] { return error_of([&] { world.driver().run({.count = 1}); }); });
    driving.get_future().wait();
    std::vector<std::future<std::string>> others;
    for (int i = 0; i < kThreads; ++i) {
      others.push_back(std::async(std::launch::async, [&] {
        const Call call{.kind = are_messages ? OperationKind::send : OperationKind::barrier, .count = 2};
        return error_of([&] {
          const auto operation = world.driver().start({&call, 1}).front();
          ++waiting;
          world.driver().wait(*operation);
        });
      }));
    }
    EXPECT_EQ(first.get(), "the counts differ");
    for (std::future<std::string>& other : others) EXPECT_EQ(other.get(), "the counts differ");
    EXPECT_EQ(error_of([&] { world.driver().run({.count = 3}); }), "the counts differ");
    EXPECT_FALSE(world.driver().is_busy());
  }
}

// A call that is refused before it begins leaves nothing behind, and ends nothing but itself.
TEST(Driver, GoesOnAfterACallThatWasRefused) {
  World world(Progress::by_nobody);
  EXPECT_EQ(error_of([&] { world.driver().run({.count = FakeExecutor::kRefused}); }), "there is no plan for it");
  world.executor().permit(1);
  EXPECT_EQ(error_of([&] { world.driver().run({.count = 1}); }), "");
}

// Where it had begun, the executor still has it.
TEST(Driver, FailsWithACallThatDamagedInputHasEnded) {
  World world(Progress::by_nobody);
  world.executor().on_advance = [] { throw Error(ErrorCode::invalid_input, "rank 1 sends what is damaged"); };
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(error_of([&] { world.driver().run({.count = 1}); }), "rank 1 sends what is damaged");
  }
}

TEST(Driver, GivesTheLockBackWhenTheSearchForTheCauseThrowsToo) {
  World world(Progress::by_nobody);
  world.executor().on_advance = [] { throw Error(ErrorCode::timed_out, "nothing has moved"); };
  world.owner->on_cause = [] { throw Error(ErrorCode::io, "the folder of records cannot be made"); };
  EXPECT_EQ(error_of([&] { world.driver().run({}); }), "nothing has moved");
  EXPECT_FALSE(world.driver().is_busy());
  const auto operation = world.start(1);
  EXPECT_EQ(error_of([&] { world.driver().wait(*operation); }), "nothing has moved");
  EXPECT_FALSE(world.driver().is_busy());
}

TEST(Driver, SaysThatMemoryIsShortWhenItIs) {
  World world(Progress::at_once);
  world.executor().on_advance = [] { throw std::bad_alloc(); };
  EXPECT_EQ(error_of([&] { world.driver().wait(*world.start(1)); }), "there is not enough memory");
  EXPECT_EQ(error_of([&] { world.driver().run({}); }), "there is not enough memory");
}

TEST(Driver, EndsWhatAThreadWaitsForWhenItIsClosed) {
  World world(Progress::by_nobody);
  const auto operation = world.start(1);
  std::promise<void> driving;
  world.executor().on_advance = [&, is_told = false]() mutable {
    if (!std::exchange(is_told, true)) driving.set_value();
  };
  auto waiter = std::async(std::launch::async, [&] { return error_of([&] { world.driver().wait(*operation); }); });
  driving.get_future().wait();
  world.owner->fail(Error(ErrorCode::aborted, "closed"));
  bool had_calls = true;
  world.driver().end_all([&](bool has_calls) { had_calls = has_calls; });
  EXPECT_EQ(waiter.get(), "closed");
  EXPECT_FALSE(had_calls) << "the driver had ended them";
}

}  // namespace
}  // namespace banyan::run
