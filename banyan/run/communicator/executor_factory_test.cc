// Communicators carry out calls by whatever executor their factory makes.
#include "banyan/run/execute/executor_factory.h"

#include <deque>

#include "banyan/run/communicator/communicator.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// What a fake executor was asked for, and how it is to behave.
struct Script {
  ExecutorSite site;
  size_t looks_per_call = 3;  // until advance() ends a call
  size_t depth = 2;
  std::string failure;  // not empty: advance() throws it
  PlanReviser* reviser = nullptr;

  std::vector<OperationKind> started;
  size_t most_in_flight = 0, sleeps = 0;
  std::vector<std::string> broken_with;
};

// Copies the input of a call into its output, after some looks in vain.
class FakeExecutor : public Executor {
 public:
  explicit FakeExecutor(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  size_t depth() const override { return script_->depth; }
  void start(const Call& call, const CallNumbers&) override {
    script_->started.push_back(call.kind);
    calls_.push_back(call);
    script_->most_in_flight = std::max(script_->most_in_flight, calls_.size());
  }
  bool advance() override {
    if (!script_->failure.empty()) throw Error(ErrorCode::io, script_->failure);
    if (++looks_ < script_->looks_per_call) return false;
    looks_ = 0;
    const Call& call = calls_.front();
    std::copy_n(call.send, call.count * size_of(call.type), call.recv);
    calls_.pop_front();
    ++steps_;
    return true;
  }
  void finish(Watch& watch) override {
    while (!advance()) watch.waiting_for(waiting_for());
  }
  uint64_t start_message(const Call& call) override {
    script_->started.push_back(call.kind);
    messages_.push_back(++tickets_);
    return tickets_;
  }
  bool advance_messages(std::vector<MessageDone>& done) override {
    const bool moved = !messages_.empty();
    for (const uint64_t ticket : messages_) done.push_back({.ticket = ticket, .peer = 0});
    messages_.clear();
    return moved;
  }
  uint64_t steps() const override { return steps_; }
  uint32_t waiting_for() const override { return 0; }
  bool can_do_without(uint32_t) const override { return false; }
  void sleep(const std::function<bool()>& try_again) override {
    ++script_->sleeps;
    try_again();
  }
  void wake() override {}
  BackOff back_off() const override { return BackOff(true); }
  void break_with(const Error& error) override { script_->broken_with.emplace_back(error.what()); }
  std::optional<Error> broken() const override { return std::nullopt; }
  PlanReviser* reviser() override { return script_->reviser; }
  EventSource* events() override { return nullptr; }

 private:
  const std::shared_ptr<Script> script_;  // shared with the test
  std::deque<Call> calls_;
  std::vector<uint64_t> messages_;
  uint64_t tickets_ = 0, steps_ = 0;
  size_t looks_ = 0;
};

class FakeFactory : public ExecutorFactory {
 public:
  explicit FakeFactory(std::shared_ptr<Script> script) : script_(std::move(script)) {}
  Made make(ExecutorSite site) override {
    script_->site = std::move(site);
    return {.executor = std::make_unique<FakeExecutor>(script_), .means = "a fake"};
  }

 private:
  const std::shared_ptr<Script> script_;  // shared with the test
};

class ExecutorFactories : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  ExecutorFactories() { setenv("BANYAN_RECORDER_DIR", folder_.c_str(), 1); }

  decltype(Communicator::Options::executors) fakes() {
    return [script = script_](const auto&, const auto&) { return std::make_unique<FakeFactory>(script); };
  }

  // One rank, alone.
  Communicator join(Communicator::Options options) {
    return Communicator::join(pool_, {.url = "file://" + folder_ + "/meeting", .rank = 0, .size = 1, .name = {}},
                              std::move(options));
  }
  Communicator join_with_fake() {
    return join({.name = "fake", .progress = Communicator::Progress::by_nobody, .executors = fakes()});
  }

  const std::shared_ptr<Script> script_ = std::make_shared<Script>();  // shared with the fakes

 private:
  RegionPool pool_;
};

Call copy_of(const std::vector<uint8_t>& from, std::vector<uint8_t>& to) {
  return {.kind = OperationKind::all_reduce,
          .send = reinterpret_cast<const std::byte*>(from.data()),
          .recv = reinterpret_cast<std::byte*>(to.data()),
          .count = from.size()};
}

TEST_F(ExecutorFactories, MakeWhatCarriesOutBlockingCalls) {
  Communicator comm = join_with_fake();
  EXPECT_EQ(script_->site.name, "fake");
  EXPECT_THAT(script_->site.members, ElementsAre(0u));
  EXPECT_FALSE(comm.is_on_one_host());
  const std::vector<uint8_t> from{1, 2, 3};
  std::vector<uint8_t> to(3);
  comm.run(copy_of(from, to));
  EXPECT_EQ(to, from);
  EXPECT_THAT(script_->started, ElementsAre(OperationKind::all_reduce));
  EXPECT_EQ(comm.reroutes(), 0u);
}

TEST_F(ExecutorFactories, HaveAtMostTheDepthOfTheirExecutorsInFlight) {
  script_->depth = 3;
  Communicator comm = join_with_fake();
  std::vector<std::vector<uint8_t>> from, to(6, std::vector<uint8_t>(2));
  for (uint8_t i = 0; i < 6; ++i) from.push_back({i, static_cast<uint8_t>(7 * i)});
  std::vector<Request> requests;
  for (size_t i = 0; i < 6; ++i) requests.push_back(comm.start(copy_of(from[i], to[i])));
  for (Request& request : requests) request.wait();
  EXPECT_EQ(to, from);
  EXPECT_EQ(script_->most_in_flight, 3u);
}

TEST_F(ExecutorFactories, CarryMessagesAndSleepWhileNothingMoves) {
  script_->looks_per_call = 1000;
  Communicator comm = join_with_fake();
  const std::vector<uint8_t> from{9};
  std::vector<uint8_t> to(1);
  Call message = copy_of(from, to);
  message.kind = OperationKind::send;
  comm.start(message).wait();
  comm.start(copy_of(from, to)).wait();
  EXPECT_EQ(to, from);
  EXPECT_GT(script_->sleeps, 0u);
  EXPECT_THAT(script_->started, ElementsAre(OperationKind::send, OperationKind::all_reduce));
}

TEST_F(ExecutorFactories, HaveTheErrorOfTheirExecutorsToldToPeersOnce) {
  script_->failure = "the fake is broken";
  Communicator comm = join_with_fake();
  const std::vector<uint8_t> from{9};
  std::vector<uint8_t> to(1);
  EXPECT_THROW(comm.run(copy_of(from, to)), Error);
  EXPECT_THAT(script_->broken_with, ElementsAre(HasSubstr("the fake is broken")));
  ASSERT_TRUE(comm.error());
  EXPECT_THAT(comm.error()->what(), HasSubstr("the fake is broken"));
  EXPECT_THROW(comm.run(copy_of(from, to)), Error);
  EXPECT_THAT(script_->started, ElementsAre(OperationKind::all_reduce));
}

TEST_F(ExecutorFactories, AreSharedWithCommunicatorsThatAreSplitOff) {
  Communicator comm = join_with_fake();
  const uint64_t id = script_->site.id;
  Communicator::Options options{.name = "part", .executors = fakes()};
  const std::optional<Communicator> part = comm.split(0, 0, options);
  ASSERT_TRUE(part);
  EXPECT_EQ(script_->site.name, "part");
  EXPECT_NE(script_->site.id, id);
}

TEST_F(ExecutorFactories, ChooseSharedMemoryOnOneHostUnlessTheyAreAskedForATransport) {
  EXPECT_TRUE(join({}).is_on_one_host());
  EXPECT_FALSE(join({.transports = Communicator::Transports::tcp, .plans = [](const RankLayout&) { return nullptr; }})
                   .is_on_one_host());
  EXPECT_THROW(join({.transports = Communicator::Transports::tcp}), Error);  // nobody plans
}

}  // namespace
}  // namespace banyan::run
