#include "banyan/service/share/rules.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::OperationKind;

// A table of one rule for each pair of a match and what is then granted, named "rule 0" and so on.
std::string table(std::initializer_list<std::pair<std::string, std::string>> rules) {
  std::string text;
  size_t number = 0;
  for (const auto& [match, then] : rules) {
    text += (number == 0 ? "" : ",\n") + std::string("{\"name\": \"rule ") + std::to_string(number) + "\", ";
    text += "\"match\": {" + match + "}, \"then\": {" + then + "}}";
    ++number;
  }
  return "{\"version\": 1, \"rules\": [" + text + "]}";
}

Rules rules_of(std::initializer_list<std::pair<std::string, std::string>> rules) {
  return Rules::parse(table(rules), "rules.json");
}

const Subject kAlice{.tenant = "search",
                     .user = "alice",
                     .cgroup = "/slurm/job_7",
                     .communicator = "serve-3",
                     .user_id = 1000,
                     .hosts = {"node1", "node2"}};

bool takes(const std::string& match, const Subject& subject = kAlice) {
  return rules_of({{match, ""}}).grant(subject).rule == "rule 0";
}
bool takes_call(const std::string& match, OperationKind kind, uint64_t bytes) {
  return rules_of({{match, ""}}).grant(kAlice, {.kind = kind, .bytes = bytes}).rule == "rule 0";
}
Grant granted(const std::string& then) { return rules_of({{"", then}}).grant(kAlice); }

TEST(Rules, LetTheServicePlanAroundSlowLinksOnlyWhereTheySaySo) {
  EXPECT_FALSE(Rules().replans_alone());
  EXPECT_FALSE(Rules::parse(R"({"version": 1, "rules": []})", "rules.json").replans_alone());
  EXPECT_FALSE(Rules::parse(R"({"version": 1, "on_slow_link": "tell", "rules": []})", "rules.json").replans_alone());
  EXPECT_TRUE(Rules::parse(R"({"version": 1, "on_slow_link": "replan", "rules": []})", "rules.json").replans_alone());
  EXPECT_THAT(
      testing::error_of([] { Rules::parse(R"({"version": 1, "on_slow_link": "relpan", "rules": []})", "rules.json"); },
                        ErrorCode::invalid_input),
      HasSubstr("did you mean 'replan'?"));
}

TEST(Rules, ThatNameATenantGiveItAShareOfItsOwn) {
  EXPECT_FALSE(Grant().has_own_share);
  EXPECT_FALSE(rules_of({{"", ""}}).grant(kAlice).has_own_share);
  EXPECT_TRUE(rules_of({{R"("tenant": "alice/search")", ""}}).grant(kAlice).has_own_share);
  // Who chooses its names would have as many shares as names.
  EXPECT_FALSE(rules_of({{R"("tenant": "alice/sear*")", ""}}).grant(kAlice).has_own_share);
  EXPECT_FALSE(rules_of({{R"("tenant": "alice/searc?")", ""}}).grant(kAlice).has_own_share);
  EXPECT_FALSE(rules_of({{R"("user": "alice")", ""}}).grant(kAlice).has_own_share);
}

// ---- What is matched ----

TEST(Rules, WithoutAFileEverythingIsGranted) {
  const Rules rules;
  EXPECT_EQ(rules.grant(kAlice), Grant());
  EXPECT_EQ(Grant().rule, "default");
  EXPECT_FALSE(rules.looks_at_calls());
  EXPECT_EQ(rules.version(), 0u);
  EXPECT_EQ(rules.size(), 0u);
}

TEST(Rules, ReadsTheExampleOfTheHeader) {
  const Rules rules = Rules::parse(R"(
    { "version": 7,
      "rules": [
        { "name": "interactive",
          "match": { "user": "alice", "communicator": "serve-*", "bytes": "..1MiB" },
          "then":  { "class": "high", "weight": 4 } },
        { "name": "batch", "match": { "cgroup": "/slurm/*" }, "then": { "weight": 1, "cap": "10GB/s", "log": true } },
        { "name": "nobody else", "match": {}, "then": { "deny": "this cluster is for alice" } } ] })",
                                   "rules.json");
  EXPECT_EQ(rules.version(), 7u);
  EXPECT_EQ(rules.size(), 3u);
  EXPECT_TRUE(rules.looks_at_calls());
  const Grant small = rules.grant(kAlice, {.kind = OperationKind::broadcast, .bytes = 1 << 20});
  EXPECT_EQ(small, (Grant{.weight = 4, .share_class = ShareClass::high, .rule = "interactive"}));
  // The first rule looks at calls, so it says nothing about the communicator; nor does it take large calls.
  const Grant batch{.cap = 10'000'000'000, .logs = true, .rule = "batch"};
  EXPECT_EQ(rules.grant(kAlice), batch);
  EXPECT_EQ(rules.grant(kAlice, {.kind = OperationKind::broadcast, .bytes = (1 << 20) + 1}), batch);
  EXPECT_EQ(rules.grant({.user = "bob"}), (Grant{.denial = "this cluster is for alice", .rule = "nobody else"}));
}

TEST(Rules, TheFirstThatMatchesDecides) {
  const Rules rules = rules_of({{R"("user": "bob")", R"("weight": 2)"},
                                {R"("user": "alice")", R"("weight": 3)"},
                                {R"("user": "a*")", R"("weight": 4)"}});
  EXPECT_EQ(rules.grant(kAlice).weight, 3u);
  EXPECT_EQ(rules.grant(kAlice).rule, "rule 1");
  EXPECT_EQ(rules.grant({.user = "anna"}).weight, 4u);
  EXPECT_EQ(rules.grant({.user = "zoe"}), Grant());
}

TEST(Rules, ARuleThatDoesNotLookAtCallsTakesTheCallsOfWhatItMatches) {
  const Rules rules =
      rules_of({{R"("tenant": "alice/search")", R"("weight": 2)"}, {R"("kind": "broadcast")", R"("weight": 3)"}});
  EXPECT_EQ(rules.grant(kAlice, {.kind = OperationKind::broadcast}).weight, 2u);
  EXPECT_EQ(rules.grant({}, {.kind = OperationKind::broadcast}).weight, 3u);
  EXPECT_EQ(rules.grant({}, {.kind = OperationKind::all_reduce}), Grant());
  EXPECT_EQ(rules.grant(Subject{}), Grant());
}

TEST(Rules, MatchesEachFieldOfWhoAsks) {
  EXPECT_TRUE(takes(""));
  EXPECT_TRUE(takes(R"("tenant": "alice/search")"));
  EXPECT_FALSE(takes(R"("tenant": "alice/Search")"));
  EXPECT_TRUE(takes(R"("user": "alice")"));
  EXPECT_FALSE(takes(R"("user": "bob")"));
  EXPECT_TRUE(takes(R"("cgroup": "/slurm/*")"));
  EXPECT_FALSE(takes(R"("cgroup": "/user.slice/*")"));
  EXPECT_TRUE(takes(R"("communicator": "serve-?")"));
  EXPECT_FALSE(takes(R"("communicator": "serve-??")"));
  // All that is named must match.
  EXPECT_TRUE(takes(R"("tenant": "alice/search", "user": "alice", "cgroup": "*", "communicator": "serve-3")"));
  EXPECT_FALSE(takes(R"("tenant": "alice/search", "user": "alice", "cgroup": "*", "communicator": "train-3")"));
}

TEST(Rules, AUserIsANameOrANumber) {
  EXPECT_TRUE(takes(R"("user": 1000)"));
  EXPECT_TRUE(takes(R"("user": "1000")"));
  EXPECT_FALSE(takes(R"("user": 1001)"));
  EXPECT_TRUE(takes(R"("user": 4294967295)", {.user_id = 4294967295}));
  // Whoever calls itself by a number is not that number, and patterns are for names.
  EXPECT_FALSE(takes(R"("user": "1000")", {.user = "1000", .user_id = 7}));
  EXPECT_FALSE(takes(R"("user": "10*")"));
}

TEST(Rules, AllHostsMustBeAmongThoseOfTheRule) {
  EXPECT_TRUE(takes(R"("hosts": ["node2", "node3", "node1"])"));
  EXPECT_TRUE(takes(R"("hosts": ["node?"])"));
  EXPECT_FALSE(takes(R"("hosts": ["node1"])"));
  EXPECT_FALSE(takes(R"("hosts": ["*"])", {.user = "alice"}));  // whose hosts nobody knows
}

TEST(Rules, MatchesKindsOfCalls) {
  EXPECT_TRUE(takes_call(R"("kind": "allreduce")", OperationKind::all_reduce, 0));
  EXPECT_FALSE(takes_call(R"("kind": "allreduce")", OperationKind::reduce, 0));
  EXPECT_TRUE(takes_call(R"("kind": ["broadcast", "all-to-allv"])", OperationKind::all_to_all_v, 0));
  EXPECT_FALSE(takes_call(R"("kind": ["broadcast", "all-to-allv"])", OperationKind::all_to_all, 0));
  for (size_t i = 0; i < run::kOperationKinds; ++i) {
    const auto kind = static_cast<OperationKind>(i);
    EXPECT_TRUE(takes_call("\"kind\": \"" + std::string(to_string(kind)) + "\"", kind, 0)) << i;
  }
}

TEST(Rules, MatchesRangesOfBytesWithBothEnds) {
  struct {
    const char* range;
    uint64_t least, most;
  } const kRanges[] = {
      {"64KiB", 65536, 65536},          {"0", 0, 0},
      {"..1MiB", 0, 1048576},           {"1MiB..", 1048576, UINT64_MAX},
      {"1MiB..2MiB", 1048576, 2097152}, {"1.5 KiB .. 2 KiB", 1536, 2048},
      {"0..", 0, UINT64_MAX},
  };
  for (const auto& [range, least, most] : kRanges) {
    SCOPED_TRACE(range);
    const std::string match = "\"bytes\": \"" + std::string(range) + "\"";
    EXPECT_TRUE(takes_call(match, OperationKind::send, least));
    EXPECT_TRUE(takes_call(match, OperationKind::send, most));
    if (least > 0) {
      EXPECT_FALSE(takes_call(match, OperationKind::send, least - 1));
    }
    if (most < UINT64_MAX) {
      EXPECT_FALSE(takes_call(match, OperationKind::send, most + 1));
    }
  }
}

TEST(Rules, LooksAtCallsWhereAnyRuleNamesKindOrBytes) {
  EXPECT_FALSE(rules_of({}).looks_at_calls());
  EXPECT_FALSE(rules_of({{R"("user": "a", "hosts": ["b"])", ""}, {"", ""}}).looks_at_calls());
  EXPECT_TRUE(rules_of({{"", ""}, {R"("kind": "send")", ""}}).looks_at_calls());
  EXPECT_TRUE(rules_of({{R"("bytes": "..1MiB")", ""}}).looks_at_calls());
  EXPECT_TRUE(rules_of({{R"("bytes": "1B..")", ""}}).looks_at_calls());
}

// By the definition of * and ?, one choice after the other.
bool is_like(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') return is_like(pattern.substr(1), text) || (!text.empty() && is_like(pattern, text.substr(1)));
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) && is_like(pattern.substr(1), text.substr(1));
}

TEST(Rules, StarsAndQuestionMarksAreThoseOfTheDefinition) {
  std::mt19937 random(1);
  const auto word = [&](const std::string& letters, size_t most) {
    std::string text(1 + random() % most, ' ');
    for (char& c : text) c = letters[random() % letters.size()];
    return text;
  };
  int liked = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string pattern = word("ab**?", 7), text = word("ab*", 8);
    SCOPED_TRACE(pattern + " on " + text);
    const bool expected = is_like(pattern, text);
    ASSERT_EQ(takes("\"communicator\": \"" + pattern + "\"", {.communicator = text}), expected);
    liked += expected ? 1 : 0;
  }
  EXPECT_GT(liked, 300);
  EXPECT_LT(liked, 2700);
}

TEST(Rules, AQuestionMarkIsOneCharacterNotOneByte) {
  EXPECT_TRUE(takes(R"("communicator": "gr?n")", {.communicator = "grün"}));
  EXPECT_FALSE(takes(R"("communicator": "gr??n")", {.communicator = "grün"}));
  EXPECT_FALSE(takes(R"("communicator": "*gr*??n")", {.communicator = "grün"}));
  EXPECT_TRUE(takes(R"("communicator": "*?")", {.communicator = "ü"}));
  EXPECT_FALSE(takes(R"("communicator": "*??")", {.communicator = "ü"}));
}

TEST(Rules, ManyStarsTakeNoTime) {
  std::string stars;
  for (int i = 0; i < 1000; ++i) stars += "*a";
  EXPECT_FALSE(takes("\"communicator\": \"" + stars + "b\"", {.communicator = std::string(4000, 'a')}));
  EXPECT_TRUE(takes("\"communicator\": \"" + stars + "\"", {.communicator = std::string(4000, 'a')}));
}

// ---- What is granted ----

TEST(Rules, GrantsEachField) {
  EXPECT_EQ(granted(""), (Grant{.rule = "rule 0"}));
  EXPECT_EQ(granted(R"("deny": "not today")"), (Grant{.denial = "not today", .rule = "rule 0"}));
  EXPECT_EQ(granted(R"("weight": 1000)"), (Grant{.weight = 1000, .rule = "rule 0"}));
  EXPECT_EQ(granted(R"("class": "high")"), (Grant{.share_class = ShareClass::high, .rule = "rule 0"}));
  EXPECT_EQ(granted(R"("class": "normal")"), (Grant{.share_class = ShareClass::normal, .rule = "rule 0"}));
  EXPECT_EQ(granted(R"("class": "low")"), (Grant{.share_class = ShareClass::low, .rule = "rule 0"}));
  EXPECT_EQ(granted(R"("cap": "100 Gb/s")"), (Grant{.cap = 12'500'000'000, .rule = "rule 0"}));
  EXPECT_EQ(granted(R"("plan": "forest")"), (Grant{.plan = "forest", .rule = "rule 0"}));
  EXPECT_EQ(granted(R"("log": true)"), (Grant{.logs = true, .rule = "rule 0"}));
  EXPECT_EQ(granted(R"("weight": 2, "class": "low", "cap": "1GB/s", "plan": "ring", "log": true)"),
            (Grant{.weight = 2,
                   .share_class = ShareClass::low,
                   .cap = 1'000'000'000,
                   .plan = "ring",
                   .logs = true,
                   .rule = "rule 0"}));
}

// ---- What is refused ----

std::string refusal(const std::string& text, std::span<const std::string_view> plans = {}) {
  return testing::error_of([&] { Rules::parse(text, "rules.json", plans); }, ErrorCode::invalid_input);
}
// Of the second of two rules, on the second line; without what every one says.
std::string refusal_of(const std::string& match, const std::string& then,
                       std::span<const std::string_view> plans = {}) {
  const std::string begin = "rules.json line 2: rule 'rule 1': rules[1]";
  const std::string text = refusal(table({{"", ""}, {match, then}}), plans);
  return text.starts_with(begin) ? text.substr(begin.size()) : "does not say where: " + text;
}
std::string refused_match(const std::string& match) { return refusal_of(match, ""); }
std::string refused_grant(const std::string& then) { return refusal_of("", then); }

TEST(Rules, RefusesWhatIsNoTable) {
  EXPECT_EQ(refusal(""), "rules.json: is empty, not JSON");
  EXPECT_THAT(refusal("{\n\"version\": 1,\n\"rules\" []}"), HasSubstr("line 3"));
  EXPECT_THAT(refusal("[]"), HasSubstr("the table of rules is not an object"));
  EXPECT_THAT(refusal("{\"rules\": []}"), HasSubstr("the table of rules has no \"version\""));
  EXPECT_THAT(refusal("{\"version\": 1}"), HasSubstr("the table of rules has no \"rules\""));
  EXPECT_THAT(refusal("{\"version\": 0, \"rules\": []}"),
              HasSubstr("version is not a whole number, 1 or above: it is 0"));
  EXPECT_THAT(refusal("{\"version\": \"1\", \"rules\": []}"), HasSubstr("version is not a whole number"));
  EXPECT_THAT(refusal("{\"version\": 1, \"rule\": []}"), HasSubstr("unknown key 'rule' (did you mean 'rules'?)"));
  EXPECT_THAT(refusal("{\"version\": 1, \"rules\": {}}"), HasSubstr("rules is not an array"));
  EXPECT_THAT(refusal("{\"version\": 1, \"version\": 2, \"rules\": []}"), HasSubstr("has key 'version' twice"));
  EXPECT_THAT(refusal(std::string(17 << 20, ' ')), HasSubstr("larger than 16 MiB"));
  std::string many = "{\"version\": 1, \"rules\": [0";
  for (int i = 0; i < 10'000; ++i) many += ",0";
  EXPECT_THAT(refusal(many + "]}"), HasSubstr("rules has 10001 rules; give at most 10000"));
}

TEST(Rules, RefusesRulesWithoutANameOfTheirOwn) {
  const auto named = [](const std::string& first, const std::string& second) {
    return refusal("{\"version\": 1, \"rules\": [{" + first + "\"match\": {}, \"then\": {}},\n{" + second +
                   "\"match\": {}, \"then\": {}}]}");
  };
  EXPECT_EQ(named("\"name\": \"a\", ", "\"name\": \"b\", "), "no error");
  EXPECT_EQ(named("\"name\": \"a\", ", ""), "rules.json line 2: rules[1] has no \"name\"");
  EXPECT_EQ(named("\"name\": \"a\", ", "\"name\": \"a\", "),
            "rules.json line 2: rules[1].name is 'a', as another rule is; choose another");
  EXPECT_THAT(named("\"name\": \"default\", ", ""), HasSubstr("rules[0].name is 'default', as is reported where no"));
  EXPECT_THAT(named("\"name\": \"\", ", ""), HasSubstr("rules[0].name is empty"));
  EXPECT_THAT(named("\"name\": 7, ", ""), HasSubstr("rules[0].name is not a text: it is 7"));
  EXPECT_THAT(named("\"name\": \"" + std::string(201, 'a') + "\", ", ""), HasSubstr("is longer than 200 bytes"));
}

TEST(Rules, RefusesRulesThatLackAPart) {
  const auto rule = [](const std::string& rest) {
    return refusal("{\"version\": 1, \"rules\": [{\"name\": \"a\"" + rest + "}]}");
  };
  EXPECT_EQ(rule(", \"match\": {}"), "rules.json line 1: rule 'a': rules[0] has no \"then\"");
  EXPECT_EQ(rule(", \"then\": {}"), "rules.json line 1: rule 'a': rules[0] has no \"match\"");
  EXPECT_THAT(rule(", \"math\": {}"), HasSubstr("rule 'a': rules[0] has unknown key 'math' (did you mean 'match'?)"));
  EXPECT_THAT(rule(", \"match\": [], \"then\": {}"), HasSubstr("rules[0].match is not an object"));
  EXPECT_THAT(refusal("{\"version\": 1, \"rules\": [7]}"), HasSubstr("rules[0] is not an object"));
}

TEST(Rules, RefusesUnknownNamesWithTheNearestOne) {
  EXPECT_EQ(refused_match(R"("usr": "a")"), ".match has unknown key 'usr' (did you mean 'user'?)");
  EXPECT_EQ(refused_grant(R"("wieght": 1)"), ".then has unknown key 'wieght' (did you mean 'weight'?)");
  EXPECT_EQ(refused_grant(R"("class": "hihg")"),
            ".then.class is unknown class 'hihg' (did you mean 'high'?); known are high, normal, low");
  EXPECT_EQ(refused_grant(R"("quota": "user")"), ".then.quota is unknown quota 'user'; known are cgroup");
  EXPECT_THAT(
      refused_match(R"("kind": "allreduc")"),
      StartsWith(".match.kind: unknown operation 'allreduc' (did you mean 'allreduce'?); known are allreduce, "));
  EXPECT_THAT(refused_match(R"("kind": ["reduce", "brodcast"])"),
              StartsWith(".match.kind[1]: unknown operation 'brodcast' (did you mean 'broadcast'?)"));
}

TEST(Rules, KnowsPlansWhereTheyAreGiven) {
  constexpr std::array<std::string_view, 2> kPlans = {"forest", "ring"};
  EXPECT_EQ(refusal_of("", R"("plan": "forrest")", kPlans),
            ".then.plan is unknown plan 'forrest' (did you mean 'forest'?); known are forest, ring");
  EXPECT_EQ(refusal(table({{"", R"("plan": "ring")"}}), kPlans), "no error");
  EXPECT_EQ(Rules::parse(table({{"", R"("plan": "ring")"}}), "", kPlans).grant(kAlice).plan, "ring");
  EXPECT_EQ(granted(R"("plan": "forrest")").plan, "forrest");
}

TEST(Rules, RefusesMatchesThatCannotBe) {
  for (const std::string field : {"tenant", "user", "cgroup", "communicator"}) {
    EXPECT_EQ(refused_match("\"" + field + "\": \"\""), ".match." + field + " is empty; say something or leave it out");
    EXPECT_THAT(refused_match("\"" + field + "\": true"), HasSubstr(".match." + field + " is not a "));
    EXPECT_EQ(refused_match("\"" + field + "\": \"" + std::string(4097, 'a') + "\""),
              ".match." + field + " is longer than 4096 bytes");
  }
  EXPECT_EQ(refused_match(R"("tenant": 7)"), ".match.tenant is not a text: it is 7");
  EXPECT_EQ(refused_match(R"("user": null)"), ".match.user is not a user's name or number: it is null");
  EXPECT_EQ(refused_match(R"("user": -1)"), ".match.user is not a whole number from 0 to 4294967295: it is -1");
  for (const std::string number : {"4294967296", "99999999999999999999999"}) {
    EXPECT_EQ(refused_match("\"user\": \"" + number + "\""),
              ".match.user is no user's number, which is at most 4294967295: it is \"" + number + "\"");
  }
  EXPECT_EQ(refused_match(R"("kind": [])"), ".match.kind is empty; name a kind of call, or leave it out for all");
  EXPECT_EQ(refused_match(R"("kind": 1)"), ".match.kind is not a kind of call or a list of them: it is 1");
  EXPECT_EQ(refused_match(R"("kind": ["send", "recv", "send"])"), ".match.kind[2] stands there before; keep one");
  EXPECT_EQ(refused_match(R"("hosts": [])"), ".match.hosts is empty; name a host, or leave it out for all");
  EXPECT_THAT(refused_match(R"("hosts": "node1")"), StartsWith(".match.hosts is not an array"));
  EXPECT_EQ(refused_match(R"("hosts": ["node1", 2])"), ".match.hosts[1] is not a text: it is 2");
}

TEST(Rules, RefusesBytesThatAreNoRange) {
  EXPECT_EQ(refused_match(R"("bytes": 4096)"),
            ".match.bytes is not a size or a range such as \"64KiB\", \"..1MiB\", \"1MiB..\" or \"1MiB..2MiB\": it is "
            "4096");
  for (const char* nothing : {"", "..", " .. "}) {
    EXPECT_THAT(refused_match("\"bytes\": \"" + std::string(nothing) + "\""),
                StartsWith(".match.bytes is '" + std::string(nothing) + "'; give a size or a range such as"));
  }
  EXPECT_EQ(refused_match(R"("bytes": "2MiB..1MiB")"),
            ".match.bytes is '2MiB..1MiB', whose first end is above the second; exchange them");
  EXPECT_THAT(refused_match(R"("bytes": "1Mib..")"), HasSubstr(".match.bytes: size '1Mib' has unknown unit 'Mib'"));
  EXPECT_THAT(refused_match(R"("bytes": "-1")"), HasSubstr("is negative"));
  EXPECT_THAT(refused_match(R"("bytes": "1MiB...2MiB")"), StartsWith(".match.bytes: "));
}

TEST(Rules, RefusesGrantsThatCannotBe) {
  EXPECT_EQ(refused_grant(R"("weight": 0)"), ".then.weight is not a whole number from 1 to 1000: it is 0");
  EXPECT_EQ(refused_grant(R"("weight": 1001)"), ".then.weight is not a whole number from 1 to 1000: it is 1001");
  EXPECT_THAT(refused_grant(R"("weight": 1.5)"), StartsWith(".then.weight is not a whole number from 1 to 1000"));
  EXPECT_EQ(refused_grant(R"("deny": "")"), ".then.deny is empty; say something or leave it out");
  EXPECT_EQ(refused_grant(R"("deny": true)"), ".then.deny is not a text: it is true");
  EXPECT_EQ(refused_grant(R"("deny": "no", "weight": 2)"),
            ".then.weight says nothing beside \"deny\"; remove one of them");
  EXPECT_THAT(refused_grant(R"("cap": 10)"), StartsWith(".then.cap is not a text with a unit such as"));
  EXPECT_THAT(refused_grant(R"("cap": "10GB")"), StartsWith(".then.cap: "));
  EXPECT_THAT(refused_grant(R"("cap": "0 GB/s")"), StartsWith(".then.cap: "));
  EXPECT_EQ(refused_grant(R"("plan": "")"), ".then.plan is empty; say something or leave it out");
  EXPECT_EQ(refused_grant(R"("class": 1)"), ".then.class is not a text: it is 1");
  for (const char* const without_effect : {R"("transport": "tcp")", R"("compression": true)"}) {
    EXPECT_THAT(refused_grant(without_effect), HasSubstr("means nothing to the service"));
  }
  EXPECT_EQ(refused_grant(R"("log": 1)"), ".then.log is not true or false: it is 1");
}

// ---- Quotas ----

Rules table_of(const std::string& rules) {
  return Rules::parse("{\"version\": 1, \"rules\": [" + rules + "]}", "rules.json");
}

TEST(Rules, GiveControlGroupsAQuotaOfTheirOwn) {
  const Rules rules = table_of(R"(
      {"name": "tenant", "match": {"tenant": "*/a"}, "then": {"weight": 1}},
      {"name": "one of all", "match": {"cgroup": "/kubepods/shared/*"}, "then": {}},
      {"name": "pods", "match": {"cgroup": "/kubepods/*"}, "then": {"quota": "cgroup"}},
      {"name": "root's", "match": {"cgroup": "/jobs/*/step*", "user": 0}, "then": {"quota": "cgroup", "weight": 2}})");
  const auto group = [&](const std::string& cgroup, uint32_t user = 1000) {
    return rules.quota_group({.user = "u", .cgroup = cgroup, .user_id = user});
  };
  EXPECT_EQ(group("/kubepods/pod7"), "/kubepods/pod7");
  EXPECT_EQ(group("/kubepods/pod7/container/made/inside"), "/kubepods/pod7") << "whoever makes groups has no more";
  EXPECT_EQ(group("/kubepods/shared/pod1"), std::nullopt) << "the first rule decides";
  EXPECT_EQ(group("/kubepods"), std::nullopt);
  EXPECT_EQ(group("/user.slice"), std::nullopt);
  EXPECT_EQ(group(""), std::nullopt) << "it cannot be read";
  EXPECT_EQ(group("/jobs/1/step/deeper", 0), "/jobs/1/step");
  EXPECT_EQ(group("/jobs/1/step", 1), std::nullopt) << "another user";
}

TEST(Rules, RefusesQuotasOfWhatIsNotKnownWhenAProgramAttaches) {
  for (const char* const match :
       {R"({})", R"({"user": "a"})", R"({"cgroup": "*pod*"})", R"({"cgroup": "/pods/*", "tenant": "a"})",
        R"({"cgroup": "/pods/*", "bytes": "1KiB"})", R"({"cgroup": "/pods/*", "communicator": "a"})",
        R"({"cgroup": "/pods/*", "hosts": ["a"]})"}) {
    EXPECT_THAT(refusal(std::string(R"({"version": 1, "rules": [{"name": "a", "match": )") + match +
                        R"(, "then": {"quota": "cgroup"}}]})"),
                HasSubstr("rules[0].then.quota is decided when a program attaches"))
        << match;
  }
}

// ---- Names that programs choose ----

TEST(Rules, TakeATenantByItsUserAndByTheNameThatItsProgramsSay) {
  const Subject unnamed{.user = "alice", .user_id = 1000};
  EXPECT_TRUE(takes(R"("tenant": "alice")", unnamed));
  EXPECT_TRUE(takes(R"("tenant": "1000")", unnamed)) << "as operators see it";
  EXPECT_FALSE(takes(R"("tenant": "alice")", {.tenant = "alice", .user = "mallory", .user_id = 1001}));
  EXPECT_FALSE(takes(R"("tenant": "alice")")) << "it says another name";
  EXPECT_FALSE(takes(R"("tenant": "*/*")", unnamed)) << "it says none";
  EXPECT_TRUE(takes(R"("tenant": "*/search")"));
  EXPECT_TRUE(takes(R"("tenant": "1000/search")"));
  EXPECT_FALSE(takes(R"("tenant": "bob/search")"));
  EXPECT_FALSE(takes(R"("tenant": "bob/x")", {.tenant = "bob/x", .user = "mallory", .user_id = 1001}));
}

std::string refusal_of_all(const std::string& rules) { return refusal("{\"version\": 1, \"rules\": [" + rules + "]}"); }

TEST(Rules, RefuseToGiveMoreToWhoeverSaysAName) {
  const auto refused = [](const std::string& match, const std::string& then) {
    return refusal_of_all(R"({"name": "a", "match": )" + match + R"(, "then": )" + then + "}");
  };
  EXPECT_EQ(refused(R"({"communicator": "serve-*"})", R"({"weight": 400})"),
            "rules.json line 1: rule 'a': rules[0].match gives weight 400 to every user whose program says this name; "
            "match \"user\" as well, or a \"cgroup\" whose first group is named, as in /kubepods*");
  const std::string high = R"({"class": "high"})";
  for (const char* const match :
       {R"({"tenant": "*/alice"})", R"({"communicator": "a", "cgroup": "*pods*"})",
        R"({"communicator": "a", "user": "*"})", R"({"communicator": "a", "cgroup": "/*"})",
        R"({"communicator": "a", "cgroup": "/*pods/*"})", R"({"cgroup": "/*pods*"})", R"({"cgroup": "/../../*pods*"})",
        R"({"cgroup": "*"})", R"({"tenant": "*"})", R"({"tenant": "*/a", "hosts": ["node1"]})"}) {
    EXPECT_THAT(refused(match, high), HasSubstr("gives class high to every user")) << match;
  }
  for (const char* const match :
       {R"({"tenant": "*/alice", "user": "alice"})", R"({"tenant": "*/alice", "user": 1000})", R"({"tenant": "alice"})",
        R"({"tenant": "alice/a"})", R"({"tenant": "1000/*"})", R"({"communicator": "a", "cgroup": "/slurm/*"})",
        R"({"cgroup": "/../../pods*"})", R"({"cgroup": "/p*"})", R"({"user": "alice"})", R"({})", R"({"hosts": ["a"]})",
        R"({"bytes": "..1KiB"})"}) {
    EXPECT_EQ(refused(match, high), "no error") << match;
  }
  for (const char* const then : {R"({})", R"({"deny": "no"})", R"({"cap": "1GB/s"})", R"({"class": "low"})"}) {
    EXPECT_EQ(refused(R"({"tenant": "*/alice"})", then), "no error") << then;
  }
}

// Without saying the name, a program would come to the later rule.
TEST(Rules, RefuseToLetANameEscapeWhatALaterRuleSaysOfAll) {
  const auto refused = [](const std::string& match, const std::string& then, const std::string& later) {
    return refusal_of_all(R"({"name": "a", "match": )" + match + R"(, "then": )" + then + R"(}, {"name": "b", )" +
                          later + "}");
  };
  const std::string named = R"({"communicator": "x"})";
  EXPECT_THAT(refused(named, "{}", R"("match": {}, "then": {"cap": "1GB/s"})"),
              HasSubstr("rules[0].match gives more than the cap by rule 'b' to every user"));
  EXPECT_THAT(refused(named, R"({"cap": "2GB/s"})", R"("match": {"user": "bob"}, "then": {"cap": "1GB/s"})"),
              HasSubstr("more than the cap by rule 'b'"));
  EXPECT_THAT(refused(named, "{}", R"("match": {"cgroup": "/x/*"}, "then": {"deny": "no"})"),
              HasSubstr("what is denied by rule 'b'"));
  EXPECT_THAT(refused(named, "{}", R"("match": {}, "then": {"class": "low"})"),
              HasSubstr("a higher class than is given by rule 'b'"));
  EXPECT_EQ(refused(named, R"({"cap": "1GB/s"})", R"("match": {}, "then": {"cap": "1GB/s"})"), "no error");
  EXPECT_EQ(refused(R"({"communicator": "x", "user": "al"})", "{}", R"("match": {}, "then": {"deny": "no"})"),
            "no error");
  EXPECT_EQ(refused(named, "{}", R"("match": {"communicator": "y"}, "then": {"deny": "no"})"), "no error");
  EXPECT_EQ(refused(R"({"communicator": "x", "kind": "send"})", "{}",
                    R"("match": {"kind": ["recv", "barrier"]}, "then": {"deny": "no"})"),
            "no error");
  EXPECT_EQ(refused(R"({"communicator": "x", "bytes": "..1KiB"})", "{}",
                    R"("match": {"bytes": "1025B.."}, "then": {"deny": "no"})"),
            "no error");
}

TEST(Rules, WarnOfTenantsThatNoProgramCanName) {
  const auto warnings = [](const std::string& match) {
    return table_of(R"({"name": "a", "match": )" + match + R"(, "then": {}})").warnings();
  };
  EXPECT_THAT(warnings(R"({"tenant": "vgg"})"),
              ElementsAre("rule 'a' takes programs of user 'vgg' that name no tenant; what programs name is \"*/vgg\", "
                          "or \"USER/vgg\" of one user"));
  EXPECT_THAT(warnings(R"({"tenant": "*/vgg"})"), IsEmpty());
  EXPECT_THAT(warnings(R"({"user": "vgg"})"), IsEmpty());
}

}  // namespace
}  // namespace banyan::service
