#include <nlohmann/json.hpp>

#include "banyan/service/operate/rule_book.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using nlohmann::json;

const std::string kOld =
    R"({"version": 3, "rules": [{"name": "a", "match": {"tenant": "u/t"}, "then": {"weight": 2}}]})";
const std::string kNew = R"({"version": 4, "rules": [
    {"name": "small", "match": {"kind": "send", "bytes": "..1KiB"}, "then": {"class": "high"}},
    {"name": "a", "match": {"tenant": "u/t"}, "then": {"weight": 5, "cap": "1GB/s", "plan": "ring", "log": true}},
    {"name": "unnamed", "match": {"tenant": "u"}, "then": {}}]})";

const std::vector<RuledCommunicator> kOpen = {
    {.id = "c1", .name = "world", .tenant = "1000/t", .subject = {.tenant = "t", .user = "u"}},
    {.id = "c2", .name = "other", .tenant = "1001", .subject = {.tenant = "u"}}};

TEST(RuleAnswers, TellTheRulesInForce) {
  RuleBook book("");
  EXPECT_EQ(json::parse(rules_in_force(book)), json::parse(R"({"version": 0, "text": ""})"));
  book.replace(kOld);
  EXPECT_EQ(json::parse(rules_in_force(book)), (json{{"version", 3}, {"text", kOld}}));
}

TEST(RuleAnswers, SayWhatWouldChangeAndChangeItWhenAsked) {
  RuleBook book("");
  book.replace(kOld);
  const std::string checked = load_rules(book, {.text = kNew, .only_checks = true}, kOpen);
  EXPECT_EQ(book.rules().version(), 3u);
  json answer = json::parse(checked);
  EXPECT_EQ(answer["warnings"].size(), 1u);
  EXPECT_THAT(answer["warnings"][0].get<std::string>(), HasSubstr("rule 'unnamed' takes programs of user 'u'"));
  answer.erase("warnings");
  EXPECT_EQ(answer, json::parse(R"({"version": 4, "changes": [
      {"communicator": "c1", "name": "world", "tenant": "1000/t",
       "from": {"rule": "a", "weight": 2, "class": "normal", "log": false},
       "to": {"rule": "a", "weight": 5, "class": "normal", "cap": 1000000000, "plan": "ring", "log": true}},
      {"communicator": "c1", "name": "world", "tenant": "1000/t", "calls": {"kind": "send", "least": 0, "most": 1024},
       "from": {"rule": "a", "weight": 2, "class": "normal", "log": false},
       "to": {"rule": "small", "weight": 1, "class": "high", "log": false}},
      {"communicator": "c2", "name": "other", "tenant": "1001", "calls": {"kind": "send", "least": 0, "most": 1024},
       "from": {"rule": "default", "weight": 1, "class": "normal", "log": false},
       "to": {"rule": "small", "weight": 1, "class": "high", "log": false}}]})"));
  EXPECT_EQ(load_rules(book, {.text = kNew}, kOpen), checked);
  EXPECT_EQ(book.rules().version(), 4u);
  EXPECT_EQ(json::parse(load_rules(book, {.text = kNew}, kOpen))["changes"], json::array());
}

TEST(RuleAnswers, RefuseRulesThatAreOlderThanThoseInForceUnlessTheyMayBe) {
  RuleBook book("");
  book.replace(kNew);
  EXPECT_THAT(testing::error_of([&] { load_rules(book, {.text = kOld}, kOpen); }, ErrorCode::invalid_usage),
              HasSubstr("rules of version 4 are in force, and these are of version 3"));
  EXPECT_EQ(book.rules().version(), 4u);
  EXPECT_NO_THROW(load_rules(book, {.text = kOld, .only_checks = true}, kOpen));
  load_rules(book, {.text = kOld, .may_be_older = true}, kOpen);
  EXPECT_EQ(book.rules().version(), 3u);
  EXPECT_THAT(book.warnings(), ::testing::Contains(HasSubstr("rules of version 3 (by an operator) replace those of "
                                                             "version 4")));
}

TEST(RuleAnswers, NameADenialAndNothingBesideIt) {
  RuleBook book("");
  const std::string closed = R"({"version": 1, "rules": [{"name": "c", "match": {}, "then": {"deny": "we move"}}]})";
  const json answer = json::parse(load_rules(book, {.text = closed}, std::span(kOpen).first(1)));
  EXPECT_EQ(answer["changes"][0]["to"], json::parse(R"({"rule": "c", "deny": "we move"})"));
}

TEST(RuleAnswers, RefuseRulesWithAMistakeAndKeepTheOld) {
  RuleBook book("");
  book.replace(kOld);
  for (const bool only_checks : {true, false}) {
    EXPECT_THAT(testing::error_of([&] { load_rules(book, {.text = "{}", .only_checks = only_checks}, kOpen); },
                                  ErrorCode::invalid_input),
                HasSubstr("the new rules"));
  }
  EXPECT_EQ(book.text(), kOld);
}

}  // namespace
}  // namespace banyan::service
