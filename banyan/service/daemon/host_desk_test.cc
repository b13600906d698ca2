// The newest daemon of a host, and older ones that are functions here. Time passes when the test says so.
#include "banyan/service/daemon/host_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "banyan/service/view/view_json.h"
#include "banyan/testing/simulated_network.h"

namespace banyan::service {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HostDeskTest : public ::testing::Test {
 protected:
  using Answer = HostDesk::Answer;

  static std::string view_of(const std::string& communicator, uint64_t replans) {
    HostView view{.host = "id", .name = "a", .version = communicator, .clients = 1, .replans = replans};
    view.communicators.push_back({.id = communicator, .name = communicator, .tenant = "t", .size = 1});
    return to_json(view);
  }
  void make() {
    desk_ = std::make_unique<HostDesk>(
        HostDesk::Parts{.timers = time_,
                        .own =
                            [this](const std::string& command, const std::string& body, const HostDesk::Reply& reply) {
                              own_asked_.push_back(command + " " + body);
                              if (own_) return reply(*own_);
                              own_replies_.push_back(reply);
                            },
                        .older =
                            [this] {
                              std::vector<DaemonName> names;
                              for (const uint64_t each : older_) names.push_back({.host = "a", .incarnation = each});
                              return names;
                            },
                        .ask =
                            [this](const DaemonName& daemon, const OperatorQuestion& question) {
                              if (is_unreachable_) throw Error(ErrorCode::peer_lost, "no way to it");
                              asked_.push_back({daemon.incarnation, question});
                            },
                        .note = [this](const std::string& words) { notes_.push_back(words); }});
  }
  void ask(const std::string& command) {
    answer_.reset();
    desk_->answer(command, "{}", [this](Answer answer) {
      EXPECT_FALSE(answer_) << "answered twice";
      answer_ = std::move(answer);
    });
  }
  // To the question that was asked at this place.
  void say(size_t place, const std::string& body, bool is_refusal = false) {
    const auto& [daemon, question] = asked_.at(place);
    desk_->hear(daemon, {.number = question.number, .is_refusal = is_refusal, .body = body});
  }
  HostView view() const { return host_view_from(answer_.value().body); }

  testing::SimulatedTime time_;
  std::unique_ptr<HostDesk> desk_;
  std::vector<uint64_t> older_ = {2, 1};
  bool is_unreachable_ = false;
  std::optional<Answer> own_ = Answer{.body = view_of("new", 1)};
  std::vector<std::string> own_asked_;
  std::vector<HostDesk::Reply> own_replies_;
  std::vector<std::pair<uint64_t, OperatorQuestion>> asked_;
  std::vector<std::string> notes_;
  std::optional<Answer> answer_;
};

TEST_F(HostDeskTest, SaysWhatTheDaemonSaysWhereThereIsNoOlderOne) {
  older_.clear();
  own_ = Answer{.is_refusal = false, .body = "not even a view"};
  make();
  ask("view");
  EXPECT_EQ(answer_->body, "not even a view");
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(HostDeskTest, ViewsHaveTheCommunicatorsOfAllDaemons) {
  make();
  ask("view");
  ASSERT_EQ(asked_.size(), 2u);
  say(1, view_of("oldest", 4));
  EXPECT_FALSE(answer_);
  say(0, view_of("old", 2));
  ASSERT_TRUE(answer_);
  ASSERT_EQ(view().communicators.size(), 3u);
  EXPECT_EQ(view().version, "new");
  EXPECT_EQ(view().clients, 3u);
  EXPECT_EQ(view().replans, 7u);
  time_.run_for(HostDesk::kCommandTime);
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(HostDeskTest, ADaemonThatHangsHoldsUpNobodyAndAnEventSaysSo) {
  make();
  ask("view");
  say(0, view_of("old", 2));
  say(1, view_of("oldest", 4));
  ask("view");
  say(2, view_of("old", 3));
  time_.run_for(HostDesk::kViewTime - milliseconds(1));
  EXPECT_FALSE(answer_);
  time_.run_for(milliseconds(1));
  ASSERT_TRUE(answer_);
  EXPECT_EQ(view().communicators.size(), 2u);
  EXPECT_EQ(view().replans, 8u) << "what it had counted counts";
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("does not answer")));
  // From now on it is not asked.
  ask("view");
  EXPECT_EQ(asked_.size(), 5u);
  say(4, view_of("old", 3));
  EXPECT_TRUE(answer_);
  ask("set");
  say(5, R"({"sessions":2})");
  EXPECT_TRUE(answer_->is_refusal);
  EXPECT_THAT(answer_->body, HasSubstr("has not: it does not answer"));
  EXPECT_EQ(notes_.size(), 1u);
  // Until it goes on.
  say(3, view_of("oldest", 4));
  EXPECT_THAT(notes_.back(), HasSubstr("answers again"));
  ask("view");
  EXPECT_EQ(asked_.size(), 8u);
}

TEST_F(HostDeskTest, WhatADaemonHadCountedStaysWhenItHasEnded) {
  make();
  ask("view");
  say(0, view_of("old", 2));
  say(1, view_of("oldest", 4));
  // One ends without an answer; another after it.
  ask("view");
  say(2, view_of("old", 3));
  older_ = {2};
  desk_->forget(1);
  ASSERT_TRUE(answer_);
  EXPECT_EQ(view().communicators.size(), 2u);
  EXPECT_EQ(view().replans, 8u);
  older_.clear();
  desk_->forget(2);
  for (int times = 0; times < 2; ++times) {
    ask("view");
    EXPECT_EQ(view().communicators.size(), 1u);
    EXPECT_EQ(view().clients, 1u);
    EXPECT_EQ(view().replans, 8u);
  }
  EXPECT_EQ(asked_.size(), 4u);
}

TEST_F(HostDeskTest, ANewerDaemonHearsWhatThisOneKnowsAlone) {
  make();
  ask("view");
  say(0, view_of("old", 2));
  say(1, view_of("oldest", 4));
  older_ = {2};
  desk_->forget(1);
  desk_->answer_alone("view", "{}", [&](Answer answer) { answer_ = std::move(answer); });
  EXPECT_EQ(view().communicators.size(), 1u);
  EXPECT_EQ(view().replans, 5u);
  EXPECT_EQ(asked_.size(), 2u);
}

TEST_F(HostDeskTest, CommandsReachAllDaemonsAndTheirAnswersBecomeOne) {
  own_ = Answer{.body = R"({"version":7,"changes":[1]})"};
  make();
  ask("load rules");
  EXPECT_THAT(own_asked_, ElementsAre("load rules {}"));
  say(0, R"({"version":7,"changes":[2,3]})");
  say(1, R"({"version":7,"changes":[]})");
  EXPECT_FALSE(answer_->is_refusal);
  EXPECT_EQ(answer_->body, R"({"version":7,"changes":[1,2,3]})");
  own_ = Answer{.body = R"({"sessions":1})"};
  ask("drain");
  say(2, R"({"sessions":2})");
  say(3, R"({"sessions":4})");
  EXPECT_EQ(answer_->body, R"({"sessions":7})");
}

TEST_F(HostDeskTest, CommandsThatOpenNothingOfOlderDaemonsAreTheNewestOnes) {
  make();
  for (const std::string command : {"upgrade", "rules"}) {
    ask(command);
    EXPECT_TRUE(answer_);
  }
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(HostDeskTest, WhatTheNewestRefusesIsRefused) {
  own_ = Answer{.is_refusal = true, .body = "no such link"};
  make();
  ask("replan");
  say(0, R"({"communicators":[]})");
  say(1, "no such link", true);
  EXPECT_TRUE(answer_->is_refusal);
  EXPECT_EQ(answer_->body, "no such link");
}

TEST_F(HostDeskTest, WhatAnOlderOneRefusesOrDoesNotUnderstandIsToldInWords) {
  own_ = Answer{.body = R"({"sessions":1})"};
  make();
  ask("set");
  say(0, "knows no command 'set'", true);
  say(1, R"({"sessions":2})");
  EXPECT_TRUE(answer_->is_refusal);
  EXPECT_THAT(answer_->body, HasSubstr("has not: knows no command 'set'"));
  ask("set");
  say(2, "[]");
  say(3, R"({"sessions":2})");
  EXPECT_TRUE(answer_->is_refusal);
  EXPECT_THAT(answer_->body, HasSubstr("no object of JSON"));
  is_unreachable_ = true;
  ask("set");
  EXPECT_THAT(answer_->body, HasSubstr("no way to it"));
}

TEST_F(HostDeskTest, AnOlderViewThatIsNotUnderstoodCostsTheOthersNothing) {
  make();
  ask("view");
  say(0, "{\"at\": 1}");
  say(1, view_of("oldest", 4));
  EXPECT_EQ(view().communicators.size(), 2u);
}

TEST_F(HostDeskTest, AnswersThatComeAfterItsEndAreDropped) {
  own_.reset();
  make();
  ask("set");
  say(0, R"({"sessions":2})");
  desk_.reset();
  own_replies_.at(0)({.body = "{}"});
  EXPECT_FALSE(answer_);
  time_.run_for(HostDesk::kCommandTime);
  EXPECT_FALSE(answer_);
}

}  // namespace
}  // namespace banyan::service
