#include "banyan/service/session/open_sessions.h"

#include <sys/socket.h>
#include <unistd.h>

#include "banyan/base/check.h"
#include "banyan/run/join/wire.h"
#include "banyan/run/system/reactor.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

constexpr uint64_t kGroup = 1;
constexpr uint32_t kSize = 3;

// A call of rank `from` for the session of rank `to`.
run::Greeting call(const std::string& communicator, uint32_t from, uint32_t to, uint32_t lane = 0) {
  return {
      .purpose = "lane",
      .payload =
          run::WireWriter().text(communicator).number(to).number(kGroup).number(from).number(to).number(lane).take()};
}

// The two ends of a connection.
struct Pair {
  run::FileDescriptor far;
  run::Admitted near;
};

Pair connected() {
  std::array<int, 2> ends{};
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0) << "socketpair";
  return {.far = run::FileDescriptor(ends[0]), .near = {.socket = run::FileDescriptor(ends[1]), .keys = {}}};
}

bool is_hung_up(const run::FileDescriptor& far) {
  char byte = 0;
  return recv(far.get(), &byte, 1, MSG_DONTWAIT) == 0;
}

class OpenSessionsTest : public ::testing::Test {
 protected:
  OpenSessions::Doors session(uint32_t rank, const std::shared_ptr<run::AnswerQueue>& answers) {
    auto lanes = std::make_shared<SessionLanes>(reactor_, connects_, "job.1", std::vector<run::ConnectTarget>(kSize),
                                                [] { return false; });
    lanes->connections().open({.communicator = kGroup, .members = {0, 1, 2}, .own = rank, .at_most = milliseconds(100)},
                              answers);
    return {.lanes = std::move(lanes),
            .receive = [this](const std::string& text) { heard_.push_back(text); },
            .set_rate = [this](uint64_t rate) { heard_.push_back("rate " + std::to_string(rate)); },
            .fail = [this](const Error& why) { heard_.push_back(why.what()); }};
  }

  run::Reactor reactor_;
  run::OutgoingConnects connects_{reactor_, run::Secret(), "a", milliseconds(100)};
  OpenSessions sessions_;
  std::vector<std::string> heard_;
};

TEST_F(OpenSessionsTest, WhoCallsBeforeTheSessionIsOpenGetsToIt) {
  Pair early = connected(), late = connected();
  EXPECT_EQ(sessions_.admit(call("job.1", 0, 2, 7), early.near), std::nullopt);
  EXPECT_FALSE(is_hung_up(early.far));
  const auto answers = std::make_shared<run::AnswerQueue>();
  const OpenSessions::Doors opened = session(2, answers);
  opened.lanes->connections().request(kGroup, 0, 7, {});
  opened.lanes->connections().request(kGroup, 1, 0, {});
  EXPECT_TRUE(answers->take().empty());
  sessions_.add({"job.1", 2}, opened);
  sessions_.hand_over({"job.1", 2});
  auto got = answers->take();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].peer, 0u);
  EXPECT_EQ(got[0].lane, 7u);
  EXPECT_EQ(send(early.far.get(), "x", 1, 0), 1);
  char byte = 0;
  EXPECT_EQ(recv(got[0].socket.get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_EQ(sessions_.admit(call("job.1", 1, 2), late.near), std::nullopt);
  got = answers->take();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].peer, 1u);
}

TEST_F(OpenSessionsTest, WhatHasComeForASessionThatIsRefusedGoes) {
  const OpenSessions::Key key{"job.1", 2};
  Pair early = connected(), late = connected();
  EXPECT_EQ(sessions_.admit(call("job.1", 0, 2), early.near), std::nullopt);
  EXPECT_TRUE(sessions_.refuse(key));
  EXPECT_TRUE(is_hung_up(early.far));
  EXPECT_EQ(sessions_.early(), 0u);
  EXPECT_THAT(sessions_.admit(call("job.1", 1, 2), late.near).value_or(""), HasSubstr("has ended"));
  sessions_.add(key, session(2, std::make_shared<run::AnswerQueue>()));
  EXPECT_FALSE(sessions_.refuse(key)) << "there is one that is open";
}

TEST_F(OpenSessionsTest, ARefusalEndsTheOtherSessionsNowAndThoseThatComeLater) {
  const Error why(ErrorCode::invalid_usage, "rank 1 is refused");
  sessions_.add({"job.1", 2}, session(2, std::make_shared<run::AnswerQueue>()));
  sessions_.receive(SessionRefusal{.communicator = "job.1", .error = why});
  EXPECT_THAT(heard_, ElementsAre("rank 1 is refused"));
  try {
    sessions_.add({"job.1", 0}, session(0, std::make_shared<run::AnswerQueue>()));
    FAIL() << "it is opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_usage);
    EXPECT_STREQ(error.what(), "rank 1 is refused");
  }
  EXPECT_FALSE(sessions_.refuse({"job.1", 0})) << "the others know";
  EXPECT_EQ(sessions_.early(), 1u) << "it is known once, for all ranks";
  sessions_.add({"job.2", 0}, session(0, std::make_shared<run::AnswerQueue>()));
}

TEST_F(OpenSessionsTest, WhoWasRefusedItselfMayTryAgain) {
  const OpenSessions::Key key{"job.1", 1};
  EXPECT_TRUE(sessions_.refuse(key));
  sessions_.receive(SessionRefusal{.communicator = "job.1", .error = Error(ErrorCode::io, "no room")});
  EXPECT_FALSE(sessions_.refuse(key)) << "the others know";
  sessions_.add(key, session(1, std::make_shared<run::AnswerQueue>()));
  EXPECT_THROW(sessions_.add({"job.1", 0}, session(0, std::make_shared<run::AnswerQueue>())), Error);
}

TEST_F(OpenSessionsTest, OfATextForManyThatAreNotOpenTheLastOnesHaveIt) {
  std::vector<uint32_t> ranks(EarlyBox::kMostOfUser + 2);
  std::iota(ranks.begin(), ranks.end(), 0u);
  sessions_.add({"job.1", 1}, session(1, std::make_shared<run::AnswerQueue>()));
  sessions_.receive({.communicator = "job.1", .ranks = ranks, .text = "to all"});
  EXPECT_THAT(heard_, ElementsAre("to all"));
  EXPECT_EQ(sessions_.early(), EarlyBox::kMostOfUser);
  sessions_.add({"job.1", 0}, session(0, std::make_shared<run::AnswerQueue>()));
  sessions_.hand_over({"job.1", 0});
  EXPECT_EQ(heard_.size(), 1u);
  sessions_.add({"job.1", 2}, session(2, std::make_shared<run::AnswerQueue>()));
  sessions_.hand_over({"job.1", 2});
  EXPECT_EQ(heard_.size(), 2u);
}

TEST_F(OpenSessionsTest, SessionsGetNoCallsForOthers) {
  Pair other_rank = connected(), other_job = connected();
  EXPECT_EQ(sessions_.admit(call("job.1", 0, 1), other_rank.near), std::nullopt);
  EXPECT_EQ(sessions_.admit(call("job.2", 0, 2), other_job.near), std::nullopt);
  const auto answers = std::make_shared<run::AnswerQueue>();
  const OpenSessions::Doors opened = session(2, answers);
  opened.lanes->connections().request(kGroup, 0, 0, {});
  sessions_.add({"job.1", 2}, opened);
  sessions_.hand_over({"job.1", 2});
  EXPECT_TRUE(answers->take().empty());
  EXPECT_FALSE(is_hung_up(other_rank.far));
  EXPECT_FALSE(is_hung_up(other_job.far));
}

TEST_F(OpenSessionsTest, WhoCallsForASessionThatHasEndedIsHungUpOn) {
  const OpenSessions::Key key{"job.1", 2};
  sessions_.add(key, session(2, std::make_shared<run::AnswerQueue>()));
  sessions_.remove(key);
  Pair late = connected();
  EXPECT_THAT(sessions_.admit(call("job.1", 0, 2), late.near).value_or(""), HasSubstr("has ended"));
  EXPECT_TRUE(late.near.socket.is_open());  // for the caller of admit() to close
}

TEST_F(OpenSessionsTest, ASessionMayBeOpenedAgain) {
  const OpenSessions::Key key{"job.1", 2};
  const auto answers = std::make_shared<run::AnswerQueue>();
  sessions_.add(key, session(2, answers));
  EXPECT_THROW(sessions_.add(key, session(2, answers)), Error);
  sessions_.remove(key);
  sessions_.add(key, session(2, answers));
  Pair pair = connected();
  EXPECT_EQ(sessions_.admit(call("job.1", 0, 2), pair.near), std::nullopt);
}

TEST_F(OpenSessionsTest, TheOldestOfTooManyEarlyOnesIsHungUpOn) {
  Pair first = connected(), second = connected();
  EXPECT_EQ(sessions_.admit(call("job.1", 0, 2), first.near), std::nullopt);
  EXPECT_EQ(sessions_.admit(call("job.1", 1, 2), second.near), std::nullopt);
  for (size_t i = 2; i <= EarlyBox::kMostOfUser; ++i) {
    run::Admitted none;  // of descriptors there are not so many
    EXPECT_EQ(sessions_.admit(call("job." + std::to_string(i), 0, 2), none), std::nullopt);
  }
  EXPECT_TRUE(is_hung_up(first.far));
  EXPECT_FALSE(is_hung_up(second.far));
}

TEST_F(OpenSessionsTest, TextsGoToTheRanksThatAreNamed) {
  sessions_.receive({.communicator = "job.1", .ranks = {1, 2}, .text = "early"});
  sessions_.receive({.communicator = "job.2", .ranks = {2}, .text = "to another job"});
  sessions_.add({"job.1", 2}, session(2, std::make_shared<run::AnswerQueue>()));
  EXPECT_THAT(heard_, ElementsAre());
  sessions_.hand_over({"job.1", 2});
  EXPECT_THAT(heard_, ElementsAre("early"));
  sessions_.receive({.communicator = "job.1", .ranks = {0, 2}, .text = "in time"});
  EXPECT_THAT(heard_, ElementsAre("early", "in time"));
  sessions_.remove({"job.1", 2});
  sessions_.receive({.communicator = "job.1", .ranks = {2}, .text = "late"});
  sessions_.add({"job.1", 1}, session(1, std::make_shared<run::AnswerQueue>()));
  sessions_.hand_over({"job.1", 1});
  EXPECT_THAT(heard_, ElementsAre("early", "in time", "early"));
}

TEST_F(OpenSessionsTest, RatesGoToOpenSessionsOnly) {
  sessions_.set_rate({.communicator = "job.1", .ranks = {2}, .rate = 1});
  sessions_.add({"job.1", 2}, session(2, std::make_shared<run::AnswerQueue>()));
  sessions_.hand_over({"job.1", 2});
  sessions_.set_rate({.communicator = "job.1", .ranks = {0, 2}, .rate = 2});
  sessions_.set_rate({.communicator = "job.2", .ranks = {2}, .rate = 3});
  EXPECT_THAT(heard_, ElementsAre("rate 2"));
}

TEST_F(OpenSessionsTest, WhatIsForAnotherDaemonOfThisHostIsRefusedOrDropped) {
  Pair pair = connected();
  const auto admitted = [&](const std::string& communicator) {
    return sessions_.admit(call(communicator, 0, 2), pair.near).value_or("admitted");
  };
  sessions_.know_elsewhere({{"job.1", 2}});
  EXPECT_THAT(admitted("job.1"), HasSubstr("another daemon of this host"));
  sessions_.receive({.communicator = "job.1", .ranks = {2}, .text = "for the other"});
  EXPECT_EQ(sessions_.early(), 0u);
  sessions_.receive({.communicator = "job.1", .ranks = {1}, .text = "for this one"});
  EXPECT_EQ(sessions_.early(), 1u);
  sessions_.end_with({{"job.2", 2}});
  EXPECT_THAT(admitted("job.3"), HasSubstr("another daemon of this host"));
  EXPECT_EQ(admitted("job.2"), "admitted");
  sessions_.go_on();
  sessions_.know_elsewhere({});
  EXPECT_EQ(admitted("job.3"), "admitted");
  EXPECT_EQ(admitted("job.1"), "admitted");
}

TEST_F(OpenSessionsTest, GarbageThatCameEarlyCostsTheSessionNothing) {
  run::Admitted none;
  run::Greeting garbage = call("job.1", 0, 2);
  garbage.payload.pop_back();
  EXPECT_EQ(sessions_.admit(garbage, none), std::nullopt);
  sessions_.add({"job.1", 2}, session(2, std::make_shared<run::AnswerQueue>()));
  EXPECT_NO_THROW(sessions_.hand_over({"job.1", 2}));
  garbage.payload.resize(3);
  EXPECT_THROW(sessions_.admit(garbage, none), Error);
}

}  // namespace
}  // namespace banyan::service
