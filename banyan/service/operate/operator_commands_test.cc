#include "banyan/service/operate/operator_commands.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

std::string refusal(const std::function<void()>& read) {
  return testing::error_of([&] { read(); }, ErrorCode::invalid_input);
}

TEST(OperatorCommands, AnUpgradeMayNameAProgram) {
  EXPECT_NO_THROW(check_upgrade_command("{}"));
  EXPECT_NO_THROW(check_upgrade_command(R"({"hosts": ["a"]})"));
  EXPECT_THROW(check_upgrade_command(R"({"binary": "/x/banyand"})"), Error);
}

TEST(OperatorCommands, SetSaysWhatChangesAndLeavesTheRestToTheRules) {
  const SetCommand command =
      read_set_command(R"({"tenant": "0/t", "weight": 4, "class": "high", "cap": "2GB/s", "hosts": ["a"]})");
  EXPECT_EQ(command.tenant, "0/t");
  Grant grant{.weight = 7, .logs = true, .rule = "r"};
  command.change.apply(grant);
  EXPECT_EQ(grant, (Grant{.weight = 4,
                          .share_class = ShareClass::high,
                          .cap = 2'000'000'000,
                          .logs = true,
                          .has_own_share = true,
                          .rule = "r"}));
  read_set_command(R"({"tenant": "0/t", "cap": "none"})").change.apply(grant);
  EXPECT_EQ(grant.cap, std::nullopt);
  EXPECT_EQ(grant.weight, 4u);
  EXPECT_TRUE(read_set_command(R"({"tenant": "0/t", "reset": true})").resets);
}

TEST(OperatorCommands, SetIsRefusedNamingTheField) {
  const auto said = [](const std::string& json) { return refusal([&] { read_set_command(json); }); };
  EXPECT_THAT(said(R"({"weight": 4})"), HasSubstr("tenant"));
  EXPECT_THAT(said(R"({"tenant": "t"})"), HasSubstr("neither weight, class, cap nor reset"));
  EXPECT_THAT(said(R"({"tenant": "t", "reset": true, "weight": 2})"), HasSubstr("resets, and says something new"));
  EXPECT_THAT(said(R"({"tenant": "t", "weight": 0})"), HasSubstr("weight"));
  EXPECT_THAT(said(R"({"tenant": "t", "class": "hgih"})"), HasSubstr("did you mean 'high'?"));
  EXPECT_THAT(said(R"({"tenant": "t", "cap": 7})"), HasSubstr("cap"));
  EXPECT_THAT(said(R"({"tenant": "t", "wieght": 7})"), HasSubstr("did you mean 'weight'?"));
  EXPECT_THAT(said("nonsense"), HasSubstr("is not JSON"));
}

TEST(OperatorCommands, ReplanSaysWhichLinksAreAvoidedRestoredAndChanged) {
  const ReplanCommand command = read_replan_command(
      R"({"communicator": "job*", "avoid": ["a-b", "c->d"], "restore": ["e-f"], "bandwidth": {"g-h": "1Gb/s"}})");
  EXPECT_EQ(command.communicator, "job*");
  EXPECT_THAT(command.avoid, ElementsAre("a-b", "c->d"));
  EXPECT_THAT(command.restore, ElementsAre("e-f"));
  EXPECT_EQ(command.bandwidth.at("g-h"), 125'000'000u);
  EXPECT_THAT(command.plan, IsEmpty());
  const auto said = [](const std::string& json) { return refusal([&] { read_replan_command(json); }); };
  EXPECT_THAT(said(R"({"communicator": "x"})"), HasSubstr("neither avoid, restore, bandwidth nor plan"));
  EXPECT_THAT(said(R"({"communicator": "", "avoid": ["a-b"]})"), HasSubstr("communicator is empty"));
  EXPECT_THAT(said(R"({"communicator": "x", "avoid": "a-b"})"), HasSubstr("avoid"));
  EXPECT_THAT(said(R"({"communicator": "x", "bandwidth": {"a-b": "fast"}})"), HasSubstr("bandwidth"));
}

TEST(OperatorCommands, WhatTheServiceDoesAloneIsReadAsItIsWritten) {
  const LoneReplanCommand command{.communicator = "*", .rates = {{"a->b", 2'400'000}, {"b->c", std::nullopt}}};
  const LoneReplanCommand read = read_lone_replan_command(command.encode());
  EXPECT_EQ(read.communicator, "*");
  EXPECT_EQ(read.rates, command.rates);
  EXPECT_THAT(refusal([] { read_lone_replan_command(R"({"communicator": "*", "rates": {"a->b": "fast"}})"); }),
              HasSubstr("a->b"));
}

TEST(OperatorCommands, MayBeForSomeHosts) {
  EXPECT_THAT(hosts_of_command(R"({"drain": true, "hosts": ["a", "b"]})"), ElementsAre("a", "b"));
  EXPECT_THAT(hosts_of_command(R"({"drain": true})"), IsEmpty());
  EXPECT_TRUE(read_drain_command(R"({"drain": true, "hosts": ["a", "b"]})"));
  EXPECT_FALSE(read_drain_command(R"({"drain": false})"));
  EXPECT_THAT(refusal([] { read_drain_command(R"({"drain": 1})"); }), HasSubstr("drain"));
  const RulesCommand rules = read_rules_command(R"({"text": "{}", "check": true})");
  EXPECT_EQ(rules.text, "{}");
  EXPECT_TRUE(rules.only_checks);
}

}  // namespace
}  // namespace banyan::service
