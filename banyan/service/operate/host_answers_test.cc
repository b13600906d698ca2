// The newer daemon of a host, and the older one, which is a function here. Time passes when the test says so.
#include "banyan/service/operate/host_answers.h"

#include "banyan/service/view/view_json.h"
#include "banyan/testing/simulated_network.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

class HostAnswersTest : public ::testing::Test {
 protected:
  using Answer = HostAnswers::Answer;

  static std::string view_of(const std::string& communicator, uint64_t replans) {
    HostView view{.host = "id", .name = "a", .version = communicator, .clients = 1, .replans = replans};
    view.communicators.push_back({.id = communicator, .name = communicator, .tenant = "t", .size = 1});
    return to_json(view);
  }
  void make() {
    host_ = std::make_unique<HostAnswers>(HostAnswers::Parts{
        .timers = time_,
        .own =
            [this](const std::string& command, const std::string& body, const HostAnswers::Reply& reply) {
              own_asked_.push_back(command + " " + body);
              if (own_) return reply(*own_);
              own_replies_.push_back(reply);
            },
        .older =
            [this] { return has_older_ ? std::optional(DaemonName{.host = "a", .incarnation = 1}) : std::nullopt; },
        .ask =
            [this](const DaemonName&, const OperatorQuestion& question) {
              if (is_unreachable_) throw Error(ErrorCode::peer_lost, "no way to it");
              asked_.push_back(question);
            },
        .record = [this](const std::string& words) { notes_.push_back(words); }});
  }
  void ask(const std::string& command) {
    answer_.reset();
    host_->answer(command, "{}", [this](Answer answer) {
      EXPECT_FALSE(answer_) << "answered twice";
      answer_ = std::move(answer);
    });
  }
  // To the question that was asked at this place.
  void say(size_t place, const std::string& body, bool is_refusal = false) {
    host_->receive({.number = asked_.at(place).number, .is_refusal = is_refusal, .body = body});
  }
  HostView view() const { return host_view_from(answer_.value().body); }

  testing::SimulatedTime time_;
  std::unique_ptr<HostAnswers> host_;
  bool has_older_ = true;
  bool is_unreachable_ = false;
  std::optional<Answer> own_ = Answer{.body = view_of("new", 1)};
  std::vector<std::string> own_asked_;
  std::vector<HostAnswers::Reply> own_replies_;
  std::vector<OperatorQuestion> asked_;
  std::vector<std::string> notes_;
  std::optional<Answer> answer_;
};

TEST_F(HostAnswersTest, SaysWhatTheDaemonSaysWhereThereIsNoOlderOne) {
  has_older_ = false;
  own_ = Answer{.is_refusal = false, .body = "not even a view"};
  make();
  ask("view");
  EXPECT_EQ(answer_->body, "not even a view");
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(HostAnswersTest, ViewsHaveTheCommunicatorsOfBothDaemons) {
  make();
  ask("view");
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_FALSE(answer_);
  say(0, view_of("old", 2));
  ASSERT_TRUE(answer_);
  ASSERT_EQ(view().communicators.size(), 2u);
  EXPECT_EQ(view().version, "new");
  EXPECT_EQ(view().clients, 2u);
  EXPECT_EQ(view().replans, 3u);
  time_.run_for(HostAnswers::kCommandTime);
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(HostAnswersTest, ADaemonThatHangsHoldsUpNobodyAndAnEventSaysSo) {
  make();
  ask("view");
  say(0, view_of("old", 2));
  ask("view");
  time_.run_for(HostAnswers::kViewTime - milliseconds(1));
  EXPECT_FALSE(answer_);
  time_.run_for(milliseconds(1));
  ASSERT_TRUE(answer_);
  EXPECT_EQ(view().communicators.size(), 1u);
  EXPECT_EQ(view().replans, 3u) << "what it had counted counts";
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("does not answer")));
  // From now on it is not asked.
  ask("view");
  EXPECT_EQ(asked_.size(), 2u);
  EXPECT_TRUE(answer_);
  ask("set");
  EXPECT_TRUE(answer_->is_refusal);
  EXPECT_THAT(answer_->body, HasSubstr("has not: it does not answer"));
  EXPECT_EQ(notes_.size(), 1u);
  // Until it goes on.
  say(1, view_of("old", 4));
  EXPECT_THAT(notes_.back(), HasSubstr("answers again"));
  ask("view");
  EXPECT_EQ(asked_.size(), 3u);
}

TEST_F(HostAnswersTest, WhatDaemonsHadCountedStaysWhenTheyHaveEnded) {
  make();
  ask("view");
  say(0, view_of("oldest", 4));
  has_older_ = false;
  host_->forget_older();
  // A second one ends while its answer is waited for.
  has_older_ = true;
  ask("view");
  say(1, view_of("old", 2));
  EXPECT_EQ(view().communicators.size(), 2u);
  EXPECT_EQ(view().replans, 7u);
  ask("view");
  EXPECT_FALSE(answer_);
  has_older_ = false;
  host_->forget_older();
  for (int times = 0; times < 2; ++times) {
    ASSERT_TRUE(answer_);
    EXPECT_EQ(view().communicators.size(), 1u);
    EXPECT_EQ(view().clients, 1u);
    EXPECT_EQ(view().replans, 7u);
    ask("view");
  }
  EXPECT_EQ(asked_.size(), 3u);
}

TEST_F(HostAnswersTest, ANewerDaemonHearsWhatThisOneKnowsAlone) {
  make();
  ask("view");
  say(0, view_of("old", 4));
  has_older_ = false;
  host_->forget_older();
  host_->answer_alone("view", "{}", [&](Answer answer) { answer_ = std::move(answer); });
  EXPECT_EQ(view().communicators.size(), 1u);
  EXPECT_EQ(view().replans, 5u);
  EXPECT_EQ(asked_.size(), 1u);
}

TEST_F(HostAnswersTest, CommandsReachBothDaemonsAndTheirAnswersBecomeOne) {
  own_ = Answer{.body = R"({"version":7,"changes":[1]})"};
  make();
  ask("load rules");
  EXPECT_THAT(own_asked_, ElementsAre("load rules {}"));
  say(0, R"({"version":7,"changes":[2,3]})");
  EXPECT_FALSE(answer_->is_refusal);
  EXPECT_EQ(answer_->body, R"({"version":7,"changes":[1,2,3]})");
  own_ = Answer{.body = R"({"sessions":1})"};
  ask("drain");
  say(1, R"({"sessions":2})");
  EXPECT_EQ(answer_->body, R"({"sessions":3})");
}

TEST_F(HostAnswersTest, CommandsThatOpenNothingOfOlderDaemonsAreTheNewestOnes) {
  make();
  for (const std::string command : {"upgrade", "rules"}) {
    ask(command);
    EXPECT_TRUE(answer_);
  }
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(HostAnswersTest, WhatTheNewestRefusesIsRefused) {
  own_ = Answer{.is_refusal = true, .body = "no such link"};
  make();
  ask("replan");
  say(0, R"({"communicators":[]})");
  EXPECT_TRUE(answer_->is_refusal);
  EXPECT_EQ(answer_->body, "no such link");
}

TEST_F(HostAnswersTest, WhatTheOlderOneRefusesOrDoesNotUnderstandIsToldInWords) {
  own_ = Answer{.body = R"({"sessions":1})"};
  make();
  ask("set");
  say(0, "knows no command 'set'", true);
  EXPECT_TRUE(answer_->is_refusal);
  EXPECT_THAT(answer_->body, HasSubstr("has not: knows no command 'set'"));
  ask("set");
  say(1, "[]");
  EXPECT_TRUE(answer_->is_refusal);
  EXPECT_THAT(answer_->body, HasSubstr("no object of JSON"));
  is_unreachable_ = true;
  ask("set");
  EXPECT_THAT(answer_->body, HasSubstr("no way to it"));
}

TEST_F(HostAnswersTest, AnOlderViewThatIsNotUnderstoodCostsTheOtherNothing) {
  make();
  ask("view");
  say(0, "{\"at\": 1}");
  EXPECT_EQ(view().communicators.size(), 1u);
}

TEST_F(HostAnswersTest, AnswersThatComeAfterItsEndAreDropped) {
  own_.reset();
  make();
  ask("set");
  say(0, R"({"sessions":2})");
  host_.reset();
  own_replies_.at(0)({.body = "{}"});
  EXPECT_FALSE(answer_);
  time_.run_for(HostAnswers::kCommandTime);
  EXPECT_FALSE(answer_);
}

}  // namespace
}  // namespace banyan::service
