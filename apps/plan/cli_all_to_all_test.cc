// All-to-all on the command line: planned, verified, run, predicted and exported; with a traffic matrix.

#include <nlohmann/json.hpp>

#include "apps/test_banyan_process.h"
#include "banyan/base/file.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using Json = nlohmann::json;

class AllToAll : public ::testing::Test {
 protected:
  Outcome ran(std::vector<std::string> arguments) {
    Outcome outcome = run_banyan(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome;
  }

  TemporaryFolder folder_;
  std::string plan_ = folder_.path("plan.json"), matrix_ = folder_.path("traffic.csv");
};

TEST_F(AllToAll, IsPlannedProvedRunPredictedAndExported) {
  const Outcome planned = ran({"plan", "all-to-all", "torus:3x3@1GB/s", "-o", plan_});
  // Every pair has a third of a link: 9 blocks of M / 9 in the time of 3 blocks.
  EXPECT_THAT(planned.out, AllOf(HasSubstr("bound      3.00 GB/s"), HasSubstr("optimal, verified")));
  EXPECT_EQ(json_of({"verify", plan_, "--json"})["valid"], true);
  const Json run = json_of({"run", "--plan", plan_, "--bytes", "1MiB", "--predict", "--json"});
  EXPECT_EQ(run["wrong_elements"], 0) << run;
  EXPECT_THAT(ran({"predict", plan_, "--bytes", "1MiB"}).out, HasSubstr("GB/s"));
  EXPECT_THAT(ran({"export", plan_, "--format", "msccl"}).out, HasSubstr("coll=\"alltoall\""));
  EXPECT_THAT(ran({"export", plan_, "--format", "mscclpp"}).out, HasSubstr("\"alltoall\""));
}

TEST_F(AllToAll, IsComparedWithOtherWays) {
  const Json report = json_of({"plan", "all-to-all", "dgx-a100:2", "--compare", "--json"});
  std::vector<std::string> planners;
  for (const Json& row : report["comparison"]) planners.push_back(row["planner"]);
  EXPECT_THAT(planners, ::testing::ElementsAre("flow", "two-tier", "pairwise"));
  EXPECT_LE(report["comparison"][0]["times_bound"], 1.01);
}

TEST_F(AllToAll, TakesATrafficMatrix) {
  write_file(matrix_, "0,3,0,0\n0,0,5,0\n0,0,0,7\n1,0,0,0\n");
  ran({"plan", "all-to-all", "ring:4@1GB/s", "--traffic", matrix_, "-o", plan_});
  const Json run = json_of({"run", "--plan", plan_, "--bytes", "64KiB", "--json"});
  EXPECT_EQ(run["wrong_elements"], 0) << run;
  // By name, and in any order: the largest is what rank 2 has for rank 3, which leaves by two ways.
  write_file(matrix_, ",gpu3,gpu2,gpu1,gpu0\ngpu3,0,0,0,1\ngpu2,7,0,0,0\ngpu1,0,5,0,0\ngpu0,0,0,3,0\n");
  const std::string named = folder_.path("named.json");
  ran({"plan", "all-to-all", "ring:4@1GB/s", "--traffic", matrix_, "-o", named});
  EXPECT_EQ(read_file(named, 1 << 20), read_file(plan_, 1 << 20));
}

TEST_F(AllToAll, NamesWhatIsWrongWithATrafficMatrix) {
  write_file(matrix_, "0,3\n1,0\n");
  expect_refused({"plan", "all-to-all", "ring:4", "--traffic", matrix_}, "is about 2 ranks, but 4 take part");
  expect_refused({"plan", "allgather", "ring:2", "--traffic", matrix_}, "a traffic matrix is for all-to-all");
  write_file(matrix_, "a,b\n0,3\n1,0\n");
  expect_refused({"plan", "all-to-all", "full:2", "--traffic", matrix_}, "has no line for rank 'gpu0'");
  write_file(matrix_, "4,0\n0,4\n");
  expect_refused({"plan", "all-to-all", "full:2", "--traffic", matrix_}, "no rank sends anything to another");
  expect_refused({"plan", "all-to-all", "full:2", "--traffic", folder_.path("none.csv")}, "none.csv");
  expect_refused({"plan", "all-to-all", "full:2", "--trees", "1"}, "--trees");
  ran({"plan", "all-to-all", "ring:4", "-o", plan_});
  expect_refused({"plan", "--repair", plan_, "--fail", "gpu0-gpu1"}, "is not repaired; plan anew");
}

// In lowest terms: what counts is how far apart amounts are.
TEST_F(AllToAll, TakesAmountsUpToWhatTheirProportionsAllow) {
  write_file(matrix_, "0,9223372036854775806\n4611686018427387903,0\n");
  ran({"plan", "all-to-all", "full:2@1GB/s", "--traffic", matrix_, "-o", plan_});
  EXPECT_THAT(ran({"verify", plan_}).out, HasSubstr("valid "));
  write_file(matrix_, "0,9223372036854775807\n4,0\n");
  expect_refused(
      {"plan", "all-to-all", "full:2@1GB/s", "--traffic", matrix_},
      "traffic of 9223372036854775807 from rank 0 to rank 1 and of 4 from rank 1 to rank 0 is too far apart");
}

}  // namespace
}  // namespace banyan::app
