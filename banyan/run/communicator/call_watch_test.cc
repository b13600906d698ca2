// The CallWatch by a clock that the test turns, and with peers of which the test says how they do.
#include "banyan/run/communicator/call_watch.h"

#include "banyan/run/record/log.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

class FakeTime : public TimeSource {
 public:
  TimePoint now() const override { return now_; }
  void pass(milliseconds time) { now_ += time; }

 private:
  TimePoint now_ = TimePoint() + seconds(1000);
};

class FakePeers : public Peers {
 public:
  explicit FakePeers(uint32_t ranks) : healths_(ranks, Health::alive), news_(ranks) {}

  uint32_t size() const override { return static_cast<uint32_t>(healths_.size()); }
  Health health(uint32_t rank) const override { return healths_[rank]; }
  uint32_t changes() const override { return changes_; }
  std::string why(uint32_t rank) const override { return "process " + std::to_string(4700 + rank) + " has ended"; }
  std::optional<uint32_t> first_dead() const override { return first_dead_; }
  std::string name_of(uint32_t rank) const override { return "rank " + std::to_string(rank); }
  std::string legend() const override { return ""; }
  std::vector<PeerReport> ask(milliseconds at_most) override {
    longest_question = std::max(longest_question, at_most);
    ++questions;
    std::vector<PeerReport> reports;
    for (uint32_t rank = 0; rank < size(); ++rank) {
      reports.push_back({.health = healths_[rank], .text = news_[rank].encode()});
    }
    return reports;
  }
  std::shared_ptr<void> watch_for_silence() override { return std::make_shared<int>(); }

  void set(uint32_t rank, Health health) {
    healths_[rank] = health;
    if (health == Health::dead && !first_dead_) first_dead_ = rank;
    ++changes_;
  }
  // Its newest call: the `sequence`-th, an allreduce of 4 float32; it waits for `waits_for`, or has finished it.
  void tells(uint32_t rank, uint64_t sequence, std::optional<uint32_t> waits_for, uint64_t count = 4) {
    news_[rank].calls = {{.sequence = sequence,
                          .count = count,
                          .waits_for = waits_for.value_or(kNoRank),
                          .kind = OperationKind::all_reduce,
                          .type = element::DataType::float32,
                          .state = waits_for ? OperationState::running : OperationState::done}};
  }

  void tells_of_messages(uint32_t rank, const MessageRecords& messages) { news_[rank].messages = messages; }
  void has_sent(uint32_t rank, uint32_t peer, uint64_t messages) {
    news_[rank].messages.pairs = {{.rank = peer, .sent = messages}};
  }
  void is_between_calls(uint32_t rank) { news_[rank].calls.clear(); }

  int questions = 0;
  milliseconds longest_question{0};

 private:
  std::vector<Health> healths_;
  std::vector<RankNews> news_;
  uint32_t changes_ = 0;
  std::optional<uint32_t> first_dead_;
};

// Rank 0 of five, in its first call, which waits for rank 1.
class CallWatchOf : public ::testing::Test {
 protected:
  CallWatchOf() { log_.begin({.kind = OperationKind::all_reduce, .type = element::DataType::float32, .count = 4}); }
  // Time in which nothing moves passes, in steps; until the watch throws, of which this is the text.
  std::string stand_still(milliseconds time) {
    for (milliseconds passed{0}; passed <= time; passed += milliseconds(50)) {
      try {
        watch_.look(look_);
      } catch (const Error& error) {
        code_ = error.code();
        return error.message();
      }
      time_.pass(milliseconds(50));
    }
    return "";
  }

  FakeTime time_;
  FakePeers peers_{5};
  CallLog log_{{.communicator = "world", .id = "", .rank = 0, .size = 5, .timeout = seconds(300), .health = {}}, time_};
  FirstError first_error_;
  Patience patience_;
  CallWatch watch_{{.communicator = "world", .rank = 0}, time_, patience_, peers_, log_, first_error_};
  CallWatch::Look look_{.rank = 1, .steps = 1, .timeout = seconds(30)};
  ErrorCode code_ = ErrorCode::invalid_usage;
};

TEST_F(CallWatchOf, EndsWaitingWhenNothingMovesForTheTimeout) {
  for (uint32_t rank = 0; rank < 5; ++rank) peers_.tells(rank, 1, rank == 4 ? 3 : rank + 1);
  EXPECT_EQ(stand_still(seconds(29)), "");
  EXPECT_EQ(stand_still(seconds(2)),
            "nothing has moved for 30000 ms while rank 0 waited for rank 1 in allreduce #1 of 4 float32 sum");
  EXPECT_EQ(code_, ErrorCode::timed_out);
  EXPECT_LE(peers_.longest_question, seconds(1));
}

// Its daemon has said nothing yet.
TEST_F(CallWatchOf, NamesNotItselfWhenItKnowsOfNobody) {
  look_.rank = 0;
  EXPECT_EQ(
      stand_still(seconds(31)),
      "nothing has moved for 30000 ms while rank 0 waited for nobody that it knows in allreduce #1 of 4 float32 sum");
}

TEST_F(CallWatchOf, BeginsTheTimeAnewWithEveryMove) {
  for (uint64_t step = 2; step < 6; ++step) {
    EXPECT_EQ(stand_still(seconds(29)), "");
    look_.steps = step;
  }
}

TEST_F(CallWatchOf, CountsTheTimeInWhichARankIsWaitedFor) {
  constexpr int64_t kMillisecond = 1'000'000;
  stand_still(seconds(3));  // the last step of which passes after the last look
  watch_.woke();
  look_.rank = 2;
  watch_.look(look_);
  time_.pass(milliseconds(100));
  watch_.woke();
  look_.steps = 2;
  time_.pass(seconds(5));
  watch_.look(look_);  // something has moved meanwhile: who knows when
  log_.end_oldest(OperationState::done);
  watch_.look(look_);
  time_.pass(seconds(5));
  watch_.woke();  // nobody waits for this
  EXPECT_THAT(log_.totals().waited, ::testing::ElementsAre(0, 3050 * kMillisecond, 100 * kMillisecond, 0, 0));
  const CallTotals totals = log_.totals();
  const CallTotals::OfKind& reductions = totals.of(OperationKind::all_reduce);
  EXPECT_EQ(reductions.calls, 1u);
  EXPECT_EQ(reductions.bytes, 16u);
  EXPECT_EQ(reductions.nanoseconds, 8'150u * kMillisecond) << "a call that waits is timed from its first look on";
}

// As where a rank sleeps after its first look, until what it waits for has come.
TEST_F(CallWatchOf, TimesACallThatWasSeenToWaitOnce) {
  watch_.look(look_);
  time_.pass(milliseconds(500));
  watch_.woke();
  log_.end_oldest(OperationState::done);
  const CallTotals totals = log_.totals();
  EXPECT_EQ(totals.of(OperationKind::all_reduce).nanoseconds, 500'000'000u);
  EXPECT_EQ(totals.of(OperationKind::all_reduce).timed(), 1u);
  EXPECT_THAT(totals.waited, ::testing::ElementsAre(0, 500'000'000, 0, 0, 0));
}

TEST_F(CallWatchOf, LetsAMessageThatNobodyWaitsForBeLate) {
  log_.end_oldest(OperationState::done);
  EXPECT_EQ(stand_still(seconds(100)), "");
  EXPECT_EQ(peers_.questions, 0);
}

constexpr const char* kTooLate = "nothing has moved for 30000 ms while rank 0 waited for rank 1";

TEST_F(CallWatchOf, GivesAMessageTheTimeoutFromWhenSomebodyWaitsForIt) {
  log_.end_oldest(OperationState::done);
  EXPECT_EQ(stand_still(seconds(100)), "");
  const Patience::Waiter waiter(patience_);
  EXPECT_EQ(stand_still(seconds(29)), "");
  EXPECT_THAT(stand_still(seconds(2)), HasSubstr(kTooLate));
}

TEST_F(CallWatchOf, CountsTheTimeOfOneWaitAfterTheOther) {
  log_.end_oldest(OperationState::done);
  for (int i = 0; i < 2; ++i) {
    const Patience::Waiter waiter(patience_);
    EXPECT_EQ(stand_still(seconds(14)), "") << i;
  }
  EXPECT_EQ(stand_still(seconds(100)), "") << "nobody waits";
  const Patience::Waiter waiter(patience_);
  EXPECT_THAT(stand_still(seconds(3)), HasSubstr(kTooLate));
}

// As a program that tests a message until it is done, and one that looks for a message now and then.
TEST_F(CallWatchOf, CountsTheTimeBetweenTestsThatFollowEachOther) {
  log_.end_oldest(OperationState::done);
  const auto test_every = [&](milliseconds time, int times) -> std::string {
    for (int i = 0; i < times; ++i) {
      patience_.asked();
      if (std::string error = stand_still(time - milliseconds(50)); !error.empty()) return error;
    }
    return "";
  };
  EXPECT_EQ(test_every(seconds(1), 100), "");
  look_.steps = 2;
  EXPECT_EQ(test_every(milliseconds(100), 290), "");
  EXPECT_THAT(test_every(milliseconds(100), 20), HasSubstr(kTooLate));
}

TEST_F(CallWatchOf, GivesACallAllOfItsTimeWhateverWasWaitedForBefore) {
  EXPECT_EQ(stand_still(seconds(29)), "");
  log_.end_oldest(OperationState::done);
  log_.begin({.kind = OperationKind::all_reduce, .type = element::DataType::float32, .count = 4});
  EXPECT_EQ(stand_still(seconds(29)), "");
}

// A process that is stopped, or a program that makes progress only in calls that are far apart.
TEST_F(CallWatchOf, CountsLittleOfATimeInWhichNobodyLooked) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_NO_THROW(watch_.look(look_)) << i;
    time_.pass(seconds(100));
  }
  log_.end_oldest(OperationState::done);
  look_.steps = 2;
  const Patience::Waiter waiter(patience_);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_NO_THROW(watch_.look(look_)) << i;
    time_.pass(seconds(1));
  }
  EXPECT_THAT(stand_still(seconds(31)), HasSubstr(kTooLate));
}

TEST_F(CallWatchOf, EndsWaitingAtOnceForTheDead) {
  stand_still(milliseconds(100));
  peers_.set(3, Health::dead);
  EXPECT_EQ(stand_still(milliseconds(200)), "rank 3 is dead: process 4703 has ended");
  EXPECT_EQ(code_, ErrorCode::peer_lost);
}

TEST_F(CallWatchOf, LooksOnceMoreAtItsOwnWorkBeforeItBelievesADeath) {
  watch_.look(look_);
  watch_.look(look_);
  peers_.set(3, Health::dead);
  EXPECT_NO_THROW(watch_.look(look_)) << "what rank 3 had done may be here by now";
  look_.steps = 2;
  EXPECT_NO_THROW(watch_.look(look_)) << "something has moved";
  EXPECT_THROW(watch_.look(look_), Error);
}

TEST_F(CallWatchOf, MissesARankThatHasLeftOnlyWhereItIsNeeded) {
  peers_.set(1, Health::left);
  look_.can_do_without = true;
  EXPECT_EQ(stand_still(seconds(1)), "");
  look_.can_do_without = false;
  EXPECT_EQ(stand_still(seconds(1)),
            "rank 1 has left: it ended its part before this rank's allreduce #1 of 4 float32 sum");
}

// The good-bye comes over another connection than the bytes before it, which may be on their way yet.
TEST_F(CallWatchOf, WaitsForTheLastBytesOfARankThatHasLeft) {
  EXPECT_EQ(stand_still(milliseconds(50)), "");
  peers_.set(1, Health::left);
  EXPECT_EQ(stand_still(milliseconds(150)), "");
  ++look_.steps;
  EXPECT_EQ(stand_still(milliseconds(150)), "") << "some of them came";
  EXPECT_THAT(stand_still(milliseconds(100)), HasSubstr("rank 1 has left"));
}

TEST_F(CallWatchOf, WaitsForTheLastBytesAsLongAsTheirConnectionStands) {
  look_.notices_last_bytes = true;
  EXPECT_EQ(stand_still(milliseconds(50)), "");
  peers_.set(1, Health::left);
  EXPECT_EQ(stand_still(milliseconds(1000)), "");
  look_.notices_last_bytes = false;
  EXPECT_THAT(stand_still(milliseconds(100)), HasSubstr("rank 1 has left"));
}

TEST_F(CallWatchOf, FindsOutSoonThatTheCallsDiffer) {
  for (uint32_t rank = 0; rank < 5; ++rank) peers_.tells(rank, 1, rank == 4 ? 3 : rank + 1, rank == 2 ? 5 : 4);
  EXPECT_THAT(stand_still(seconds(3)), HasSubstr("rank 2 called allreduce #1 of 5 float32 sum"));
  EXPECT_EQ(code_, ErrorCode::mismatch);
}

TEST_F(CallWatchOf, ExplainsATimeoutByTheRankThatIsLate) {
  for (uint32_t rank = 0; rank < 4; ++rank) peers_.tells(rank, 1, rank + 1);
  const Error cause = watch_.cause_of(Error(ErrorCode::timed_out, "nothing has moved"));
  EXPECT_THAT(cause.message(), HasSubstr("nothing has moved: rank 4 has not called allreduce #1"));
}

// It answered just before the timeout, and what it said explains nothing: the others wait for each other.
TEST_F(CallWatchOf, AsksOnceMoreWhoeverFallsSilentAtTheTimeout) {
  for (uint32_t rank = 0; rank < 4; ++rank) peers_.tells(rank, 1, rank ^ 1);
  peers_.tells(4, 1, std::nullopt);
  const std::string error = stand_still(seconds(31));
  EXPECT_EQ(error, std::string(kTooLate) + " in allreduce #1 of 4 float32 sum");
  peers_.set(4, Health::silent);
  EXPECT_THAT(watch_.cause_of(Error(ErrorCode::timed_out, error)).message(),
              HasSubstr("rank 4 gives no sign of life (stopped, or cut off)"));
  peers_.set(4, Health::alive);
  EXPECT_EQ(watch_.health_of(4), Health::silent);
}

// Where its last answer explains all, it is believed: who is too busy to answer at once is not stopped.
TEST_F(CallWatchOf, BelievesTheLastAnswerOfARankThatIsLate) {
  for (uint32_t rank = 0; rank < 4; ++rank) peers_.tells(rank, 1, 4);
  const std::string error = stand_still(seconds(31));
  peers_.set(4, Health::silent);
  EXPECT_THAT(watch_.cause_of(Error(ErrorCode::timed_out, error)).message(),
              HasSubstr("rank 4 has not called allreduce #1"));
}

TEST_F(CallWatchOf, SaysWhichMessageARankHasWaitedForAndWhatItsPeerDoes) {
  log_.end_oldest(OperationState::done);
  const Call message{.kind = OperationKind::recv, .other = 1, .count = 4, .tag = 7};
  const MessageBook::Place place = log_.begin_message(message);
  peers_.is_between_calls(1);
  peers_.has_sent(1, 0, 3);
  const Patience::Waiter waiter(patience_);
  log_.record_message_wait(place);
  peers_.tells_of_messages(0, log_.news().messages);
  const std::string error = stand_still(seconds(31));
  EXPECT_EQ(error, "nothing has moved for 30000 ms while rank 0 waited for message 1 of rank 1 (tag 7)");
  EXPECT_THAT(watch_.cause_of(Error(ErrorCode::timed_out, error)).message(),
              HasSubstr("rank 0 waits for message 1 of rank 1 (tag 7), which has sent 3, the last with tag 0 and is in "
                        "no call"));
}

TEST_F(CallWatchOf, WarnsOfTheRankForWhichAllWaitAndNotOfANeighbourThatWaitsToo) {
  look_.timeout = seconds(300);
  // A chain: 0 waits for 1, 1 for 2, 2 for 3, and 3 has not called it.
  peers_.tells(0, 1, 1);
  peers_.tells(1, 1, 2);
  peers_.tells(2, 1, 3);
  peers_.tells(4, 1, 0);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(stand_still(seconds(19)), "");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("communicator 'world': still waiting for rank 3 (allreduce #1 of 4 float32 sum), 10 s of "
                              "300 s: rank 3 has not called allreduce #1"),
                    HasSubstr("ranks 0, 1, 2, 4 wait for it"), Not(HasSubstr("20 s of"))));
}

TEST_F(CallWatchOf, WarnsOfTheRankThatDoesNotAnswer) {
  look_.timeout = seconds(300);
  peers_.tells(0, 1, 1);
  peers_.tells(1, 1, 2);
  peers_.set(2, Health::silent);
  for (const uint32_t rank : {3u, 4u}) peers_.tells(rank, 1, 0);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(stand_still(seconds(11)), "");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("still waiting for rank 2 (allreduce #1 of 4 float32 sum), 10 s of 300 s: rank 2 gives no sign "
                        "of life (stopped, or cut off)"));
}

TEST_F(CallWatchOf, CallsARankThatHasNotAnsweredSilent) {
  EXPECT_EQ(watch_.health_of(2), Health::alive);
  peers_.set(2, Health::silent);
  stand_still(seconds(3));
  peers_.set(2, Health::alive);
  EXPECT_EQ(watch_.health_of(2), Health::silent) << "it has left the last question without an answer";
}

TEST_F(CallWatchOf, SaysTheFirstErrorWhateverCameLater) {
  first_error_.note(Error(ErrorCode::aborted, "rank 2 aborted: enough"));
  EXPECT_EQ(stand_still(seconds(1)), "rank 2 aborted: enough");
  EXPECT_EQ(watch_.cause_of(Error(ErrorCode::peer_lost, "a connection broke")).message(), "rank 2 aborted: enough");
}

}  // namespace
}  // namespace banyan::run
