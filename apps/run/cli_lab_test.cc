// `banyan lab`: programs in emulated clusters. Skipped by name where network namespaces are refused.
#include <gmock/gmock.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "apps/banyan_process.h"
#include "lab/network_namespace.h"

namespace banyan::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

class LabCli : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = lab::why_no_lab();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
  void TearDown() override {
    if (!IsSkipped()) lab({"down"});
  }

  Outcome lab(std::vector<std::string> words, const std::vector<std::string>& program = {}) const {
    words.insert(words.begin(), "lab");
    words.insert(words.begin() + 2, {"--name", name_});
    if (!program.empty()) words.push_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return run_banyan(words);
  }
  Outcome on_all(const std::string& script) const { return lab({"run", "--no-prefix"}, {"sh", "-c", script}); }

  const std::string name_ = "cli" + std::to_string(getpid());
};

TEST_F(LabCli, StartsAProgramAtEveryRankWithItsVariables) {
  const Outcome up = lab({"up", "ring:4@100Gb/s", "--scale", "1/1000"});
  EXPECT_EQ(up.exit_code, 0) << up.err;
  EXPECT_THAT(up.out, AllOf(HasSubstr("4 ranks"), HasSubstr("times 1/1000")));
  const Outcome run =
      lab({"run"}, {"sh", "-c", "echo $RANK $WORLD_SIZE $(ip -o address show dev lo | grep -c $BANYAN_ADDRESS/32)"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const char* line : {"[0] 0 4 1\n", "[1] 1 4 1\n", "[2] 2 4 1\n", "[3] 3 4 1\n"}) {
    EXPECT_THAT(run.out, HasSubstr(line));
  }
  EXPECT_EQ(on_all("exit $((RANK == 2 ? 7 : 0))").exit_code, 7);
  const Outcome one = lab({"run", "--no-prefix", "--rank", "3"}, {"printenv", "RANK"});
  EXPECT_EQ(one.out, "3\n");
}

TEST_F(LabCli, RanksOfACommunicatorMeetAndReduce) {
  ASSERT_EQ(lab({"up", "a <-> sw 400Mb/s; b <-> sw 400Mb/s; c <-> sw 400Mb/s; d <-> sw 100Mb/s"}).exit_code, 0);
  const Outcome run = lab({"run"}, {BANYAN_EXAMPLE_ALLREDUCE});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
}

TEST_F(LabCli, ShowsAndChecksAndCuts) {
  ASSERT_EQ(lab({"up", "a <-> b 40Mb/s; b <-> c 20Mb/s"}).exit_code, 0);
  EXPECT_EQ(lab({"fail", "b-c"}).out, "b-c is cut\n");
  const Outcome status = lab({"status"});
  EXPECT_THAT(status.out, AllOf(HasSubstr("10.0.0.1"), HasSubstr("40.0 Mb/s / 40.0 Mb/s"), HasSubstr("cut")));
  const Json json = Json::parse(lab({"status", "--json"}).out);
  EXPECT_EQ(json["ranks"][1]["address"], "10.0.0.2");
  EXPECT_EQ(json["cables"][1]["cut"], true);
  Outcome check = lab({"check"});
  // Links seem slow whenever the program that measures them waits for its core.
  for (int again = 0; again < 4 && check.exit_code != 0; ++again) check = lab({"check"});
  EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
  EXPECT_THAT(check.out, AllOf(HasSubstr("a -> b"), HasSubstr("40.0 Mb/s"), HasSubstr("cut")));
  EXPECT_EQ(lab({"heal", "c-b"}).out, "c-b is whole\n");
  EXPECT_EQ(lab({"down"}).out, "lab '" + name_ + "' is gone\n");
  EXPECT_EQ(lab({"down"}).out, "lab '" + name_ + "' was not up\n");
}

TEST_F(LabCli, ReplacesALabOfTheSameNameOnlyWhenToldTo) {
  ASSERT_EQ(lab({"up", "a <-> b 40Mb/s"}).exit_code, 0);
  const Outcome again = lab({"up", "ring:3@40Mb/s"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("is up already; give --replace"));
  EXPECT_EQ(Json::parse(lab({"status", "--json"}).out)["ranks"].size(), 2u);
  EXPECT_EQ(lab({"up", "ring:3@40Mb/s", "--replace"}).exit_code, 0);
  EXPECT_EQ(Json::parse(lab({"status", "--json"}).out)["ranks"].size(), 3u);
}

TEST_F(LabCli, EveryCommandHasJson) {
  EXPECT_EQ(Json::parse(lab({"up", "a <-> b 40Mb/s", "--json"}).out)["banyan"], "lab/1");
  const Json cut = Json::parse(lab({"fail", "b-a", "--json"}).out);
  EXPECT_EQ(cut, Json::parse(R"({"lab": ")" + name_ + R"(", "cable": "a-b", "cut": true})"));
  EXPECT_EQ(Json::parse(lab({"heal", "b-a", "--json"}).out)["cut"], false);
  const Json check = Json::parse(lab({"check", "--json"}).out);
  EXPECT_TRUE(check["good"].is_boolean()) << check;
  EXPECT_EQ(check["links"][0]["asked_bits_per_second"], 40e6);
  const Outcome run = lab({"run", "--json"}, {"sh", "-c", "echo said; exit $((RANK * 3))"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("[0] said\n"));
  EXPECT_EQ(Json::parse(run.out)["ranks"][1]["exit_code"], 3);
  const Json list = Json::parse(run_banyan({"lab", "list", "--json"}).out);
  bool is_listed = false;
  for (const Json& row : list["labs"]) {
    is_listed = is_listed || (row["name"] == name_ && row["ranks"] == 2);
  }
  EXPECT_TRUE(is_listed);
  EXPECT_EQ(Json::parse(lab({"down", "--json"}).out)["was_up"], true);
}

TEST_F(LabCli, NamesWhatIsWrong) {
  EXPECT_THAT(lab({"run"}, {"true"}).err, StartsWith("banyan: no lab '" + name_ + "' is up"));
  EXPECT_THAT(lab({"up", "ring:4", "--scale", "0"}).err, HasSubstr("--scale: '0' is no factor"));
  EXPECT_THAT(run_banyan({"lab", "up", "ring:4", "--name", "a/b"}).err, HasSubstr("is no name for a lab"));
  EXPECT_THAT(run_banyan({"lab"}).err, HasSubstr("see 'banyan lab --help'"));
  ASSERT_EQ(lab({"up", "ring:3@1Gb/s"}).exit_code, 0);
  EXPECT_THAT(lab({"fail", "x-y"}).err, HasSubstr("no cable 'x-y'"));
  EXPECT_THAT(lab({"run"}).err, HasSubstr("which program?"));
  EXPECT_THAT(lab({"run", "--rank", "3"}, {"true"}).err, HasSubstr("--rank"));
  EXPECT_THAT(lab({"run"}, {"/no/such/program"}).err, HasSubstr("cannot start '/no/such/program'"));
}

}  // namespace
}  // namespace banyan::app
