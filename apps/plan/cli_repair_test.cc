// `banyan plan --repair` and `--max-loss`: what they print, write and refuse.

#include <nlohmann/json.hpp>

#include "apps/test_banyan_process.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using Json = nlohmann::json;

class RepairFile : public ::testing::Test {
 protected:
  RepairFile() { EXPECT_EQ(run_banyan({"plan", "allgather", "dgx-h100:2", "-o", plan_}).exit_code, 0); }

  TemporaryFolder folder_;
  std::string plan_ = folder_.path("plan.json"), repaired_ = folder_.path("repaired.json");
};

TEST_F(RepairFile, SaysWhatChangedAndWhatStays) {
  const Outcome outcome = run_banyan({"plan", "--repair", plan_, "--fail", "gpu3-ib0", "-o", repaired_});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("gpu3-ib0: gone, it had 50 GB/s"), HasSubstr("verified"),
                                 HasSubstr(" stay, "), HasSubstr("written    " + repaired_)));
  const Json verified = json_of({"verify", repaired_, "--json"});
  EXPECT_EQ(verified["valid"], true);
  EXPECT_EQ(verified["planner"], "forest, repaired");
}

TEST_F(RepairFile, TellsProgramsTheSame) {
  const Json report = json_of({"plan", "--repair", plan_, "--fail", "gpu3-ib0", "--json"});
  const Json& repair = report["repair"];
  EXPECT_EQ(report["fabric"]["links"], 62);
  EXPECT_EQ(repair["planned_anew"], false);
  EXPECT_EQ(repair["links"].size(), 2);
  EXPECT_EQ(repair["links"][0]["before_bytes_per_second"], 50'000'000'000u);
  EXPECT_TRUE(repair["links"][0]["after_bytes_per_second"].is_null());
  EXPECT_GT(repair["trees_kept"], repair["trees_moved"]);
  EXPECT_GT(report["schedule"]["algbw_GBps"].get<double>(), 0.98 * report["bound"]["algbw_GBps"].get<double>());
}

TEST_F(RepairFile, TakesTheFabricAsItIsNow) {
  EXPECT_EQ(run_banyan({"plan", "--repair", plan_, "--fail", "gpu3-ib0", "-o", repaired_}).exit_code, 0);
  const Json report = json_of({"plan", "allgather", "dgx-h100:2", "--repair", repaired_, "--json"});
  EXPECT_EQ(report["schedule"]["optimal"], true);
  EXPECT_EQ(report["repair"]["links"].size(), 2);
  EXPECT_TRUE(report["repair"]["links"][0]["before_bytes_per_second"].is_null());
}

TEST_F(RepairFile, PlansAnewOnAFabricThatSharesNothing) {
  const Outcome outcome = run_banyan({"plan", "allgather", "full:16", "--repair", plan_});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("all planned anew"), HasSubstr("optimal, verified")));
}

TEST_F(RepairFile, IsRefusedWithTheMend) {
  expect_refused({"plan", "--repair", plan_, "--fail", "gpu3"}, "gpu3");
  expect_refused({"plan", "--repair", plan_, "--fail", "gpu3-ib7"}, "--fail gpu3-ib7");
  expect_refused({"plan", "--repair", plan_, "--trees", "1"}, "--trees");
  expect_refused({"plan", "--repair", folder_.path("none.json")}, "none.json");
  expect_refused({"plan", "dgx-h100:2", "--repair", plan_}, "or neither");
  expect_refused({"plan", "allreduce", "dgx-h100:2", "--repair", plan_}, "is a plan of allgather, not of allreduce");
  expect_refused({"plan", "--repair", plan_, "--json", "-o", "-"}, "-o -");
}

TEST(LossReport, SaysWhichLinksToDisable) {
  const std::string fabric = "a <-> b 1GB/s loss 0.1; b <-> c 1GB/s loss 0.2; c <-> d 1GB/s; d <-> a 1GB/s";
  const Json report = json_of({"fabric", fabric, "--loss-report", "--capacity-share", "0.5", "--json"})["losses"];
  EXPECT_EQ(report["cables"].size(), 2);
  EXPECT_EQ(report["cables"][0]["cable"], "b-c");
  EXPECT_EQ(report["cables"][0]["disable"], true);
  EXPECT_EQ(report["cables"][1]["disable"], false);
  EXPECT_EQ(report["cables"][1]["may_alone"], true);
  EXPECT_EQ(report["exact"], true);
  EXPECT_THAT(run_banyan({"fabric", fabric, "--loss-report"}).out, HasSubstr("0 cables"));
  EXPECT_THAT(run_banyan({"fabric", "ring:4", "--loss-report"}).out, HasSubstr("no link loses packets"));
  for (const char* bad : {"0", "1.5", "x", "-1", "", ".", "0.0000000001"}) {
    expect_refused({"fabric", fabric, "--loss-report", std::string("--capacity-share=") + bad}, "--capacity-share");
  }
  EXPECT_EQ(run_banyan({"fabric", fabric, "--capacity-share", "0.5"}).exit_code, 2);
}

TEST(MaxLoss, LeavesLossyLinksOut) {
  const std::string fabric = "a <-> b 1GB/s; b <-> c 1GB/s loss 0.01; c <-> a 1GB/s loss 0.2";
  const Json report = json_of({"plan", "allgather", fabric, "--max-loss", "0.1", "--json"});
  EXPECT_EQ(report["fabric"]["links"], 4);
  EXPECT_EQ(json_of({"plan", "allgather", fabric, "--max-loss", "0.2", "--json"})["fabric"]["links"], 6);
  expect_refused({"plan", "allgather", fabric, "--max-loss", "0.001"},
                 "rank 'c' would be cut off: link b-c, which loses 0.01, is needed");
  expect_refused({"plan", "allgather", fabric, "--max-loss", "2"}, "--max-loss: '2' is no loss");
}

}  // namespace
}  // namespace banyan::app
