#include "banyan/service/share/rule_changes.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::OperationKind;

Rules rules_of(const std::string& rules) {
  return Rules::parse("{\"version\": 1, \"rules\": [" + rules + "]}", "rules.json");
}

const std::vector<Subject> kBoth = {{.tenant = "a", .user = "u"}, {.tenant = "b", .user = "u"}};

TEST(RuleChanges, AreNoneWhereEverybodyGetsTheSame) {
  const Rules rules =
      rules_of(R"({"name": "x", "match": {"tenant": "u/a", "bytes": "..1KiB"}, "then": {"weight": 2}})");
  EXPECT_THAT(changes(rules, rules, kBoth), IsEmpty());
  EXPECT_THAT(changes(Rules(), rules_of(R"({"name": "x", "match": {"tenant": "u/c"}, "then": {"weight": 2}})"), kBoth),
              IsEmpty());
}

TEST(RuleChanges, NameWhoGetsSomethingElse) {
  const Rules to = rules_of(R"({"name": "x", "match": {"tenant": "u/b"}, "then": {"deny": "no"}})");
  const std::vector<RuleChange> found = changes(Rules(), to, kBoth);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], (RuleChange{.subject = 1, .to = {.denial = "no", .has_own_share = true, .rule = "x"}}));
}

TEST(RuleChanges, NameTheCallsThatAreTreatedOtherwise) {
  const Rules from = rules_of(
      R"({"name": "x", "match": {"tenant": "u/a", "kind": "allreduce", "bytes": "..1KiB"}, "then": {"weight": 2}})");
  const Rules to = rules_of(
      R"({"name": "x", "match": {"tenant": "u/a", "kind": "allreduce", "bytes": "..4KiB"}, "then": {"weight": 2}})");
  const std::vector<RuleChange> found = changes(from, to, kBoth);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], (RuleChange{.subject = 0,
                                  .calls = CallRange{.kind = OperationKind::all_reduce, .least = 1025, .most = 4096},
                                  .to = {.weight = 2, .has_own_share = true, .rule = "x"}}));
}

// A table of rules that overlap, for one tenant, both, or some calls.
Rules random_rules(std::mt19937& random) {
  const std::string sizes[] = {"..64B", "64B..1KiB", "1KiB", "4KiB..", "..2KiB"};
  std::string rules;
  for (uint32_t i = 0; i < random() % 5; ++i) {
    std::string match;
    const auto add = [&](const std::string& text) { match += (match.empty() ? "" : ", ") + text; };
    if (random() % 2 == 0) add("\"bytes\": \"" + sizes[random() % std::size(sizes)] + "\"");
    if (random() % 3 == 0) add(R"("kind": ["allreduce", "send"])");
    if (random() % 3 == 0) add(R"("tenant": "u/b")");
    rules += (i == 0 ? "" : ",") + std::string("{\"name\": \"") + std::to_string(i) + "\", \"match\": {" + match +
             "}, \"then\": {\"weight\": " + std::to_string(1 + random() % 2) + "}}";
  }
  return rules_of(rules);
}

// What is said of a call: by the range that has it, or else of its communicator.
const RuleChange* said_of(const std::vector<RuleChange>& found, size_t subject, const AskedCall& call) {
  const RuleChange* whole = nullptr;
  for (const RuleChange& change : found) {
    if (change.subject != subject) continue;
    if (!change.calls) whole = &change;
    if (change.calls && change.calls->kind == call.kind && change.calls->least <= call.bytes &&
        call.bytes <= change.calls->most) {
      return &change;
    }
  }
  return whole;
}

TEST(RuleChanges, AreRightForEveryCall) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const Rules from = random_rules(random), to = random_rules(random);
    const std::vector<RuleChange> found = changes(from, to, kBoth);
    for (const RuleChange& change : found) ASSERT_NE(change.from, change.to);
    for (size_t subject = 0; subject < kBoth.size(); ++subject) {
      for (const OperationKind kind : {OperationKind::all_reduce, OperationKind::send, OperationKind::barrier}) {
        for (const uint64_t bytes : {0, 1, 63, 64, 65, 1023, 1024, 1025, 2048, 2049, 4095, 4096, 100'000}) {
          const AskedCall call{.kind = kind, .bytes = bytes};
          const Grant before = from.grant(kBoth[subject], call), after = to.grant(kBoth[subject], call);
          if (before == after) continue;
          const RuleChange* const said = said_of(found, subject, call);
          ASSERT_TRUE(said) << to_string(kind) << " of " << bytes;
          ASSERT_EQ(said->from, before);
          ASSERT_EQ(said->to, after);
        }
      }
    }
  }
}

}  // namespace
}  // namespace banyan::service
