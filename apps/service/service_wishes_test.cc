#include "apps/service/service_wishes.h"

#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

const Terminal kNoColour({});

OperatorAnswers answers(std::vector<std::pair<std::string, Json>> said) {
  OperatorAnswers all;
  for (auto& [name, answer] : said) {
    const std::string error = answer.value("error", "");
    all.hosts.push_back({.name = name, .error = error, .said = std::move(answer)});
  }
  return all;
}

TEST(ShareWish, SaysWhatIsGivenAndNothingElse) {
  const ShareWish wish{.tenant = "vgg", .weight = "4", .share_class = "high", .cap = "8 Gb/s"};
  EXPECT_EQ(wish.body().dump(), R"({"tenant":"vgg","weight":4,"class":"high","cap":"1 GB/s"})");
  EXPECT_EQ(wish.in_words(), "weight 4, class high, cap 1 GB/s, until the daemons end");
  EXPECT_EQ((ShareWish{.tenant = "vgg", .cap = "none"}).body().dump(), R"({"tenant":"vgg","cap":"none"})");
  EXPECT_EQ((ShareWish{.tenant = "vgg", .reset = true}).body().dump(), R"({"tenant":"vgg","reset":true})");
}

TEST(ShareWish, NamesTheOptionThatIsWrong) {
  EXPECT_THAT(testing::error_of([] { (ShareWish{.tenant = "t", .weight = "0"}).body(); }), StartsWith("--weight"));
  EXPECT_THAT(testing::error_of([] { (ShareWish{.tenant = "t", .weight = "1001"}).body(); }), StartsWith("--weight"));
  EXPECT_THAT(testing::error_of([] { (ShareWish{.tenant = "t", .share_class = "urgent"}).body(); }),
              StartsWith("--class"));
  EXPECT_THAT(testing::error_of([] { (ShareWish{.tenant = "t", .cap = "9"}).body(); }), StartsWith("--cap"));
  EXPECT_THAT(testing::error_of([] { (ShareWish{.tenant = "t"}).body(); }), HasSubstr("what is to be set?"));
}

TEST(PlanWish, SaysWhatIsGivenAndNothingElse) {
  const PlanWish wish{.communicator = "job*",
                      .avoid = {"a-sw", "b-sw"},
                      .restore = {"c-sw"},
                      .bandwidths = {"d=e=100Mb/s"},
                      .plan = "{}"};
  EXPECT_EQ(
      wish.body().dump(),
      R"({"communicator":"job*","avoid":["a-sw","b-sw"],"restore":["c-sw"],"bandwidth":{"d=e":"12.5 MB/s"},"plan":"{}"})");
}

TEST(PlanWish, NamesTheOptionThatIsWrong) {
  for (const char* const wrong : {"a-sw", "=1GB/s", "a-sw=", "a-sw=fast"}) {
    EXPECT_THAT(testing::error_of([&] { (PlanWish{.communicator = "j", .bandwidths = {wrong}}).body(); }),
                StartsWith("--bandwidth"));
  }
  EXPECT_THAT(testing::error_of([] { (PlanWish{.communicator = "j"}).body(); }), HasSubstr("what is to change?"));
}

TEST(Answers, AreShownByHost) {
  OperatorAnswers all = answers({{"a", {{"sessions", 3u}}}, {"b", {{"error", "no\nroom"}}}});
  all.unreachable = {{.host = "c", .why = "it has not answered"}};
  EXPECT_FALSE(all.is_good());
  EXPECT_EQ(answers_text(kNoColour, all, [](const Json& said) { return said["sessions"].dump() + " sessions"; }),
            "a          3 sessions\nb          refuses it: no?room\nc          unreachable: it has not answered\n");
  EXPECT_EQ(sum_of(all, "sessions"), 3u);
  EXPECT_TRUE(answers({{"a", Json::object()}}).is_good());
}

TEST(ReplanOutcomes, SayWhoKeepsItsPlansAndWhy) {
  const std::vector<ReplanOutcome> outcomes = outcomes_of(answers(
      {{"a", Json::parse(R"({"communicators":[{"id":"7f","name":"job17","generation":2,"refusal":""}]})")},
       {"b",
        Json::parse(R"({"communicators":[{"id":"9e","name":"serve","generation":1,"refusal":"no way round"}, 7]})")},
       {"c", Json::parse(R"({"communicators":"?"})")}}));
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes_text(kNoColour, outcomes),
            "communicator  id  plans  outcome\n"
            "job17         7f      2  goes by new plans\n"
            "serve         9e      1  keeps its plans: no way round\n");
  EXPECT_EQ(outcomes_text(kNoColour, {}), "");
}

TEST(RulesChanges, StandThereOnceForCommunicatorsOfSeveralHosts) {
  const Json change = Json::parse(R"({"communicator": "7f", "name": "job17", "tenant": "vgg",
    "from": {"rule": "default", "weight": 1, "class": "normal", "log": false},
    "to": {"rule": "batch", "weight": 4, "class": "low", "cap": 1000000000, "log": true}})");
  const Json denied = Json::parse(R"({"communicator": "9e", "name": "serve", "tenant": "gpt",
    "from": {"rule": "default", "weight": 1, "class": "normal", "cap": null, "log": false},
    "to": {"rule": "nobody else", "deny": "not here", "weight": 1, "class": "normal", "log": false}})");
  const OperatorAnswers all = answers({{"a", {{"changes", {change, denied}}}}, {"b", {{"changes", {change}}}}});
  EXPECT_EQ(
      changes_text(kNoColour, all),
      "communicator  id  tenant  now                                      then\n"
      "job17         7f  vgg     weight 1, class normal (rule 'default')  weight 4, class low, cap 1.00 GB/s, "
      "logged (rule 'batch')\n"
      "serve         9e  gpt     weight 1, class normal (rule 'default')  refused: not here (rule 'nobody else')\n");
  EXPECT_EQ(changes_text(kNoColour, answers({{"a", {{"changes", Json::array()}}}})),
            "nothing changes for the communicators that are open\n");
}

}  // namespace
}  // namespace banyan::app
