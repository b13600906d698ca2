// End to end: real processes, real bytes, every collective over both transports, checked by the program against a
// serial computation.

#include <nlohmann/json.hpp>

#include "apps/test_banyan_process.h"
#include "banyan/base/file.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using Json = nlohmann::json;

class Run : public ::testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {
 protected:
  std::string collective_ = std::get<0>(GetParam()), processes_ = std::get<1>(GetParam()),
              transport_ = std::get<2>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(EndToEnd, Run,
                         ::testing::Combine(::testing::Values("allgather", "reduce-scatter", "allreduce", "broadcast",
                                                              "reduce"),
                                            ::testing::Values("2", "3", "5", "8"), ::testing::Values("shm", "tcp")),
                         [](const auto& case_info) {
                           std::string name = std::string(std::get<0>(case_info.param)) + "_" +
                                              std::get<1>(case_info.param) + "_" + std::get<2>(case_info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// 1,000,003 bytes: shards, chunks and slices all end unevenly.
TEST_P(Run, PutsEveryElementWhereItBelongs) {
  const Json report = json_of({"run", collective_, "-n", processes_, "--transport", transport_, "--bytes", "1000003",
                               "--slice", "64KiB", "--repeat", "2", "--json"});
  EXPECT_EQ(report["collective"], collective_);
  EXPECT_EQ(report["transport"], transport_);
  EXPECT_EQ(std::to_string(report["processes"].get<int>()), processes_);
  EXPECT_EQ(report["elements"], 250'000u);
  EXPECT_EQ(report["bytes"], 1'000'000u);
  EXPECT_EQ(report["correct"], true);
  EXPECT_EQ(report["wrong_elements"], 0u);
  EXPECT_GT(report["bytes_sent"].get<uint64_t>(), 0u);
  EXPECT_GT(report["seconds"]["median"].get<double>(), 0);
  EXPECT_LE(report["seconds"]["min"].get<double>(), report["seconds"]["median"].get<double>());
  EXPECT_GT(report["algbw_GBps"].get<double>(), 0);
}

struct Shape {
  const char* name;
  std::vector<std::string> arguments;
};

class RunShape : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(
    Of, RunShape,
    ::testing::Values(
        Shape{"BoxWithSwitch", {"allreduce", "--fabric", "dgx-a100:1"}},
        Shape{"Torus", {"allgather", "--fabric", "torus:3x3", "--transport", "tcp"}},
        Shape{"FirstRanksOfABox", {"reduce-scatter", "--fabric", "dgx-h100:2", "-n", "5"}},
        Shape{"SomeRanks", {"allreduce", "--fabric", "dgx-a100:1", "--ranks", "1,3-5"}},
        Shape{"UnevenShards", {"allgather", "--fabric", "ring:4", "--weights", "5,0,1,2"}},
        Shape{"UnevenReduce", {"reduce-scatter", "--fabric", "ring:4", "--weights", "1,2,3,4", "--op", "max"}},
        Shape{"OtherRoot", {"broadcast", "-n", "4", "--root", "gpu3", "--type", "int32"}},
        Shape{"AllBits", {"allreduce", "-n", "3", "--op", "band", "--type", "int16"}},
        Shape{"AnyBits", {"reduce-scatter", "-n", "5", "--op", "bor", "--type", "uint64", "--transport", "tcp"}},
        Shape{"OddBits", {"reduce", "-n", "4", "--op", "bxor", "--type", "uint8", "--root", "1"}},
        Shape{"RootOfReduce", {"reduce", "-n", "4", "--root", "2", "--op", "min", "--type", "float64"}},
        Shape{"FailedLink", {"allreduce", "--fabric", "full:4", "--fail", "gpu0-gpu1", "--type", "int32"}},
        Shape{"OneElement", {"allreduce", "-n", "3", "--bytes", "4"}},
        Shape{"FewerElementsThanRanks", {"reduce-scatter", "-n", "5", "--bytes", "12"}}),
    [](const auto& case_info) { return case_info.param.name; });

TEST_P(RunShape, PutsEveryElementWhereItBelongs) {
  std::vector<std::string> arguments{"run", "--repeat", "1", "--json"};
  const auto& shape = GetParam().arguments;
  if (std::find(shape.begin(), shape.end(), "--bytes") == shape.end())
    arguments.insert(arguments.end(), {"--bytes", "300kB"});
  arguments.insert(arguments.end(), shape.begin(), shape.end());
  EXPECT_EQ(json_of(arguments)["correct"], true);
}

TEST(RunText, SaysWhatWasCheckedAndHowFastItWas) {
  const Outcome outcome = run_banyan({"run", "allreduce", "-n", "2", "--bytes", "1MiB"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("of 1MiB of float32 (sum) on 2 processes over shm"));
  EXPECT_THAT(outcome.out, HasSubstr("every element is right on every rank"));
  EXPECT_THAT(outcome.out, HasSubstr("busbw"));
}

TEST(RunPredict, StandsBesideTheSimulation) {
  const Outcome outcome =
      run_banyan({"run", "allreduce", "--fabric", "torus:3x3", "--bytes", "300kB", "--predict", "--alpha", "3us"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("as predicted on 36 of 36 links\n"));
  EXPECT_THAT(outcome.out, HasSubstr("the fabric's links are not this machine's"));
  EXPECT_THAT(outcome.out, HasSubstr("error "));
}

TEST(RunAllToAll, SendsWhatATrafficMatrixSaysAsPredicted) {
  const TemporaryFolder folder;
  const std::string traffic = folder.path("traffic.csv"), plan = folder.path("plan.json");
  write_file(traffic, "0,3MB,0,1MB\n2MB,5MB,0,0\n0,0,0,0\n1MB,0,0,0\n");  // rank 2 sends and receives nothing
  ASSERT_EQ(run_banyan({"plan", "all-to-all", "ring:4", "--traffic", traffic, "-o", plan}).exit_code, 0);
  for (const std::vector<std::string>& what :
       {std::vector<std::string>{"all-to-all", "--fabric", "ring:4", "--traffic", traffic},
        {"--plan", plan},
        {"all-to-all", "--fabric", "torus:2x4"},
        {"all-to-all", "--fabric", "dgx-a100:2", "--transport", "tcp"},
        {"all-to-all", "--fabric", "leaf-spine:leaves=2,hosts=3,spines=2"}}) {
    std::vector<std::string> words{"run", "--bytes", "300kB", "--repeat", "2", "--predict", "--json"};
    words.insert(words.end(), what.begin(), what.end());
    const Json report = json_of(words);
    EXPECT_EQ(report["collective"], "all-to-all");
    EXPECT_EQ(report["correct"], true);
    EXPECT_EQ(report["predicted"]["links_agreeing"], report["predicted"]["links"]) << report;
  }
  EXPECT_THAT(run_banyan({"run", "--plan", plan, "--traffic", traffic}).err, HasSubstr("leave --ranks"));
  EXPECT_THAT(run_banyan({"run", "allreduce", "-n", "4", "--traffic", traffic}).err, HasSubstr("not for allreduce"));
  EXPECT_THAT(run_banyan({"run", "--help"}).out, HasSubstr("--traffic FILE"));
}

// The same time as `predict` says about the same plan, size and slice.
TEST(RunPredict, SaysWhatPredictSays) {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json");
  ASSERT_EQ(run_banyan({"plan", "reduce-scatter", "dgx-a100:1", "-o", plan}).exit_code, 0);
  // 1,000,003 bytes hold 250,000 whole elements; 10,001 bytes 2,500.
  const Json run = json_of({"run", "reduce-scatter", "--plan", plan, "--bytes", "1000003", "--slice", "10001",
                            "--alpha", "2us", "--predict", "--json"});
  const Json predicted = run["predicted"];
  const Json row = json_of({"predict", plan, "--bytes", "1000000", "--slice", "10000", "--alpha", "2us", "--json"});
  EXPECT_DOUBLE_EQ(predicted["seconds"].get<double>(), row["time_ps"].get<double>() * 1e-12);
  EXPECT_EQ(predicted["slice"], 10'000u);
  EXPECT_EQ(predicted["complete"], true);
  EXPECT_EQ(predicted["links_agreeing"], predicted["links"]);
  EXPECT_EQ(predicted["first_other"], nullptr);
  const double measured = run["seconds"]["median"].get<double>();
  EXPECT_NEAR(predicted["error_percent"].get<double>(), 100 * (predicted["seconds"].get<double>() / measured - 1),
              1e-6);
}

TEST(RunPredict, RefusesAnAlphaOfNothing) {
  EXPECT_THAT(run_banyan({"run", "allreduce", "-n", "2", "--alpha", "2us"}).err, HasSubstr("--predict"));
  expect_refused({"run", "allreduce", "-n", "2", "--predict", "--alpha", "2"}, "--alpha");
}

TEST(RunPlan, RefusesWhatThePlanIsNotFor) {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json");
  ASSERT_EQ(run_banyan({"plan", "allgather", "ring:4", "-o", plan}).exit_code, 0);
  const auto refused = [&](std::vector<std::string> arguments, const std::string& reason) {
    arguments.insert(arguments.end(), {"--plan", plan});
    expect_refused(arguments, reason);
  };
  refused({"run", "allreduce"}, "is a plan for allgather, not for allreduce");
  refused({"run", "allgather", "-n", "3"}, "3 processes");
  refused({"run", "allgather", "--ranks", "0-1"}, "--plan");
  EXPECT_EQ(run_banyan({"run", "allgather", "-n", "4", "--bytes", "4KiB", "--plan", plan}).exit_code, 0);
  const Outcome unnamed = run_banyan({"run", "--bytes", "4096", "--plan", plan});
  EXPECT_EQ(unnamed.exit_code, 0) << unnamed.err;
  EXPECT_THAT(unnamed.out, HasSubstr("allgather  of 4096 bytes of float32 on 4 processes"));
}

}  // namespace
}  // namespace banyan::app
