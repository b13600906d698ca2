#include "banyan/service/share/rules.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::OperationKind;

std::shared_ptr<const Rules> rules_of(const std::string& rules) {
  return std::make_shared<const Rules>(Rules::parse("{\"version\": 1, \"rules\": [" + rules + "]}", "rules.json"));
}

TEST(CallGrants, AreFoundOnceForEachKindAndSizeThatRulesTellApart) {
  CallGrants grants(
      rules_of(R"({"name": "small", "match": {"kind": "allreduce", "bytes": "..1KiB"}, "then": {"weight": 9}})"),
      Subject{.tenant = "a"});
  const auto ask = [&](OperationKind kind, uint64_t bytes) { return grants.of({.kind = kind, .bytes = bytes}); };
  const CallGrants::Answer first = ask(OperationKind::all_reduce, 8);
  EXPECT_TRUE(first.is_new);
  EXPECT_EQ(first.grant.weight, 9u);
  EXPECT_FALSE(ask(OperationKind::all_reduce, 1024).is_new);
  EXPECT_TRUE(ask(OperationKind::all_reduce, 1025).is_new);
  EXPECT_EQ(ask(OperationKind::all_reduce, 1 << 30).grant.rule, "default");
  EXPECT_TRUE(ask(OperationKind::broadcast, 8).is_new);
  EXPECT_EQ(&ask(OperationKind::all_reduce, 17).grant, &first.grant);
}

TEST(CallGrants, DenyCallsAndNotTheCommunicatorThatIsOpen) {
  CallGrants grants(rules_of(R"({"name": "large", "match": {"bytes": "1MiB.."}, "then": {"deny": "too large"}},
                                {"name": "closed", "match": {}, "then": {"deny": "closed"}})"),
                    Subject{.tenant = "a"});
  EXPECT_EQ(grants.of({.kind = OperationKind::send, .bytes = 1 << 20}).grant.denial, "too large");
  const Grant& small = grants.of({.kind = OperationKind::send, .bytes = 1}).grant;
  EXPECT_EQ(small.rule, "closed");
  EXPECT_FALSE(small.denial);
}

TEST(CallGrants, AreChangedBeyondTheRules) {
  CallGrants grants(rules_of(R"({"name": "x", "match": {"kind": "send"}, "then": {"weight": 2, "class": "high"}})"),
                    Subject{.tenant = "a"}, [](Grant& grant) { grant.weight = 5; });
  const Grant sent = grants.of({.kind = OperationKind::send, .bytes = 1}).grant;
  EXPECT_EQ(sent, (Grant{.weight = 5, .share_class = ShareClass::high, .rule = "x"}));
  EXPECT_EQ(grants.of({.kind = OperationKind::recv, .bytes = 1}).grant.weight, 5u);
}

TEST(CallGrants, AreThoseOfTheRules) {
  const std::string sizes[] = {"..64B", "64B..1KiB", "1KiB", "4KiB..", "..1MiB", "1B.."};
  const OperationKind kinds[] = {OperationKind::all_reduce, OperationKind::send, OperationKind::barrier};
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::string rules;
    for (uint32_t i = 0; i < 1 + random() % 6; ++i) {
      const std::string kind = random() % 2 == 0 ? R"(, "kind": "allreduce")" : "";
      const std::string tenant = random() % 3 == 0 ? R"(, "tenant": "u/b")" : "";
      rules += (i == 0 ? "" : ",") + std::string("{\"name\": \"") + std::to_string(i) + R"(", "match": {"bytes": ")" +
               sizes[random() % std::size(sizes)] + "\"" + kind + tenant + R"(}, "then": {}})";
    }
    const auto table = rules_of(rules);
    const Subject subject{.tenant = random() % 2 == 0 ? "a" : "b", .user = "u"};
    CallGrants grants(table, subject);
    for (int i = 0; i < 200; ++i) {
      const AskedCall call{.kind = kinds[random() % std::size(kinds)], .bytes = random() % (1u << random() % 24)};
      ASSERT_EQ(grants.of(call).grant, table->grant(subject, call)) << call.bytes << " bytes; " << rules;
    }
  }
}

}  // namespace
}  // namespace banyan::service
