// `banyan topology --demand`: links for a demand, with their bound; mistakes that name the option, the file, the line
// and the column; a fabric that other commands plan on.

#include <nlohmann/json.hpp>

#include "apps/test_banyan_process.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using Json = nlohmann::json;

constexpr const char* kMatrix =
    ",a,b,c,d\n"
    "a,0,8GB,1GB,1GB\n"
    "b,8GB,0,1GB,1GB\n"
    "c,1GB,1GB,0,8GB\n"
    "d,1GB,1GB,8GB,0\n";

class TopologyDemand : public ::testing::Test {
 protected:
  std::vector<std::string> words(std::vector<std::string> options) const {
    options.insert(options.begin(), {"topology", "--demand", matrix_});
    return options;
  }
  Outcome run(const std::vector<std::string>& options) const { return run_banyan(words(options)); }
  Json json(std::vector<std::string> options) const {
    options.push_back("--json");
    return json_of(words(options));
  }

  TemporaryFolder folder_;
  std::string matrix_ = folder_.write("matrix.csv", kMatrix);
};

TEST_F(TopologyDemand, PrintsLinksBoundAndOthers) {
  const Outcome outcome = run({"--ports", "3", "--bandwidth", "1GB/s"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("4 endpoints, 12 pairs, 40 GB in all"), HasSubstr("6 cables of 1 GB/s"),
                                 HasSubstr("no topology of these ports has less"), HasSubstr("a - b"),
                                 HasSubstr("even mesh"), HasSubstr("rotor"), HasSubstr("random regular")));
}

// Two cables for each heavy pair, one port of each endpoint for the rest: 4 s for 8 GB, as nothing better can be.
TEST_F(TopologyDemand, JsonSaysAllAboutIt) {
  const Json report = json({"--ports", "3", "--bandwidth", "1GB/s"});
  EXPECT_THAT(report["endpoints"], ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(report["load_unit"], "seconds");
  EXPECT_EQ(report["wiring"], "cables");
  const double worst = report["worst_load"], bound = report["bound"]["load"];
  EXPECT_LE(bound, worst * (1 + 1e-12));
  EXPECT_LT(worst, 4.6);
  EXPECT_EQ(report["pairs"][0]["from"], "a");
  EXPECT_EQ(report["pairs"][0]["to"], "b");
  EXPECT_EQ(report["pairs"][0]["links"], 2);
  EXPECT_EQ(report["pairs"][0]["demand"], 16e9);
  EXPECT_EQ(report["others"].size(), 3u);
  for (const Json& other : report["others"]) EXPECT_GT(other["worst_load"], worst * (1 - 1e-6)) << other;
}

TEST_F(TopologyDemand, WithoutSecondHopsIsTheBest) {
  const Json report = json({"--ports", "4", "--bandwidth", "1GB/s", "--direct"});
  EXPECT_EQ(report["hops"], "direct");
  EXPECT_EQ(report["is_best"], true);
  EXPECT_EQ(report["threshold"], nullptr);
  EXPECT_EQ(report["worst_load"], 4.0);
  EXPECT_EQ(report["bound"]["fraction"], "4");
}

TEST_F(TopologyDemand, TakesUncertaintySeveralMatricesAndRates) {
  EXPECT_EQ(json({"--ports", "3", "--uncertainty", "30%"})["uncertainty"], 0.3);
  EXPECT_GE(json({"--ports", "3", "--uncertainty", "0.3"})["worst_load"].get<double>(),
            json({"--ports", "3"})["worst_load"].get<double>());
  const std::string other = folder_.write("other.csv", "a,b,c,d\n0,0,0,9GB\n0,0,0,0\n0,0,0,0\n0,0,0,0\n");
  EXPECT_EQ(json({"--demand", other, "--ports", "3"})["matrices"], 2);
  const std::string rates = folder_.write("rates.csv", "0,60GB/s\n30GB/s,0\n");
  const Outcome outcome = run_banyan({"topology", "--demand", rates, "--ports", "1", "--bandwidth", "50GB/s"});
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("120.0 % of a link"), HasSubstr("rates must shrink to 83.3 %")))
      << outcome.err;
}

TEST_F(TopologyDemand, WritesAFabricToPlanOn) {
  const std::string fabric = folder_.path("fabric.json");
  for (const char* wiring : {"--two-hop", "--one-way"}) {
    const Outcome outcome = run({"--ports", "3", "-o", fabric, wiring});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("written"));
    const std::string plan = folder_.path("plan.json");
    EXPECT_THAT(run_banyan({"plan", "allgather", fabric, "-o", plan}).out, HasSubstr("optimal, verified"));
    EXPECT_EQ(run_banyan({"verify", plan, fabric}).exit_code, 0);
  }
  EXPECT_EQ(Json::parse(run({"--ports", "3", "-o", "-"}).out)["banyan"], "fabric/1");
}

TEST_F(TopologyDemand, RefusesInOneLineThatNamesTheCulprit) {
  expect_refused(words({}), "--ports");
  expect_refused(words({"--ports", "0"}), "--ports");
  expect_refused(words({"--ports", "3", "--bandwidth", "50"}), "--bandwidth");
  expect_refused(words({"--ports", "3", "--uncertainty", "-1"}), "--uncertainty: '-1' is no part of a demand");
  expect_refused(words({"--ports", "3", "--uncertainty", "x%"}), "--uncertainty");
  expect_refused(words({"--ports", "3", "--direct", "--two-hop"}), "--direct");
  expect_refused(words({"--ports", "2", "--direct"}), "a has 3 partners of demand but only 2 ports");
  expect_refused(words({"--ports", "3", "--demand", folder_.path("none.csv")}), "none.csv");
  const std::string bad = folder_.write("bad.csv", "0,1\n2,x\n");
  expect_refused(words({"--ports", "3", "--demand", bad}), "bad.csv line 2, column 2");
  const std::string apart = folder_.write("apart.csv", "0,1,0,0\n1,0,0,0\n0,0,0,1\n0,0,1,0\n");
  expect_refused({"topology", "--demand", apart, "--ports", "1", "-o", folder_.path("f.json")},
                 "-o: the links leave parts that nothing joins");
  EXPECT_THAT(folder_.names(), Not(::testing::Contains("f.json")));
  expect_refused({"topology"}, "give --ranks N --degree D, or --demand FILE --ports N");
}

}  // namespace
}  // namespace banyan::app
