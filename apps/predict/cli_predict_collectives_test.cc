// `banyan predict --collectives messages`: training steps, traces and several jobs whose collectives are carried out
// message by message.

#include <nlohmann/json.hpp>

#include "apps/test_banyan_process.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using Json = nlohmann::json;

Json json_with(const std::string& collectives, std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--collectives", collectives, "--json"});
  return json_of(arguments);
}

const std::vector<std::string> kStep = words_of(
    "predict train --layers 2 --hidden 512 --tp 2 --dp 2 --global-batch 4 "
    "--fabric leaf-spine:leaves=2,hosts=2,spines=1@10GB/s");

TEST(CliPredictCollectives, CarryOutMessagesWhenAsked) {
  for (const char* algorithm : {"rings", "forest", "ring", "double-binary-tree"}) {
    std::vector<std::string> step = kStep;
    step.insert(step.end(), {"--algorithm", algorithm});
    const Json flow = json_with("flow", step), messages = json_with("messages", step);
    EXPECT_EQ(flow["simulated"]["messages"], 0) << algorithm;
    EXPECT_GT(messages["simulated"]["messages"].get<int>(), 20) << algorithm;
    EXPECT_EQ(messages["simulated"]["rank_kinds"], 4) << algorithm;
    // The same bytes on every link.
    double sum = 0, sum_of_messages = 0;
    for (const Json& bytes : flow["links"]["bytes"]) sum += bytes.get<double>();
    for (const Json& bytes : messages["links"]["bytes"]) sum_of_messages += bytes.get<double>();
    EXPECT_NEAR(sum_of_messages / sum, 1, 1e-9) << algorithm;
  }
  std::vector<std::string> words = kStep;
  words.insert(words.end(), {"--collectives", "messages"});
  const Outcome text = run_banyan(words);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("messages of collectives"));
}

TEST(CliPredictCollectives, GoForSeveralJobs) {
  const TemporaryFolder folder;
  const std::string jobs = folder.write("jobs.json", R"({"banyan": "jobs/1", "jobs": [
    {"name": "one", "train": {"layers": 2, "hidden": 512, "dp": 4, "global-batch": 4}, "weight": 2},
    {"name": "two", "train": {"layers": 2, "hidden": 512, "dp": 4, "experts": 4, "global-batch": 4}}]})");
  const Json json = json_with("messages", {"predict", "job", "--jobs", jobs, "--placement", "round-robin", "--fabric",
                                           "leaf-spine:leaves=2,hosts=4,spines=1@10GB/s"});
  ASSERT_EQ(json["jobs"].size(), 2u);
  for (const Json& job : json["jobs"]) {
    EXPECT_GE(job["end_ps"].get<int64_t>() - job["begin_ps"].get<int64_t>(), job["alone_ps"].get<int64_t>()) << job;
  }
  EXPECT_GT(json["simulated"]["messages"].get<int>(), 100);
}

TEST(CliPredictCollectives, AreRefusedInOneLineWhereThereAreNoMessages) {
  const TemporaryFolder folder;
  std::vector<std::string> step = kStep;
  step.insert(step.end(), {"--collectives", "packets"});
  expect_refused(step, "--collectives: 'packets' is neither flow nor messages");

  std::string curve = "size(B),time(us)\n";
  for (int i = 1; i <= 64; ++i) curve += std::to_string(i << 20) + "," + std::to_string(30 + i * 10.0) + "\n";
  const std::string costs = folder.path("costs.json");
  ASSERT_EQ(run_banyan(
                {"predict", "calibrate", folder.write("allreduce_2ranks.csv", curve), "--link", "300GB/s", "-o", costs})
                .exit_code,
            0);
  step.back() = "messages";
  step.insert(step.end(), {"--costs", costs});
  EXPECT_THAT(refusal_of(step), AllOf(HasSubstr("of group '"), HasSubstr("(--costs)"), HasSubstr("--collectives flow"),
                                      Not(HasSubstr("internal"))));
}

}  // namespace
}  // namespace banyan::app
