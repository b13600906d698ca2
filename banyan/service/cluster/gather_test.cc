// Questions to several daemons. Time passes when the test says so.
#include "banyan/service/cluster/gather.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/service/cluster/lifetime.h"
#include "banyan/testing/simulated_network.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

class GatherTest : public ::testing::Test {
 protected:
  static constexpr milliseconds kTime{100};

  // Returns the number of the question.
  uint64_t ask(const std::set<std::string>& whom) {
    uint64_t asked = 0;
    gather_->ask(
        whom, kTime,
        [&](const std::string& each, uint64_t number) {
          asked = number;
          if (each == unreachable_) throw Error(ErrorCode::peer_lost, "no way to it");
          if (each == own_) gather_->answer(number, each, {.body = "mine"});
        },
        [this](Gather::Result result) { results_.push_back(std::move(result)); });
    return asked;
  }
  void answer(uint64_t number, const std::string& from, const std::string& body) {
    gather_->answer(number, from, {.body = body});
  }
  // "a=1 b:why", of the last question that is over.
  std::string last() const {
    if (results_.empty()) return "none is over";
    std::string words;
    for (const auto& [from, answer] : results_.back().answers) words += from + "=" + answer.body + " ";
    for (const auto& [whom, why] : results_.back().missing) words += whom + ":" + why + " ";
    return words;
  }

  testing::SimulatedTime time_;
  std::optional<Gather> gather_{std::in_place, time_};
  std::string own_, unreachable_;
  std::vector<Gather::Result> results_;
};

TEST_F(GatherTest, IsOverWhenAllHaveAnswered) {
  const uint64_t number = ask({"a", "b"});
  answer(number, "b", "2");
  EXPECT_EQ(last(), "none is over");
  answer(number, "a", "1");
  EXPECT_EQ(last(), "a=1 b=2 ");
  EXPECT_EQ(results_.back().number, number);
  time_.run_for(2 * kTime);
  EXPECT_EQ(results_.size(), 1u);
}

TEST_F(GatherTest, IsOverAtOnceWhereNobodyIsAskedOrAllAnswerAtOnce) {
  ask({});
  EXPECT_EQ(results_.size(), 1u);
  own_ = "a";
  unreachable_ = "b";
  ask({"a", "b"});
  EXPECT_EQ(last(), "a=mine b:no way to it ");
  EXPECT_EQ(results_.size(), 2u);
}

TEST_F(GatherTest, NamesThoseThatAreMissingAtTheDeadline) {
  const uint64_t number = ask({"a", "b", "c"});
  answer(number, "b", "2");
  time_.run_for(kTime - milliseconds(1));
  EXPECT_EQ(last(), "none is over");
  time_.run_for(milliseconds(1));
  EXPECT_EQ(last(), "b=2 a: c: ");
  answer(number, "a", "too late");
  EXPECT_EQ(results_.size(), 1u);
}

TEST_F(GatherTest, CountsAnAnswerOnceAndNoneOfStrangers) {
  const uint64_t number = ask({"a", "b"});
  answer(number, "stranger", "0");
  answer(number, "a", "first");
  answer(number, "a", "second");
  answer(number + 1, "b", "to another question");
  EXPECT_EQ(last(), "none is over");
  answer(number, "b", "2");
  EXPECT_EQ(last(), "a=first b=2 ");
}

TEST_F(GatherTest, KeepsQuestionsApart) {
  const uint64_t first = ask({"a"});
  const uint64_t second = ask({"a"});
  EXPECT_NE(first, second);
  answer(second, "a", "2");
  EXPECT_EQ(results_.back().number, second);
  answer(first, "a", "1");
  EXPECT_EQ(results_.back().number, first);
  EXPECT_EQ(last(), "a=1 ");
}

TEST_F(GatherTest, NoQuestionWaitsForOneThatHasLeft) {
  const uint64_t first = ask({"a", "b"});
  ask({"a"});
  gather_->leave("a", "it has ended");
  EXPECT_EQ(last(), "a:it has ended ");
  EXPECT_EQ(results_.size(), 1u);
  answer(first, "b", "2");
  EXPECT_EQ(last(), "b=2 a:it has ended ");
}

TEST_F(GatherTest, WhoIsToldMayAskAgain) {
  std::vector<std::string> seen;
  const auto ask_own = [](const std::string&, uint64_t) {};
  gather_->ask({"a"}, kTime, ask_own, [&](const Gather::Result&) {
    seen.emplace_back("first");
    gather_->ask({"b"}, kTime, ask_own, [&](const Gather::Result&) { seen.emplace_back("second"); });
  });
  time_.run_for(2 * kTime);
  EXPECT_THAT(seen, ElementsAre("first", "second"));
}

TEST_F(GatherTest, TellsNobodyAfterItsEnd) {
  ask({"a"});
  gather_.reset();
  time_.run_for(2 * kTime);
  EXPECT_EQ(last(), "none is over");
}

TEST(Lifetime, CallsNothingAfterTheEndOfItsOwner) {
  auto lifetime = std::make_unique<Lifetime>();
  std::vector<int> called;
  const std::function<void(int)> guarded = lifetime->guard([&](int value) { called.push_back(value); });
  guarded(1);
  lifetime.reset();
  guarded(2);
  EXPECT_THAT(called, ElementsAre(1));
}

}  // namespace
}  // namespace banyan::service
