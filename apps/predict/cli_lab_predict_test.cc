// Predicted and measured times where links have the rates that the fabric says: in labs. Skipped by name where network
// namespaces are refused.
//
// Expectations. A run takes longer than the prediction, by what packets cost that the simulation does not know:
// headers are 66 bytes in 9014, acknowledgements of the other direction half as much, together 1.1 %; headers of slices
// 16 bytes in 128 KiB. On top comes what TCP loses where several streams share a queue, and other work on this machine.
// With large slices both stray: of 16 MiB in slices of 1 MiB, an allreduce took 8 % less than predicted on the torus
// and 5 % more on the leaf-spine fabric. Probably because the engine sends the slices of trees that share a link one
// after the other, where the simulation lets them share it all the time. So slices are small here.
//
// 12 runs of each case on two busy cores took between 0.3 % less and 2.6 % more than predicted, the medians of the
// cases 0.1 to 2.0 % more.
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "apps/test_banyan_process.h"
#include "banyan/testing/test.h"
#include "lab/network_namespace.h"

namespace banyan::app {
namespace {

using Json = nlohmann::json;

constexpr double kLeast = 0.98, kMost = 1.05;  // of the predicted time
// Other work can only make it longer: the best of so many.
constexpr int kTries = 3;
constexpr const char* kSlice = "128KiB";

struct Case {
  const char* name;
  const char* fabric;
  const char* collective;
  const char* bytes;
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

class LabPrediction : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::string reason = lab::why_no_lab();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
  void TearDown() override {
    if (!IsSkipped()) run_banyan({"lab", "down", "--name", name_});
  }

  // Seconds of one execution of the plan: the median of five, each of the slowest rank, all of them checked.
  double measure(const std::string& plan) const {
    const Case& test = GetParam();
    const Outcome run = run_banyan({"lab",
                                    "run",
                                    "--name",
                                    name_,
                                    "--no-prefix",
                                    "--",
                                    "env",
                                    "BANYAN_PLAN=" + plan,
                                    std::string("BANYAN_SLICE=") + kSlice,
                                    BANYAN_BINARY,
                                    "bench",
                                    test.collective,
                                    "--sizes",
                                    test.bytes,
                                    "--out-of-place",
                                    "--warmup",
                                    "1",
                                    "--iterations",
                                    "1",
                                    "--json"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    if (run.exit_code != 0) return 0;
    const Json report = Json::parse(run.out);
    EXPECT_EQ(report["wrong"], 0u);
    return report["rows"][0]["time_us"].get<double>() * 1e-6;
  }

  const std::string name_ = "time" + std::to_string(getpid());
};

INSTANTIATE_TEST_SUITE_P(
    Of, LabPrediction,
    ::testing::Values(Case{"Ring", "ring:4@200Mb/s", "allreduce", "16MiB"},
                      Case{"OneSwitch", "star:4@400Mb/s", "allreduce", "32MiB"},
                      Case{"LeafSpine", "leaf-spine:leaves=2,hosts=2,spines=2@200Mb/s", "allgather", "32MiB"},
                      Case{"Torus", "torus:3x3@100Mb/s", "reduce-scatter", "32MiB"},
                      Case{"OneSlowLink", "a <-> sw 400Mb/s; b <-> sw 400Mb/s; c <-> sw 400Mb/s; d <-> sw 100Mb/s",
                           "allgather", "16MiB"},
                      Case{"Broadcast", "star:4@400Mb/s", "broadcast", "32MiB"}),
    [](const auto& test) { return test.param.name; });

TEST_P(LabPrediction, IsHowLongItTakes) {
  const Case& test = GetParam();
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json");
  const Outcome planned = run_banyan({"plan", test.collective, test.fabric, "-o", plan});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  const Outcome simulated = run_banyan({"predict", plan, "--bytes", test.bytes, "--slice", kSlice, "--json"});
  ASSERT_EQ(simulated.exit_code, 0) << simulated.err;
  const double predicted = Json::parse(simulated.out)["time_ps"].get<double>() * 1e-12;
  ASSERT_GT(predicted, 0.2) << "too short to be measured";

  const Outcome up = run_banyan({"lab", "up", test.fabric, "--name", name_});
  ASSERT_EQ(up.exit_code, 0) << up.err;
  double best = measure(plan);
  for (int attempt = 1; attempt < kTries && best > kMost * predicted; ++attempt) best = std::min(best, measure(plan));
  EXPECT_GE(best, kLeast * predicted) << "predicted " << predicted << " s";
  EXPECT_LE(best, kMost * predicted) << "predicted " << predicted << " s";
  RecordProperty("measured_over_predicted", std::to_string(best / predicted));
}

}  // namespace
}  // namespace banyan::app
