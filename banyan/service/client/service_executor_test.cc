#include "banyan/service/client/service_executor.h"

#include <future>
#include <mutex>

#include "banyan/run/system/child.h"
#include "banyan/service/client/test_fake_daemon.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::Call;
using run::OperationKind;
using DaemonSide = FakeDaemon::State;

// Waits for ever, or until it has been asked so often.
class TestWatch : public run::Watch {
 public:
  explicit TestWatch(int at_most = INT32_MAX) : left_(at_most) {}
  void waiting_for(uint32_t rank) override {
    waited_for.insert(rank);
    if (--left_ < 0) throw Error(ErrorCode::timed_out, "the test has waited enough");
  }
  void woke() override { ++wakes; }

  std::set<uint32_t> waited_for;
  int wakes = 0;

 private:
  int left_;
};

// Bytes that differ by their place and by `seed`.
std::vector<uint8_t> pattern(size_t bytes, size_t seed) {
  std::vector<uint8_t> made(bytes);
  for (size_t i = 0; i < bytes; ++i) made[i] = static_cast<uint8_t>(i * 13 + i / 256 + seed * 41 + 1);
  return made;
}
const std::byte* data_of(const std::vector<uint8_t>& bytes) { return reinterpret_cast<const std::byte*>(bytes.data()); }
std::byte* data_of(std::vector<uint8_t>& bytes) { return reinterpret_cast<std::byte*>(bytes.data()); }

Call copy_of(const std::vector<uint8_t>& from, std::vector<uint8_t>& to) {
  return {.kind = OperationKind::all_reduce, .send = data_of(from), .recv = data_of(to), .count = from.size()};
}
Call send_of(const std::vector<uint8_t>& from, uint32_t to, uint32_t tag = 0) {
  return {.kind = OperationKind::send, .other = to, .send = data_of(from), .count = from.size(), .tag = tag};
}
Call recv_of(std::vector<uint8_t>& into, uint32_t from, uint32_t tag = 0) {
  return {.kind = OperationKind::recv, .other = from, .recv = data_of(into), .count = into.size(), .tag = tag};
}

class Served : public ::testing::Test {
 protected:
  std::unique_ptr<ServiceExecutor> serve(uint32_t size = 1, ServiceExecutor::Options options = {}) {
    OpenSession wish;
    for (uint32_t rank = 0; rank < size; ++rank) wish.members.push_back(rank);
    options.size = size;
    options.fail_peers = [this](const Error& error) {
      const std::lock_guard lock(mutex_);
      told_.push_back(error.what());
    };
    return std::make_unique<ServiceExecutor>(attachment_, std::move(wish), std::move(options),
                                             run::Deadline::after(std::chrono::seconds(60)));
  }
  static void start(ServiceExecutor& executor, const Call& call) { executor.start(call, numbers_of(call)); }
  static void run(ServiceExecutor& executor, const Call& call) {
    TestWatch watch;
    start(executor, call);
    executor.finish(watch);
  }
  // Until `is_enough()`, or something fails.
  static void drive(ServiceExecutor& executor, std::vector<run::Executor::MessageDone>& done,
                    const std::function<bool()>& is_enough) {
    while (!is_enough()) {
      if (!executor.advance_messages(done)) executor.sleep([&] { return executor.advance_messages(done); });
    }
  }
  // The peers were told, in this order.
  std::vector<std::string> told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  void fail(const Error& error) {
    daemon_.look([&](DaemonSide& state) { state.client().say(SessionFailed{.session = 0, .error = error}); });
  }
  bool has_taken(size_t submissions) {
    return daemon_.wait_until([&](DaemonSide& state) { return state.session().submissions.size() == submissions; });
  }
  // Calls are taken, and only the test completes them.
  void complete_by_hand() {
    daemon_.look([](DaemonSide& state) { state.perform = [](auto&, auto&, auto&) {}; });
  }
  void complete(uint64_t sequence, uint32_t peer = 0) {
    daemon_.look([&](DaemonSide& state) { state.session().complete(sequence, peer); });
  }

  FakeDaemon daemon_;
  run::RegionPool pool_;
  const std::shared_ptr<Attachment> attachment_ =
      Attachment::to(daemon_.url(), pool_, run::Deadline::after(std::chrono::seconds(60)));

 private:
  std::mutex mutex_;  // protects told_
  std::vector<std::string> told_;
};

// ---- Calls ----

TEST_F(Served, CallsOfAllKindsAreCarriedOut) {
  const auto executor = serve();
  EXPECT_EQ(executor->means(), "a fake");
  for (uint8_t kind = 0; kind < static_cast<uint8_t>(OperationKind::send); ++kind) {
    const auto from = pattern(500, kind);
    std::vector<uint8_t> to(500);
    Call call = copy_of(from, to);
    call.kind = static_cast<OperationKind>(kind);
    const std::vector<size_t> counts{500};
    if (has_counts(call.kind)) {
      if (call.kind != OperationKind::reduce_scatter_v) call.recv_counts = counts;
      if (call.kind != OperationKind::all_gather_v) call.send_counts = counts;
    }
    run(*executor, call);
    EXPECT_EQ(to, call.kind == OperationKind::barrier ? std::vector<uint8_t>(500) : from) << to_string(call.kind);
  }
}

TEST_F(Served, CallsOnMemoryOfThePoolAreNotCopied) {
  const auto executor = serve();
  std::byte* const memory = pool_.allocate(3 << 20);
  const auto from = pattern(1 << 20, 3);
  std::copy(from.begin(), from.end(), reinterpret_cast<uint8_t*>(memory));
  const size_t offers = daemon_.look([](DaemonSide& state) { return state.count<OfferRegion>(); });
  run(*executor, {.kind = OperationKind::broadcast, .send = memory, .recv = memory + (2 << 20), .count = 1 << 20});
  const auto* const come = reinterpret_cast<const uint8_t*>(memory + (2 << 20));
  EXPECT_EQ(std::vector<uint8_t>(come, come + from.size()), from);
  EXPECT_EQ(daemon_.look([](DaemonSide& state) { return state.count<OfferRegion>(); }), offers + 1);
}

TEST_F(Served, CallsAreCompletedInTheirOrder) {
  const auto executor = serve();
  daemon_.look([](DaemonSide& state) { state.takes_calls = false; });
  std::vector<std::vector<uint8_t>> from, to(executor->depth(), std::vector<uint8_t>(1000));
  for (size_t i = 0; i < to.size(); ++i) from.push_back(pattern(1000, i));
  for (size_t i = 0; i < to.size(); ++i) start(*executor, copy_of(from[i], to[i]));
  EXPECT_FALSE(executor->advance());
  const uint64_t steps = executor->steps();
  daemon_.look([](DaemonSide& state) { state.takes_calls = true; });
  for (size_t i = 0; i < to.size(); ++i) {
    while (!executor->advance()) executor->sleep([] { return false; });
    EXPECT_EQ(to[i], from[i]);
  }
  EXPECT_GT(executor->steps(), steps);
  EXPECT_TRUE(executor->can_do_without(0));
}

TEST_F(Served, ADaemonThatSleepsIsWokenAndSoIsAClient) {
  const auto executor = serve();
  for (size_t i = 0; i < 20; ++i) {
    const size_t sleeps = daemon_.look([](DaemonSide& state) { return state.sleeps; });
    ASSERT_TRUE(daemon_.wait_until([&](DaemonSide& state) { return state.sleeps > sleeps; }));
    const auto from = pattern(10, i);
    std::vector<uint8_t> to(10);
    start(*executor, copy_of(from, to));
    while (!executor->advance()) executor->sleep([] { return false; });
    EXPECT_EQ(to, from);
  }
}

// ---- Messages ----

TEST_F(Served, MessagesAreAnyNumberAtOnce) {
  constexpr uint32_t kMessages = 1000;
  const auto executor = serve();
  daemon_.look([](DaemonSide& state) { state.takes_calls = false; });
  std::vector<std::vector<uint8_t>> from, to;
  for (uint32_t i = 0; i < kMessages; ++i) {
    from.push_back(pattern(i % 300, i));
    to.emplace_back(i % 300);
  }
  std::set<uint64_t> open;
  for (uint32_t i = 0; i < kMessages; ++i) open.insert(executor->start_message(recv_of(to[i], 0, i)));
  for (uint32_t i = kMessages; i > 0; --i) open.insert(executor->start_message(send_of(from[i - 1], 0, i - 1)));
  EXPECT_EQ(open.size(), 2 * kMessages);
  daemon_.look([](DaemonSide& state) { state.takes_calls = true; });
  std::vector<run::Executor::MessageDone> done;
  drive(*executor, done, [&] { return done.size() == 2 * kMessages; });
  for (const auto& each : done) {
    EXPECT_EQ(each.peer, 0u);
    EXPECT_EQ(open.erase(each.ticket), 1u);
  }
  EXPECT_EQ(to, from);
  EXPECT_FALSE(executor->advance_messages(done));
  daemon_.look([](DaemonSide& state) {
    ASSERT_EQ(state.session().submissions.size(), 2 * kMessages);
    for (size_t i = 0; i < 2 * kMessages; ++i) ASSERT_EQ(state.session().submissions[i].sequence, i + 1);
  });
}

TEST_F(Served, MessagesThatWaitForRoomLetCallsPass) {
  const auto executor = serve();
  daemon_.look([](DaemonSide& state) { state.takes_calls = false; });
  std::vector<std::vector<uint8_t>> to(100, std::vector<uint8_t>(10));
  for (uint32_t i = 0; i < 100; ++i) executor->start_message(recv_of(to[i], 0, i));
  start(*executor, {.kind = OperationKind::barrier});
  daemon_.look([](DaemonSide& state) { state.takes_calls = true; });
  TestWatch watch;
  executor->finish(watch);
  daemon_.look([](DaemonSide& state) {
    const std::vector<Submission>& all = state.session().submissions;
    ASSERT_GT(all.size(), SessionPage::kSubmissions);
    EXPECT_EQ(all[SessionPage::kSubmissions].kind, static_cast<uint8_t>(OperationKind::barrier));
  });
}

TEST_F(Served, MessagesAreCompletedInAnyOrderAndTellTheirPeer) {
  const auto executor = serve(3);
  complete_by_hand();
  std::vector<uint8_t> bytes(10);
  const uint64_t sent = executor->start_message(send_of(bytes, 2));
  const uint64_t received = executor->start_message(recv_of(bytes, run::kAnyRank));
  ASSERT_TRUE(has_taken(2));
  complete(2, 1);
  complete(1, 2);
  std::vector<run::Executor::MessageDone> done;
  drive(*executor, done, [&] { return done.size() == 2; });
  EXPECT_EQ(std::pair(done[0].ticket, done[0].peer), std::pair(received, 1u));
  EXPECT_EQ(std::pair(done[1].ticket, done[1].peer), std::pair(sent, 2u));
}

TEST_F(Served, MessagesFromAnyRankCanDoWithoutEachOne) {
  const auto executor = serve(3);
  complete_by_hand();
  std::vector<uint8_t> bytes(10);
  const auto needed = [&] {
    std::vector<uint32_t> ranks;
    for (const uint32_t rank : {1u, 2u}) {
      if (!executor->can_do_without(rank)) ranks.push_back(rank);
    }
    return ranks;
  };
  executor->start_message(recv_of(bytes, run::kAnyRank));
  EXPECT_THAT(needed(), ElementsAre());
  executor->start_message(recv_of(bytes, 1));
  EXPECT_THAT(needed(), ElementsAre(1u));
  executor->start_message(send_of(bytes, 2));
  EXPECT_THAT(needed(), ElementsAre(1u, 2u));
  ASSERT_TRUE(has_taken(3));
  complete(2, 1);
  complete(3, 2);
  std::vector<run::Executor::MessageDone> done;
  drive(*executor, done, [&] { return done.size() == 2; });
  EXPECT_THAT(needed(), ElementsAre());
  start(*executor, {.kind = OperationKind::barrier});
  EXPECT_THAT(needed(), ElementsAre(1u, 2u));
}

// ---- Failures ----

TEST_F(Served, FailuresOfTheDaemonEndEveryCall) {
  const auto executor = serve();
  daemon_.look([](DaemonSide& state) { state.takes_calls = false; });
  start(*executor, {.kind = OperationKind::barrier});
  TestWatch watch;
  auto failed = std::async(std::launch::async,
                           [&] { return testing::error_of([&] { executor->finish(watch); }, ErrorCode::mismatch); });
  fail(Error(ErrorCode::mismatch, "rank 1 called something else"));
  const std::string words = "rank 1 called something else";
  EXPECT_EQ(failed.get(), words);
  EXPECT_FALSE(executor->broken());  // a peer may know better
  std::vector<uint8_t> bytes(10);
  EXPECT_EQ(testing::error_of([&] { start(*executor, {.kind = OperationKind::barrier}); }, ErrorCode::mismatch), words);
  EXPECT_EQ(testing::error_of([&] { executor->start_message(recv_of(bytes, 0)); }, ErrorCode::mismatch), words);
  EXPECT_EQ(testing::error_of([&] { executor->advance(); }, ErrorCode::mismatch), words);
  attachment_->allocate(1);  // until what was said before is heard
  EXPECT_THAT(told(), ElementsAre());
}

TEST_F(Served, FailuresOfTheDaemonAreToldAgainByWhoKnowsTheirCause) {
  const auto executor = serve();
  fail(Error(ErrorCode::peer_lost, "a connection was lost"));
  attachment_->allocate(1);
  executor->break_with(Error(ErrorCode::peer_lost, "rank 1 is dead"));
  EXPECT_THAT(told(), ElementsAre("rank 1 is dead"));
  EXPECT_STREQ(executor->broken()->what(), "a connection was lost");
  ASSERT_TRUE(daemon_.wait_until([](DaemonSide& state) { return state.client().sessions.empty(); }));
}

TEST_F(Served, FailuresLeaveWhatWasCompletedBefore) {
  const auto executor = serve();
  const auto from = pattern(1000, 1);
  std::vector<uint8_t> to(1000);
  start(*executor, copy_of(from, to));
  ASSERT_TRUE(has_taken(1));
  fail(Error(ErrorCode::peer_lost, "rank 1 is dead"));
  attachment_->allocate(1);
  EXPECT_TRUE(executor->advance());
  EXPECT_EQ(to, from);
}

TEST_F(Served, TheEndOfTheDaemonEndsACallUnderWay) {
  const auto executor = serve(1, {.own_name = "rank 7"});
  daemon_.look([](DaemonSide& state) { state.takes_calls = false; });
  auto failed = std::async(std::launch::async, [&] {
    return testing::error_of([&] { run(*executor, {.kind = OperationKind::barrier}); }, ErrorCode::peer_lost);
  });
  daemon_.die();
  EXPECT_EQ(failed.get(), "the service has gone (" + daemon_.url() + ")");
  while (told().empty()) std::this_thread::yield();
  EXPECT_THAT(told(), ElementsAre("the service of rank 7 has gone (" + daemon_.url() + ")"));
}

TEST_F(Served, ErrorsOfThisRankEndItsSleepAndTellThePeers) {
  const auto executor = serve();
  daemon_.look([](DaemonSide& state) { state.takes_calls = false; });
  std::promise<void> waits;
  auto failed = std::async(std::launch::async, [&] {
    start(*executor, {.kind = OperationKind::barrier});
    waits.set_value();
    TestWatch watch;
    return testing::error_of([&] { executor->finish(watch); }, ErrorCode::aborted);
  });
  waits.get_future().wait();
  executor->break_with(Error(ErrorCode::aborted, "rank 0 aborted"));
  executor->break_with(Error(ErrorCode::aborted, "again"));
  EXPECT_EQ(failed.get(), "rank 0 aborted");
  EXPECT_THAT(told(), ElementsAre("rank 0 aborted"));
  // So that the daemon leaves the buffers alone.
  ASSERT_TRUE(daemon_.wait_until([](DaemonSide& state) { return state.client().sessions.empty(); }));
}

// A daemon that has taken a message and two calls, and then does `harm`.
struct Nonsense {
  const char* name;
  void (*harm)(FakeDaemon::Session& session);
  const char* words;
};
class ServedNonsense : public Served, public ::testing::WithParamInterface<Nonsense> {};

TEST_P(ServedNonsense, IsNotBelieved) {
  const auto executor = serve(2);
  complete_by_hand();
  std::vector<uint8_t> bytes(10);
  executor->start_message(recv_of(bytes, 1));
  start(*executor, {.kind = OperationKind::barrier});
  start(*executor, {.kind = OperationKind::barrier});
  ASSERT_TRUE(has_taken(3));
  daemon_.look([](DaemonSide& state) { GetParam().harm(state.session()); });
  TestWatch watch;
  const auto says = HasSubstr(GetParam().words);
  EXPECT_THAT(testing::error_of([&] { executor->finish(watch); }, ErrorCode::peer_lost), says);
  ASSERT_TRUE(executor->broken());
  EXPECT_THAT(executor->broken()->what(), says);
  EXPECT_THAT(told(), ElementsAre(says));
  ASSERT_TRUE(daemon_.wait_until([](DaemonSide& state) { return state.client().sessions.empty(); }));
}

INSTANTIATE_TEST_SUITE_P(
    Of, ServedNonsense,
    ::testing::Values(Nonsense{"ACallThatIsCompletedBeforeItsTurn",
                               [](FakeDaemon::Session& session) { session.complete(3); },
                               "the service completes submission 3, which is not under way or not the next"},
                      Nonsense{"ACallThatIsCompletedTwice",
                               [](FakeDaemon::Session& session) {
                                 session.complete(2);
                                 session.complete(2);
                               },
                               "the service completes submission 2, which is not under way or not the next"},
                      Nonsense{"AMessageOfAnotherRank", [](FakeDaemon::Session& session) { session.complete(1, 0); },
                               "the service completes a message with rank 0, which it was not for"},
                      Nonsense{"ASubmissionThatNobodyMade", [](FakeDaemon::Session& session) { session.complete(4); },
                               "the service completes submission 4"},
                      Nonsense{"APositionThatCannotBe",
                               [](FakeDaemon::Session& session) { session.page->completed.store(1000); },
                               "the service says that its last completion is 1000"}),
    [](const auto& each) { return each.param.name; });

TEST_F(Served, APeerThatDoesNotExistIsNotBelieved) {
  const auto executor = serve(2);
  complete_by_hand();
  std::vector<uint8_t> bytes(10);
  executor->start_message(recv_of(bytes, run::kAnyRank));
  ASSERT_TRUE(has_taken(1));
  complete(1, 2);
  std::vector<run::Executor::MessageDone> done;
  EXPECT_THAT(testing::error_of([&] { drive(*executor, done, [] { return false; }); }, ErrorCode::peer_lost),
              HasSubstr("with rank 2"));
  EXPECT_TRUE(done.empty());
}

// ---- What a watcher sees ----

TEST_F(Served, WaitingAsksTheWatchAndNamesTheRankThatTheDaemonWaitsFor) {
  const auto executor = serve(3, {.rank = 2});
  daemon_.look([](DaemonSide& state) {
    state.takes_calls = false;
    state.session().page->status.waiting_for.store(1);
  });
  start(*executor, {.kind = OperationKind::barrier});
  TestWatch watch(5);
  EXPECT_EQ(testing::error_of([&] { executor->finish(watch); }, ErrorCode::timed_out), "the test has waited enough");
  EXPECT_THAT(watch.waited_for, ElementsAre(1u));
  daemon_.look([](DaemonSide& state) { state.session().page->status.waiting_for.store(77); });
  EXPECT_EQ(executor->waiting_for(), 2u);
}

TEST_F(Served, WaitsThatTheWatchKnowsOfAreToldToEnd) {
  const auto executor = serve();
  daemon_.look([](DaemonSide& state) { state.takes_calls = false; });
  start(*executor, {.kind = OperationKind::barrier});
  class ReleasingWatch : public TestWatch {
   public:
    explicit ReleasingWatch(FakeDaemon& daemon) : daemon_(daemon) {}
    void waiting_for(uint32_t rank) override {
      TestWatch::waiting_for(rank);
      daemon_.look([](DaemonSide& state) { state.takes_calls = true; });
    }

   private:
    FakeDaemon& daemon_;
  } watch(daemon_);
  executor->finish(watch);
  EXPECT_GE(watch.wakes, 1);
  EXPECT_THAT(watch.waited_for, ElementsAre(0u));
}

TEST_F(Served, ProgressIsThatOfTheDaemon) {
  const auto executor = serve();
  const uint64_t steps = executor->steps(), progress = executor->progress();
  EXPECT_FALSE(executor->notices_last_bytes());
  daemon_.look([](DaemonSide& state) {
    SessionStatus& status = state.session().page->status;
    status.steps.store(10);
    status.progress.store(4);
    status.flags.store(SessionStatus::kNoticesLastBytes);
    status.sent_tcp.store(111);
    status.sent_shared_memory.store(22);
  });
  EXPECT_EQ(executor->steps(), steps + 10);
  EXPECT_EQ(executor->progress(), progress + 4);
  EXPECT_TRUE(executor->notices_last_bytes());
  EXPECT_EQ(executor->sent_bytes().tcp, 111u);
  EXPECT_EQ(executor->sent_bytes().shared_memory, 22u);
  run(*executor, {.kind = OperationKind::barrier});
  EXPECT_GT(executor->progress(), progress + 4);
}

TEST_F(Served, RanksThatAreGoneAreToldOnce) {
  std::atomic<uint32_t> changes{0};
  std::array<std::atomic<bool>, 4> gone{};
  const auto executor =
      serve(4, {.rank = 0, .is_gone = [&](uint32_t rank) { return gone[rank].load(); }, .gone_changes = &changes});
  daemon_.look([](DaemonSide& state) { state.takes_calls = false; });
  start(*executor, {.kind = OperationKind::barrier});
  const auto told_gone = [&] {
    executor->advance();
    attachment_->allocate(1);
    std::vector<uint32_t> ranks;
    for (const RankGone& each : daemon_.look([](DaemonSide& state) { return state.all_heard<RankGone>(); })) {
      ranks.push_back(each.rank);
    }
    return ranks;
  };
  EXPECT_THAT(told_gone(), ElementsAre());
  gone[2] = true;
  ++changes;
  EXPECT_THAT(told_gone(), ElementsAre(2u));
  gone[0] = gone[1] = gone[3] = true;  // itself is not told
  ++changes;
  EXPECT_THAT(told_gone(), ElementsAre(2u, 1u, 3u));
}

// ---- Sleeping ----

TEST_F(Served, SleepersAreWokenByAnotherThread) {
  const auto executor = serve();
  std::atomic<bool> is_over{false};
  std::promise<void> sleeps;
  auto sleeper = std::async(std::launch::async, [&] {
    int naps = 0;
    for (; !is_over; ++naps) {
      executor->sleep([&, is_first = naps == 0] {
        if (is_first) sleeps.set_value();
        return false;
      });
    }
    return naps;
  });
  sleeps.get_future().wait();
  is_over = true;
  executor->wake();
  EXPECT_GE(sleeper.get(), 1);
}

TEST_F(Served, SleepersThatWereWokenBeforeDoNotSleep) {
  const auto executor = serve();
  executor->wake();
  bool has_tried = false;
  executor->sleep([&] { return has_tried = true; });
  EXPECT_FALSE(has_tried);
  executor->sleep([&] { return has_tried = true; });
  EXPECT_TRUE(has_tried);
}

TEST_F(Served, SleepersWakeUpByThemselvesToLookAtTheTime) {
  bool has_tried = false;
  serve()->sleep([&] { return !(has_tried = true); });
  EXPECT_TRUE(has_tried);
}

TEST_F(Served, SleepersPassOnWhatTheyAreThrown) {
  const auto executor = serve();
  EXPECT_EQ(testing::error_of(
                [&] { executor->sleep([]() -> bool { throw Error(ErrorCode::invalid_input, "by the driver"); }); },
                ErrorCode::invalid_input),
            "by the driver");
  EXPECT_FALSE(executor->broken());
}

// ---- The end ----

TEST_F(Served, SessionsAreClosedBeforeTheirMemoryIsWithdrawn) {
  auto executor = serve();
  daemon_.look([](DaemonSide& state) { state.takes_calls = false; });
  std::vector<uint8_t> bytes(100'000);
  start(*executor, copy_of(bytes, bytes));
  executor.reset();
  ASSERT_TRUE(daemon_.wait_until([](const DaemonSide& state) { return state.count<WithdrawRegion>() >= 2; }));
  daemon_.look([](DaemonSide& state) {
    for (const ClientMessage& message : state.heard) {
      if (std::holds_alternative<CloseSession>(message)) return;
      ASSERT_FALSE(std::holds_alternative<WithdrawRegion>(message));
    }
    ADD_FAILURE() << "the session was not closed";
  });
}

TEST_F(Served, EndsWhenOtherRanksWantNothingOfItsCallsAnyMore) {
  auto executor = serve();
  const auto show = [&](DaemonSide& state) { state.session().page->status.flags.store(SessionStatus::kIsUnsettled); };
  daemon_.look(show);
  std::future<void> end = std::async(std::launch::async, [&] { executor.reset(); });
  EXPECT_EQ(end.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  daemon_.look([](DaemonSide& state) { state.session().page->status.flags.store(0); });
  end.get();
}

TEST_F(Served, ForkedProcessesHaveNoCalls) {
  auto executor = serve();
  run::Child child([&] {
    std::vector<uint8_t> bytes(10);
    const bool are_refused = is_unsupported([&] { start(*executor, {.kind = OperationKind::barrier}); }) &&
                             is_unsupported([&] { executor->start_message(recv_of(bytes, 0)); }) &&
                             is_unsupported([&] { executor->advance(); });
    executor.reset();
    return are_refused ? 0 : 1;
  });
  EXPECT_EQ(child.reap(), 0);
  const auto from = pattern(100, 1);
  std::vector<uint8_t> to(100);
  run(*executor, copy_of(from, to));
  EXPECT_EQ(to, from);
}

}  // namespace
}  // namespace banyan::service
