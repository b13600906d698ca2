// `banyan lab`: programs in emulated clusters. Skipped by name where network namespaces are refused.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "apps/test_banyan_process.h"
#include "banyan/testing/test.h"
#include "lab/network_namespace.h"

namespace banyan::app {
namespace {

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

// What kernels pass on from one network interface to another, at all hosts.
uint64_t forwarded_by(const std::string& printed) {
  std::istringstream numbers(printed);
  uint64_t sum = 0, of_one = 0;
  while (numbers >> of_one) sum += of_one;
  return sum;
}

TEST_F(LabCli, RanksThatAreJoinedDirectlyForwardAllToAllsThemselves) {
  ASSERT_EQ(lab({"up", "torus:3x3@200Mb/s"}).exit_code, 0);
  const auto forwarded = [&] {
    return forwarded_by(on_all("awk '/^Ip:/ { if (seen++) print $7 }' /proc/net/snmp").out);
  };
  const std::string bench = BANYAN_BINARY " bench all-to-all --sizes 4MiB -n 3 -w 1 --out-of-place";
  const uint64_t before = forwarded();
  const Outcome planned = on_all("exec " + bench);
  const uint64_t between = forwarded();
  const Outcome straight = on_all("unset BANYAN_FABRIC BANYAN_ROUTES; exec " + bench);
  const uint64_t after = forwarded();
  for (const Outcome& run : {planned, straight}) {
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("Out of bounds values : 0 OK"));
  }
  // Half of all pairs are no neighbours. Joining and agents take the kernels' help in either case.
  EXPECT_LT(3 * (between - before), after - between);
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
  const Outcome run = lab({"run", "--json"}, {"sh", "-c", "echo said; sleep $RANK; exit $((RANK * 3))"});
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

TEST_F(LabCli, RanksOfOneHostShareMemoryAndItsLinks) {
  const Outcome up = lab({"up", "a <-> sw 400Mb/s; b <-> sw 400Mb/s", "--ranks-per-host", "2,1"});
  EXPECT_THAT(up.out, HasSubstr("its ranks are 2 hosts with 3 ranks")) << up.err;
  const Outcome run = lab({"run"}, {BANYAN_EXAMPLE_ALLREDUCE});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(lab({"run"}, {"sh", "-c", "echo $LOCAL_RANK/$LOCAL_WORLD_SIZE $(ip netns identify $$)"}).out,
              AllOf(HasSubstr("[0] 0/2 banyan-" + name_ + ".a\n"), HasSubstr("[1] 1/2 banyan-" + name_ + ".a\n"),
                    HasSubstr("[2] 0/1 banyan-" + name_ + ".b\n")));
  EXPECT_THAT(lab({"status"}).out, HasSubstr("0,1"));
  const Json json = Json::parse(lab({"status", "--json"}).out);
  EXPECT_EQ(json["ranks"][1]["name"], "a.1");
  EXPECT_EQ(json["ranks"][1]["host"], "a");
  EXPECT_EQ(json["cables"].size(), 2u);
  // A job of the two ranks of a alone: hardly anything but their meeting goes through any interface.
  const Outcome alone = on_all(
      "test $RANK -lt 2 || exit 0; export WORLD_SIZE=2; unset BANYAN_FABRIC BANYAN_ROUTES; "
      "sent() { cat /sys/class/net/*/statistics/tx_bytes | awk '{ s += $1 } END { print s }'; }; "
      "before=$(sent); " BANYAN_BINARY
      " bench allreduce --sizes 4MiB -n 3 >/dev/null || exit 1; "
      "test $(($(sent) - before)) -lt 1000000 || { echo $(($(sent) - before)) bytes were sent; exit 1; }");
  EXPECT_EQ(alone.exit_code, 0) << alone.out << alone.err;
}

TEST_F(LabCli, StartsAProgramBesideTheRanksOfEachHost) {
  ASSERT_EQ(lab({"up", "a <-> sw 40Mb/s; b <-> sw 40Mb/s", "--ranks-per-host", "2"}).exit_code, 0);
  const std::string beside = "echo at $BANYAN_LAB_HOST $(ip netns identify $$); exec sleep 1000";
  const Outcome run =
      lab({"run", "--no-prefix", "--per-host", beside}, {"sh", "-c", "ip netns pids $(ip netns identify $$)"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr("at a banyan-" + name_ + ".a\n"), HasSubstr("at b banyan-" + name_ + ".b\n")));
  const Json list = Json::parse(run_banyan({"lab", "list", "--json"}).out);
  for (const Json& row : list["labs"]) {
    if (row["name"] != name_) continue;
    EXPECT_EQ(row["processes"], 0);
  }
  const Outcome refused = lab({"run", "--per-host", "test $BANYAN_LAB_HOST = a"}, {"echo", "started"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--per-host: the program of host 'b' ended with status 1"));
  EXPECT_EQ(refused.out, "");
}

TEST_F(LabCli, MakesClassesOfTraffic) {
  const Outcome up = lab({"up", "a <-> b 40Mb/s", "--classes", "3"});
  EXPECT_THAT(up.out, HasSubstr("3 classes of traffic")) << up.err;
  EXPECT_EQ(Json::parse(lab({"status", "--json"}).out)["classes"], 3);
  EXPECT_THAT(lab({"run", "--rank", "0"}, {"tc", "class", "show", "dev", "cable0"}).out, HasSubstr("prio 2"));
}

TEST_F(LabCli, NamesWhatIsWrong) {
  EXPECT_THAT(lab({"run"}, {"true"}).err, StartsWith("banyan: no lab '" + name_ + "' is up"));
  EXPECT_THAT(lab({"up", "ring:4", "--scale", "0"}).err, HasSubstr("--scale: '0' is no factor"));
  EXPECT_THAT(run_banyan({"lab", "up", "ring:4", "--name", "a/b"}).err, HasSubstr("is no name for a lab"));
  EXPECT_THAT(lab({"up", "ring:4", "--ranks-per-host", "2,1"}).err,
              HasSubstr("--ranks-per-host: 2 numbers of ranks, but there are 4 hosts"));
  EXPECT_THAT(lab({"up", "ring:4", "--ranks-per-host", "none"}).err, HasSubstr("--ranks-per-host"));
  EXPECT_THAT(lab({"up", "ring:4", "--classes", "4"}).err, HasSubstr("--classes"));
  EXPECT_THAT(run_banyan({"lab"}).err, HasSubstr("see 'banyan lab --help'"));
  ASSERT_EQ(lab({"up", "ring:3@1Gb/s"}).exit_code, 0);
  EXPECT_THAT(lab({"fail", "x-y"}).err, HasSubstr("no cable 'x-y'"));
  EXPECT_THAT(lab({"run"}).err, HasSubstr("which program?"));
  EXPECT_THAT(lab({"run", "--rank", "3"}, {"true"}).err, HasSubstr("--rank"));
  EXPECT_THAT(lab({"run"}, {"/no/such/program"}).err, HasSubstr("cannot start '/no/such/program'"));
}

}  // namespace
}  // namespace banyan::app
