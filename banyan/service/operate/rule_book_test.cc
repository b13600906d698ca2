#include "banyan/service/operate/rule_book.h"

#include <stdlib.h>
#include <unistd.h>

#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

class RuleBookTest : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  RuleBookTest() { path_ = folder_ + "/rules.json"; }
  void write(const std::string& rules) const { std::ofstream(path_, std::ios::trunc) << rules; }
  static std::string weight_of_train(int version, int weight) {
    return "{\"version\": " + std::to_string(version) +
           ", \"rules\": [{\"name\": \"one\", \"match\": {\"tenant\": \"u/train\"}, \"then\": {\"weight\": " +
           std::to_string(weight) + "}}]}";
  }

  std::string path_;
};

TEST_F(RuleBookTest, GrantsEverythingWithoutAFile) {
  const RuleBook book("");
  const Grant grant = book.rules().grant(Subject{.tenant = "train", .user = "u"});
  EXPECT_FALSE(grant.denial);
  EXPECT_EQ(grant.weight, 1u);
}

TEST_F(RuleBookTest, ReadsTheFileAgain) {
  write(weight_of_train(1, 4));
  RuleBook book(path_);
  EXPECT_EQ(book.rules().grant(Subject{.tenant = "train", .user = "u"}).weight, 4u);
  write(weight_of_train(2, 7));
  EXPECT_EQ(book.rules().version(), 1u);
  book.reload();
  EXPECT_EQ(book.rules().version(), 2u);
  EXPECT_EQ(book.rules().grant(Subject{.tenant = "train", .user = "u"}).weight, 7u);
}

TEST_F(RuleBookTest, KeepsTheOldRulesWhenTheNewOnesAreWrong) {
  write(weight_of_train(1, 4));
  RuleBook book(path_);
  write(weight_of_train(2, 0));
  EXPECT_THAT(testing::error_of([&] { book.reload(); }, ErrorCode::invalid_input), HasSubstr("weight"));
  EXPECT_THAT(book.refusal(), AllOf(HasSubstr("weight"), HasSubstr(path_)));
  std::filesystem::remove(path_);
  EXPECT_THAT(testing::error_of([&] { book.reload(); }, ErrorCode::not_found), HasSubstr(path_));
  EXPECT_THAT(book.refusal(), HasSubstr(path_));
  EXPECT_EQ(book.rules().grant(Subject{.tenant = "train", .user = "u"}).weight, 4u);
}

TEST_F(RuleBookTest, RefusesNothingAnyMoreOnceRulesAreInForce) {
  write(weight_of_train(1, 4));
  RuleBook book(path_);
  EXPECT_EQ(book.refusal(), "");
  for (const bool by_an_operator : {false, true}) {
    write(weight_of_train(2, 0));
    EXPECT_NE(testing::error_of([&] { book.reload(); }), "no error");
    EXPECT_NE(testing::error_of([&] { book.replace(weight_of_train(2, 0)); }), "no error");
    EXPECT_NE(book.refusal(), "");
    write(weight_of_train(3, 4));
    by_an_operator ? book.replace(weight_of_train(3, 4)) : book.reload();
    EXPECT_EQ(book.refusal(), "") << by_an_operator;
  }
}

TEST_F(RuleBookTest, KnowsThePlannersAndRefusesPlansForSomeCallsOnly) {
  write(R"({"version": 1, "rules": [{"name": "a", "match": {}, "then": {"plan": "ring"}}]})");
  EXPECT_EQ(RuleBook(path_).grant({}, "").plan, "ring");
  write(R"({"version": 1, "rules": [{"name": "a", "match": {}, "then": {"plan": "rings"}}]})");
  EXPECT_THAT(testing::error_of([&] { RuleBook{path_}; }, ErrorCode::invalid_input),
              AllOf(HasSubstr("'rings'"), HasSubstr("double-binary-tree")));
  write(R"({"version": 1, "rules": [{"name": "a", "match": {"kind": "allreduce"}, "then": {"plan": "ring"}}]})");
  EXPECT_THAT(testing::error_of([&] { RuleBook{path_}; }, ErrorCode::unsupported),
              HasSubstr("rule 'a' names a plan for calls"));
}

TEST_F(RuleBookTest, TakesOtherRulesUntilTheFileIsReadAgain) {
  write(weight_of_train(1, 4));
  RuleBook book(path_);
  EXPECT_EQ(book.text(), weight_of_train(1, 4));
  book.replace(weight_of_train(9, 7));
  EXPECT_EQ(book.rules().version(), 9u);
  EXPECT_EQ(book.text(), weight_of_train(9, 7));
  EXPECT_THAT(testing::error_of([&] { book.replace("{}"); }, ErrorCode::invalid_input), HasSubstr("the new rules"));
  EXPECT_EQ(book.rules().version(), 9u);
  book.reload();
  EXPECT_EQ(book.text(), weight_of_train(1, 4));
  RuleBook without("");
  EXPECT_EQ(without.text(), "");
  without.replace(weight_of_train(2, 7));
  without.reload();
  EXPECT_EQ(without.rules().size(), 0u);
}

TEST_F(RuleBookTest, GrantsCallsWhereRulesLookAtThemAlone) {
  write(weight_of_train(1, 4));
  RuleBook book(path_);
  EXPECT_EQ(book.grants_of_calls({.tenant = "train", .user = "u"}, "1/train"), nullptr);
  book.replace(
      R"({"version": 1, "rules": [{"name": "a", "match": {"kind": "send"}, "then": {"weight": 2, "cap": "1GB/s"}}]})");
  const AskedCall sent{.kind = run::OperationKind::send, .bytes = 1};
  const auto before = book.grants_of_calls({.tenant = "train", .user = "u"}, "1/train");
  EXPECT_EQ(before->of(sent).grant.weight, 2u);
  book.set("1/train", GrantChange{.weight = 8});
  const auto after = book.grants_of_calls({.tenant = "train", .user = "u"}, "1/train");
  EXPECT_EQ(after->of(sent).grant, (Grant{.weight = 8, .cap = 1'000'000'000, .has_own_share = true, .rule = "a"}));
  EXPECT_EQ(book.grants_of_calls({.tenant = "other"}, "1/other")->of(sent).grant.weight, 2u);
  book.replace(weight_of_train(1, 4));
  EXPECT_EQ(before->of(sent).grant.weight, 2u) << "who has them keeps them";
}

TEST(RuleSubject, IsWhoTheKernelSays) {
  const Subject own =
      subject_of({.process = getpid(), .user = getuid(), .group = getgid(), .name = "me", .cgroup = "/a/b"}, "");
  EXPECT_EQ(own.user, "me");
  EXPECT_EQ(own.cgroup, "/a/b");
  EXPECT_EQ(own.user_id, getuid());
  EXPECT_EQ(own.tenant, "");
  EXPECT_EQ(subject_of({.process = getpid(), .user = 0, .group = 0}, "train").tenant, "train");
}

}  // namespace
}  // namespace banyan::service
