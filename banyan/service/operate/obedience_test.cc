#include "banyan/service/operate/obedience.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

constexpr const char* kSet = R"({"tenant": "t", "weight": 2})";

Obedience obeying(std::vector<std::string> hosts, bool may_replan_alone = false) {
  return Obedience({.own = "id-own",
                    .hosts = std::move(hosts),
                    .name_of = [](const std::string& host) { return host == "id-new" ? "" : host.substr(3); },
                    .is_where_its_card_says = [](const DaemonName& daemon) { return daemon.incarnation != 8; },
                    .may_replan_alone = [may_replan_alone](const std::string&) { return may_replan_alone; }});
}

std::string why(const Obedience& obedience, const std::string& host, const std::string& command,
                const std::string& body = "{}") {
  return obedience.refusal({.host = host, .incarnation = 7}, command, body).value_or("");
}

TEST(Obedience, IsForNoOtherHostUnlessItIsNamed) {
  for (const char* const command : {"set", "drain", "replan", "upgrade", "load rules", "what comes later"}) {
    EXPECT_THAT(why(obeying({}), "id-head", command, kSet), HasSubstr("start it with --obey head")) << command;
    EXPECT_THAT(why(obeying({"ops"}), "id-head", command, kSet), HasSubstr("no daemon of host 'head'")) << command;
    EXPECT_EQ(why(obeying({"ops", "head"}), "id-head", command, kSet), "") << command;
  }
  EXPECT_EQ(why(obeying({"id-head"}), "id-head", "set"), "");
  EXPECT_EQ(why(obeying({"he*"}), "id-head", "set"), "");
  EXPECT_NE(why(obeying({"*"}), "id-new", "set"), "") << "whose card is not known";
  EXPECT_THROW(obeying({"a", ""}), Error);
}

TEST(Obedience, IsForNoneWhoCallsFromElsewhere) {
  const Obedience obedience = obeying({"head"});
  const DaemonName impostor{.host = "id-head", .incarnation = 8};
  EXPECT_THAT(obedience.refusal(impostor, "set", kSet).value_or(""), HasSubstr("not on the card of host 'head'"));
  EXPECT_EQ(obedience.refusal(impostor, "view", "{}"), std::nullopt);
}

TEST(Obedience, IsNotAskedForByThoseWhoLook) {
  for (const char* const command : {"view", "rules"}) EXPECT_EQ(why(obeying({}), "id-head", command), "");
  EXPECT_EQ(why(obeying({}), "id-head", "load rules", R"({"text": "{}", "check": true})"), "");
  EXPECT_NE(why(obeying({}), "id-head", "load rules", R"({"text": "{}", "check": false})"), "");
  EXPECT_NE(why(obeying({}), "id-head", "load rules", "nonsense"), "");
}

// Whoever has the secret can call as another daemon of this host.
TEST(Obedience, IsForNewerDaemonsOfThisHostThatTheirElderKnows) {
  Obedience obedience = obeying({"own", "*"});
  EXPECT_NE(why(obedience, "id-own", "set"), "");
  obedience.follow(7);
  EXPECT_EQ(why(obedience, "id-own", "set"), "");
  EXPECT_NE(why(obeying({}), "id-head", "set"), "");
}

TEST(Obedience, IsForTheStewardWhereRulesLetTheServiceActAlone) {
  EXPECT_NE(why(obeying({}), "id-head", "replan alone"), "");
  EXPECT_EQ(why(obeying({}, true), "id-head", "replan alone"), "");
  EXPECT_NE(why(obeying({}, true), "id-head", "replan"), "");
}

}  // namespace
}  // namespace banyan::service
