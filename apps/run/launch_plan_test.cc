#include "apps/run/launch_plan.h"

#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using ::testing::Pair;

std::string value_of(const LaunchPlan::Rank& rank, const std::string& name) {
  for (const auto& [key, value] : rank.variables) {
    if (key == name) return value;
  }
  return "not set";
}

std::string refusal_of(const std::string& hosts) {
  return testing::error_of([&] { parse_hosts(hosts); });
}

TEST(LaunchPlan, NumbersRanksOnThisHost) {
  const LaunchPlan plan = plan_launch({.program = {"./p", "-x"}, .hosts = {}, .processes = 3, .port = 20000});
  ASSERT_EQ(plan.ranks.size(), 3u);
  EXPECT_THAT(plan.program, ElementsAre("./p", "-x"));
  EXPECT_EQ(plan.ranks[2].host, "");
  EXPECT_THAT(plan.ranks[2].variables, ElementsAre(Pair("RANK", "2"), Pair("WORLD_SIZE", "3"), Pair("LOCAL_RANK", "2"),
                                                   Pair("LOCAL_WORLD_SIZE", "3"), Pair("MASTER_ADDR", "127.0.0.1"),
                                                   Pair("MASTER_PORT", "20000")));
}

TEST(LaunchPlan, FillsHostsInTheirOrder) {
  const auto hosts = parse_hosts("me@a,b:2,c");
  const LaunchPlan all = plan_launch({.program = {"p"}, .hosts = hosts, .processes = 0, .port = 1});
  ASSERT_EQ(all.ranks.size(), 4u);
  EXPECT_EQ(all.ranks[0].host, "me@a");
  EXPECT_EQ(all.ranks[2].host, "b");
  EXPECT_EQ(value_of(all.ranks[2], "RANK"), "2");
  EXPECT_EQ(value_of(all.ranks[2], "LOCAL_RANK"), "1");
  EXPECT_EQ(value_of(all.ranks[2], "LOCAL_WORLD_SIZE"), "2");
  EXPECT_EQ(value_of(all.ranks[3], "MASTER_ADDR"), "a");
  const LaunchPlan some = plan_launch({.program = {"p"}, .hosts = hosts, .processes = 2, .port = 1});
  ASSERT_EQ(some.ranks.size(), 2u);
  EXPECT_EQ(value_of(some.ranks[1], "LOCAL_WORLD_SIZE"), "1");
  EXPECT_THROW(plan_launch({.program = {"p"}, .hosts = hosts, .processes = 5, .port = 1}), Error);
}

TEST(LaunchPlan, RefusesWhatIsNoHost) {
  EXPECT_THAT(refusal_of("a,,b"), HasSubstr("--hosts"));
  EXPECT_THAT(refusal_of("a:0"), HasSubstr("'0' is not a whole number from 1"));
  EXPECT_THAT(refusal_of("a:x"), HasSubstr("--hosts"));
  EXPECT_THAT(refusal_of(":2"), HasSubstr("is no host"));
  EXPECT_THAT(refusal_of("-oProxyCommand=evil"), HasSubstr("is no host"));
}

TEST(LaunchPlan, PutsNoSecretIntoACommand) {
  const LaunchPlan plan = plan_launch({.program = {"p"}, .hosts = parse_hosts("a"), .processes = 0, .port = 1});
  const std::string script = remote_script(plan, plan.ranks[0], {{"BANYAN_SECRET", "it's hidden"}}, "/tmp");
  EXPECT_THAT(script, HasSubstr("export BANYAN_SECRET='it'\\''s hidden'"));
  for (const std::string& word : ssh_command("a", script.size())) EXPECT_THAT(word, Not(HasSubstr("hidden")));
  EXPECT_THAT(ssh_command("a", 7), Contains("BatchMode=yes"));
}

}  // namespace
}  // namespace banyan::app
