// The parts of a MovingExecutor, each by itself; moving_executor_test.cc has them together.

#include "banyan/service/client/move_parts.h"

#include "banyan/service/client/executors_in_force.h"
#include "banyan/service/client/move_agreement.h"
#include "banyan/service/client/session_mover.h"
#include "banyan/service/client/text_box.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

// Does what the test says, and notes what it is told.
class ToldExecutor : public run::Executor {
 public:
  explicit ToldExecutor(std::string name, std::vector<std::string>& notes) : name_(std::move(name)), notes_(notes) {}
  ~ToldExecutor() override { notes_.push_back(name_ + " ends"); }
  size_t depth() const override { return 8; }
  void start(const run::Call&, const run::CallNumbers&) override { notes_.push_back(name_ + " starts"); }
  bool advance() override { return is_over; }
  void finish(run::Watch&) override { notes_.push_back(name_ + " finishes"); }
  uint64_t start_message(const run::Call& call) override {
    notes_.push_back(name_ + " sends to " + std::to_string(call.other));
    return ++messages_;
  }
  bool advance_messages(std::vector<MessageDone>&) override { return false; }
  uint64_t steps() const override { return steps_done; }
  uint64_t progress() const override { return 2 * steps_done; }
  uint32_t waiting_for() const override { return 0; }
  bool can_do_without(uint32_t) const override { return can_do; }
  void sleep(const std::function<bool()>&) override {}
  void wake() override { notes_.push_back(name_ + " wakes"); }
  run::BackOff back_off() const override { return run::BackOff(true); }
  void break_with(const Error& error) override { failure = error; }
  std::optional<Error> broken() const override { return failure; }
  run::PlanReviser* reviser() override { return nullptr; }
  run::EventSource* events() override { return nullptr; }
  run::SentBytes sent_bytes() const override { return {.tcp = steps_done, .shared_memory = 1}; }

  bool is_over = true, can_do = true;
  uint64_t steps_done = 0;
  std::optional<Error> failure;

 private:
  const std::string name_;
  std::vector<std::string>& notes_;
  uint64_t messages_ = 0;
};

class MoveParts : public ::testing::Test {
 protected:
  std::shared_ptr<run::Executor> executor(const std::string& name) {
    auto made = std::make_shared<ToldExecutor>(name, notes_);
    last_ = made.get();
    return made;
  }
  static run::Call message_to(uint32_t rank) { return {.kind = run::OperationKind::send, .other = rank}; }

  std::vector<std::string> notes_;
  ToldExecutor* last_ = nullptr;  // that was made
};

TEST_F(MoveParts, HeldMessagesBeginInTheirOrderAndKeepTheirTickets) {
  HeldMessages held;
  EXPECT_TRUE(held.is_empty());
  const uint64_t first = held.hold(message_to(7)), second = held.hold(message_to(8));
  EXPECT_NE(first, second);
  EXPECT_FALSE(held.is_empty());
  ToldExecutor executor("it", notes_);
  executor.start_message(message_to(6));
  held.begin(executor);
  EXPECT_TRUE(held.is_empty());
  EXPECT_THAT(notes_, ElementsAre("it sends to 6", "it sends to 7", "it sends to 8"));
  // Those before `from` are others' already; the executor's own ticket 1 was no held one.
  std::vector<run::Executor::MessageDone> done = {{.ticket = 2}, {.ticket = 3}, {.ticket = 1}, {.ticket = 2}};
  held.rename(done, 1);
  EXPECT_EQ(done[0].ticket, 2u);
  EXPECT_EQ(done[1].ticket, second);
  EXPECT_EQ(done[2].ticket, 1u);
  EXPECT_EQ(done[3].ticket, first);
  done = {{.ticket = 2}};
  held.rename(done, 0);
  EXPECT_EQ(done[0].ticket, 2u) << "each is renamed once";
}

TEST_F(MoveParts, TheCallsOfBothSidesEndInTheirOrderAndNothingIsCountedTwice) {
  ExecutorsInForce executors;
  executors.begin_with(executor("old"));
  ToldExecutor* const old = last_;
  EXPECT_EQ(executors.drop_before(), nullptr);
  executors.begin({}, {});
  executors.begin({}, {});
  old->steps_done = 5;
  executors.go_over(executor("new"), 1);
  ToldExecutor* const young = last_;
  EXPECT_EQ(executors.generation(), 1u);
  executors.begin({}, {});
  EXPECT_THAT(notes_, ElementsAre("old starts", "old starts", "new starts"));
  EXPECT_EQ(executors.calls(), 3u);
  EXPECT_EQ(executors.calls_before(), 2u);
  EXPECT_EQ(executors.oldest().get(), old);
  old->is_over = false;
  EXPECT_FALSE(executors.advance()) << "the new one's call is over, but later";
  old->is_over = true;
  EXPECT_TRUE(executors.advance());
  EXPECT_TRUE(executors.advance());
  EXPECT_EQ(executors.oldest().get(), young);
  EXPECT_EQ(executors.generation_before(), 0u);
  young->steps_done = 2;
  EXPECT_EQ(executors.steps(), 7u);
  EXPECT_EQ(executors.sent_bytes().tcp, 7u);
  young->can_do = old->can_do = true;
  EXPECT_TRUE(executors.can_do_without(2));
  old->can_do = false;
  EXPECT_FALSE(executors.can_do_without(2));
  auto ended = executors.drop_before();
  EXPECT_FALSE(executors.has_before());
  ended.reset();
  EXPECT_EQ(notes_.back(), "old ends");
  EXPECT_EQ(executors.steps(), 7u) << "what the old one has done counts";
  EXPECT_EQ(executors.progress(), 14u);
  EXPECT_EQ(executors.sent_bytes().tcp, 7u);
  EXPECT_EQ(executors.sent_bytes().shared_memory, 2u);
  EXPECT_TRUE(executors.can_do_without(2));
  EXPECT_TRUE(executors.advance());
  EXPECT_EQ(executors.calls(), 0u);
  executors.drop_all();
}

TEST_F(MoveParts, AFailureEndsBothSides) {
  ExecutorsInForce executors;
  executors.begin_with(executor("old"));
  ToldExecutor* const old = last_;
  executors.go_over(executor("new"), 1);
  executors.wake();
  EXPECT_THAT(notes_, ElementsAre("new wakes", "old wakes"));
  EXPECT_FALSE(executors.broken());
  old->failure = Error(ErrorCode::peer_lost, "the old one");
  EXPECT_EQ(executors.broken()->message(), "the old one");
  executors.break_with(Error(ErrorCode::aborted, "all"));
  EXPECT_EQ(executors.broken()->message(), "all");
  EXPECT_EQ(old->failure->message(), "all");
}

TEST_F(MoveParts, FailuresAreToldOnceAndOnlyOfSessionsThatHaveCalls) {
  std::vector<std::string> told;
  FailureReports reports([&](const Error& error) { told.push_back(error.message()); });
  reports.record(0, Error(ErrorCode::peer_lost, "first"));
  reports.record(0, Error(ErrorCode::peer_lost, "first"));
  EXPECT_THAT(told, ElementsAre("first"));
  reports.record(1, Error(ErrorCode::peer_lost, "of a change that is refused"));
  reports.record(2, Error(ErrorCode::peer_lost, "next"));
  EXPECT_EQ(told.size(), 1u);
  reports.go_over(2);
  EXPECT_THAT(told, ElementsAre("first", "next"));
  reports.record(1, Error(ErrorCode::peer_lost, "before"));
  EXPECT_EQ(told.size(), 3u) << "calls may be in it";
  reports.record(3, Error(ErrorCode::peer_lost, "never in force"));
  reports.go_over(4);
  EXPECT_EQ(told.size(), 3u);
}

// Rank 0 of two, and what it says.
class Agreeing : public ::testing::Test {
 protected:
  std::vector<std::string> after(const std::string& text) {
    agreement_.receive(text);
    agreement_.begin_if_asked(in_force_, {});
    std::vector<std::string> texts = agreement_.take_texts();
    for (const std::string& each : texts) agreement_.receive(each);
    return texts;
  }
  MoveAgreement agreement_{0, 2};
  uint32_t in_force_ = 0;
};

TEST_F(Agreeing, BeginsWhenARankWishesAndSaysItAgainForOneThatWasNotThere) {
  EXPECT_THAT(after("move 9 0 1"), IsEmpty()) << "there is no such rank";
  EXPECT_THAT(after("move nonsense"), IsEmpty());
  EXPECT_THAT(after("look"), IsEmpty());
  const std::vector<std::string> prepare = after(MoveAgreement::wish(1, 0, 1));
  EXPECT_THAT(prepare, ElementsAre(StartsWith("switch prepare ")));
  EXPECT_THAT(after(MoveAgreement::wish(1, 0, 1)), IsEmpty()) << "it is under way";
  EXPECT_EQ(after(MoveAgreement::wish(1, 0, 2)), prepare);
}

TEST_F(Agreeing, TriesAgainForAllThatHaveStillToLeave) {
  after(MoveAgreement::wish(0, 0, 1));
  ASSERT_TRUE(agreement_.plan().change());
  EXPECT_EQ(agreement_.plan().change()->wishes[1], 0u);
  after("switch ready 1 1 it has no room");
  EXPECT_TRUE(agreement_.is_refused(1));
  agreement_.plan().ready("");
  for (const std::string& text : agreement_.take_texts()) agreement_.receive(text);
  for (const std::string& text : agreement_.take_texts()) agreement_.receive(text);
  EXPECT_FALSE(agreement_.plan().change());
  EXPECT_THAT(agreement_.plan().refusal(), HasSubstr("it has no room"));
  after(MoveAgreement::wish(1, 0, 1));
  ASSERT_TRUE(agreement_.plan().change());
  EXPECT_GT(agreement_.plan().change()->wishes[0], 0u) << "rank 0 wishes still";
  EXPECT_GT(agreement_.plan().change()->wishes[1], 0u);
}

TEST_F(Agreeing, HearsOfARefusalBeforeTheChange) {
  after("switch ready 4 1");
  EXPECT_FALSE(agreement_.is_refused(4)) << "it is ready";
  after("switch ready 4 1 it has no room");
  EXPECT_TRUE(agreement_.is_refused(4));
  EXPECT_FALSE(agreement_.is_refused(3));
  EXPECT_FALSE(agreement_.is_refused(5));
  after("switch ready 3 2 it is slow to say so");
  EXPECT_TRUE(agreement_.is_refused(4)) << "an older one's refusal has come late";
}

TEST_F(Agreeing, ForgetsWishesThatAreFulfilled) {
  in_force_ = 1;
  EXPECT_THAT(after(MoveAgreement::wish(1, 0, 1)), IsEmpty());
}

class NextSessions : public MoveParts {
 protected:
  SessionMover::Options options() {
    return {
        .rank = 0,
        .size = 1,
        .open = [this](const SessionMover::Opening& opening, const run::Deadline&) -> std::unique_ptr<run::Executor> {
          if (opening.generation % 2 == 0) throw Error(ErrorCode::invalid_usage, "a quota");
          return std::make_unique<ToldExecutor>("next", opened_);
        },
        .opened = [] {},
        .wish = [](uint32_t, uint32_t) { return false; },
        .opening_time = std::chrono::seconds(20),
        .first_pause = milliseconds(1),
        .longest_pause = milliseconds(1)};
  }
  std::string prepare(uint32_t generation) {
    for (;;) {
      if (const auto said = next_.prepare({.generation = generation, .fail_peers = {}, .succeeded = {}}, {}))
        return *said;
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  std::vector<std::string> opened_;  // of the mover's thread
  SessionMover mover_{options()};
  NextSession next_{mover_};
};

TEST_F(NextSessions, AreTakenOrEndedWhenNothingComesOfTheirChange) {
  EXPECT_EQ(next_.settle(0), std::nullopt);
  EXPECT_EQ(prepare(1), "");
  EXPECT_TRUE(next_.is_there());
  EXPECT_EQ(next_.settle(1), std::nullopt) << "it is under way";
  EXPECT_EQ(next_.settle(0), 1u);
  EXPECT_FALSE(next_.is_there());
  EXPECT_EQ(next_.settle(0), std::nullopt) << "once";
  EXPECT_EQ(prepare(2), "a quota");
  EXPECT_FALSE(next_.is_there());
  EXPECT_EQ(next_.settle(3), 2u);
  EXPECT_EQ(prepare(3), "");
  const auto taken = next_.take();
  EXPECT_EQ(taken->generation, 3u);
  EXPECT_FALSE(next_.is_there());
  next_.refuse(4);
  EXPECT_EQ(next_.settle(4), std::nullopt);
  EXPECT_EQ(next_.settle(0), 4u);
  mover_.stop();
  EXPECT_EQ(std::count(opened_.begin(), opened_.end(), "next ends"), 1) << "the one of generation 1";
}

TEST(NumberedCallsTest, GoAsFarAsTheyWentWhileTheAnswerWasOnItsWay) {
  NumberedCalls calls;
  const run::Call call{.kind = run::OperationKind::all_reduce, .count = 3};
  EXPECT_EQ(calls.next(), 1u);
  EXPECT_THAT(calls.shapes(), IsEmpty());
  calls.record(call);
  EXPECT_EQ(calls.shapes().size(), 1u);
  calls.record_ready();
  EXPECT_EQ(calls.limit(true), 1u);
  EXPECT_EQ(calls.limit(false), 2u);
  for (int i = 0; i < 3; ++i) calls.record(call);
  EXPECT_EQ(calls.limit(true), 7u);
  EXPECT_EQ(calls.shapes().size(), 1u) << "alike";
  EXPECT_EQ(calls.shapes().front().count, 3u);
}

TEST(TextBoxTest, KeepsTextsInTheirOrder) {
  TextBox box;
  EXPECT_FALSE(box.has_news());
  box.put("a");
  box.put("b");
  EXPECT_TRUE(box.has_news());
  EXPECT_THAT(box.take(), ElementsAre("a", "b"));
  EXPECT_FALSE(box.has_news());
  box.note();
  EXPECT_TRUE(box.has_news());
  EXPECT_THAT(box.take(), IsEmpty());
}

}  // namespace
}  // namespace banyan::service
