// `banyan predict`: what it says about plans, training steps and traces, and how it refuses what is wrong.
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "apps/test_banyan_process.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using Json = nlohmann::json;

TEST(CliPredict, TellsTimeThroughputAndBusiestLinksOfAPlan) {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json");
  ASSERT_EQ(run_banyan({"plan", "allgather", "ring:4@1GB/s", "-o", plan}).exit_code, 0);
  const Outcome outcome = run_banyan({"predict", plan, "--bytes", "64MB"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("64 MB"), HasSubstr("algbw"), HasSubstr("gpu0 -> gpu1")));
  // Both directions, three quarters of 64 MB over two links of 1 GB/s: 24 ms, and a little for filling the trees.
  const Json json = json_of({"predict", plan, "--bytes", "64MB", "--alpha", "0 us", "--json"});
  EXPECT_EQ(json["banyan"], "prediction/1");
  EXPECT_TRUE(json["complete"].get<bool>());
  const double seconds = json["time_ps"].get<double>() * 1e-12;
  EXPECT_GE(seconds, 24e-3);
  EXPECT_LT(seconds, 26e-3);
  ASSERT_EQ(json["links"]["bytes"].size(), 8u);
  EXPECT_EQ(json["points"].size(), 1u);
}

TEST(CliPredict, FindsTheBestPlanForEverySize) {
  const Json json = json_of({"predict", "allreduce", "dgx-a100:2", "--sweep", "1KiB:64MiB", "--json"});
  std::set<uint64_t> sizes;
  for (const Json& point : json["points"]) sizes.insert(point["total_bytes"].get<uint64_t>());
  EXPECT_EQ(sizes.size(), 17u);  // 2^10 to 2^26
  const Outcome table = run_banyan({"predict", "allreduce", "dgx-a100:2", "--sweep", "1KiB:4KiB"});
  EXPECT_THAT(table.out, AllOf(HasSubstr("best plan"), HasSubstr("1 KiB"), HasSubstr("4 KiB")));
}

TEST(CliPredict, GivesFoldedTheAnswerOfUnfolded) {
  const auto folded = words_of("predict allreduce dgx-a100:2 --bytes 8MiB --slice 512KiB --json");
  std::vector<std::string> unfolded = folded;
  unfolded.push_back("--unfolded");
  const Json a = json_of(folded), b = json_of(unfolded);
  ASSERT_EQ(a["points"].size(), b["points"].size());
  for (size_t i = 0; i < a["points"].size(); ++i) {
    EXPECT_NEAR(a["points"][i]["time_ps"].get<double>(), b["points"][i]["time_ps"].get<double>(), 100);
  }
}

TEST(CliPredict, LetsPlanChooseBySimulation) {
  const Json small = json_of({"plan", "allreduce", "ring:16@1GB/s", "--bytes", "1KiB", "--json"});
  const Json large = json_of({"plan", "allreduce", "ring:16@1GB/s", "--bytes", "1GiB", "--json"});
  for (const Json& plan : {small, large}) {
    int64_t least = INT64_MAX;
    for (const Json& row : plan["chosen_for"]["simulated"]) least = std::min(least, row["time_ps"].get<int64_t>());
    EXPECT_EQ(plan["chosen_for"]["simulated"][0]["time_ps"].get<int64_t>(), least);
    EXPECT_EQ(plan["chosen_for"]["planner"], plan["chosen_for"]["simulated"][0]["planner"]);
  }
}

TEST(CliPredict, SimulatesATrainingStep) {
  const TemporaryFolder folder;
  const std::string page = folder.path("step.html"), trace = folder.path("step.trace"), file = folder.path("step.json");
  const Json json = json_of(
      words_of("predict train --layers 8 --hidden 1024 --tp 2 --pp 2 --dp 4 --global-batch 32 --fabric dgx-a100:2 "
               "--what-if --html " +
               page + " --trace " + trace + " -o " + file + " --json"));
  EXPECT_TRUE(json["complete"].get<bool>());
  ASSERT_EQ(json["ranks"].size(), 16u);
  EXPECT_LT(json["simulated"]["rank_kinds"].get<int>(), 16);
  EXPECT_EQ(json["what_if"].size(), 4u);
  EXPECT_EQ(json["training"]["tp"], 2);
  EXPECT_TRUE(json["training"]["memory"]["fits"].get<bool>());
  for (const Json& rank : json["ranks"]) {
    int64_t sum = 0;
    for (const char* part : {"compute_ps", "exposed_ps", "waiting_ps", "host_ps", "bubble_ps"}) {
      sum += rank[part].get<int64_t>();
    }
    EXPECT_EQ(sum, json["time_ps"].get<int64_t>());
  }
  EXPECT_THAT(folder.read("step.html"), AllOf(HasSubstr("<!doctype html>"), Not(HasSubstr("http://localhost"))));
  for (const char* fact :
       {"Model FLOPs utilisation", "Tokens", "Memory", "Launches and gaps between kernels", "Device"})
    EXPECT_THAT(folder.read("step.html"), HasSubstr("[\"" + std::string(fact) + "\",\""));
  EXPECT_TRUE(Json::accept(folder.read("step.trace")));
  Json written = Json::parse(folder.read("step.json"));
  EXPECT_FALSE(written["spans"]["rank"].empty());
  written["spans"] = json["spans"];
  EXPECT_EQ(written, json) << "what --json prints is what -o writes, but for the spans";
  const Outcome text = run_banyan({"predict", "train", "--model", "gpt3-175b", "--tp", "8", "--pp", "8", "--dp", "8",
                                   "--global-batch", "64", "--recompute", "full", "--fabric", "dgx-a100:64"});
  EXPECT_THAT(text.out, AllOf(HasSubstr("TFLOP/s a device"), HasSubstr("memory"), HasSubstr("busiest links")));
  EXPECT_THAT(text.out, AllOf(HasSubstr("which a faster device does not shorten"), Not(HasSubstr("\ntime "))))
      << "the step says it";
}

TEST(CliPredict, ShowsLinksThatLookAlikeOnce) {
  const std::string boxes = run_banyan({"predict", "allgather", "dgx-a100:2"}).out;
  EXPECT_THAT(boxes, AllOf(HasSubstr("gpu0 -> nvsw0 and 31 like it"), HasSubstr("gpu0 -> ib0 and 31 like it")));
  const std::string alone = run_banyan({"predict", "train", "--layers", "2", "--hidden", "512", "--global-batch", "4",
                                        "--fabric", "dgx-a100:1"})
                                .out;
  EXPECT_THAT(alone, AllOf(HasSubstr(" a step: "), Not(HasSubstr("busiest links")))) << "no link is used";
}

constexpr const char* kGoal =
    "num_ranks 2\n"
    "rank 0 {\n  a: calc 1000000\n  b: send 1000000b to 1\n  b requires a\n}\n"
    "rank 1 {\n  recv 1000000b from 0\n}\n";

TEST(CliPredict, SimulatesTraces) {
  const TemporaryFolder folder;
  const std::string goal = folder.write("pair.goal", kGoal);
  const Json json = json_of({"predict", "job", goal, "--fabric", "star:2@1GB/s", "--json"});
  // 1 ms of work, 5 us for the message, 1 ms for 1 MB over 1 GB/s.
  EXPECT_EQ(json["time_ps"], 2'005'000'000);
  EXPECT_EQ(json["simulated"]["nodes"], 3);
}

TEST(CliPredict, SimulatesJobsTogetherAndAlone) {
  const TemporaryFolder folder;
  const std::string goal = folder.write("pair.goal", kGoal);
  const std::string jobs =
      folder.write("jobs.json", R"({"banyan": "jobs/1", "jobs": [
    {"name": "one", "goal": ")" + goal +
                                    R"(", "ranks": ["gpu0", "gpu2"], "tenant": "a"},
    {"name": "two", "goal": ")" + goal +
                                    R"(", "ranks": ["gpu1", "gpu3"], "tenant": "b", "weight": 2, "start": "0.5 ms"},
    {"name": "step", "train": {"layers": 2, "hidden": 512, "dp": 4, "global-batch": 4}}]})");
  const Json json =
      json_of({"predict", "job", "--jobs", jobs, "--fabric", "leaf-spine:leaves=2,hosts=4,spines=1", "--json"});
  ASSERT_EQ(json["jobs"].size(), 3u);
  for (const Json& job : json["jobs"]) {
    EXPECT_GE(job["end_ps"].get<int64_t>() - job["begin_ps"].get<int64_t>(), job["alone_ps"].get<int64_t>()) << job;
  }
  EXPECT_EQ(json["jobs"][1]["begin_ps"], 500'000'000);
  EXPECT_EQ(json["ranks"].size(), 8u);
}

TEST(CliPredict, SimulatesTheJobsOfTheExample) {
  const Json json = json_of({"predict", "job", "--jobs", BANYAN_SOURCE_DIR "/examples/jobs.json", "--fabric",
                             "dgx-a100:16", "--event", "10ms gpu0-ib0 fail", "--on-failure", "move", "--json"});
  ASSERT_EQ(json["jobs"].size(), 2u);
  EXPECT_EQ(json["jobs"][1]["begin_ps"], 200'000'000'000);
  EXPECT_EQ(json["ranks"].size(), 96u);
}

TEST(CliPredict, WritesWhatHappenedToLinks) {
  const TemporaryFolder folder;
  const std::string file = folder.path("pair.json"), page = folder.path("pair.html");
  const std::string fabric = folder.write("pair.txt", "a <-> s 1GB/s; s <-> b 1GB/s");
  // As above, but the link is down for 1 ms, and has half of its bandwidth for what is left: 0.5 MB in 1 ms.
  const Json json = json_of({"predict", "job", folder.write("pair.goal", kGoal), "--fabric", fabric, "--event",
                             "1.005 ms a-s fail", "--event", "2.005 ms a-s returns", "--event", "2.505 ms a-s=500MB/s",
                             "--event", "9 ms s-b fail", "-o", file, "--html", page, "--json"});
  EXPECT_EQ(json["time_ps"], 3'505'000'000);
  const Json events = Json::parse(folder.read("pair.json"))["link_events"];
  ASSERT_EQ(events.size(), 6u) << "both directions, and none after the end";
  EXPECT_EQ(events[0], (Json{{"time_ps", 1'005'000'000}, {"link", 0}, {"bytes_per_second", 0}}));
  EXPECT_EQ(events[3], (Json{{"time_ps", 2'005'000'000}, {"link", 1}}));
  EXPECT_EQ(events[4], (Json{{"time_ps", 2'505'000'000}, {"link", 0}, {"bytes_per_second", 500'000'000}}));
  EXPECT_THAT(folder.read("pair.html"), HasSubstr("\"kind\":\"down\""));
}

TEST(CliPredict, TakesDevicesForTracesAndJobs) {
  const TemporaryFolder folder;
  const std::string goal = folder.write("pair.goal", kGoal);
  // Links that give half of their bandwidth, messages that cost 20 us: 1 ms of work, 20 us, 1 MB at 0.5 GB/s.
  const std::string devices = folder.write("devices.json", R"({"banyan": "devices/1", "devices": [
    {"name": "slow-card", "like": "h100", "links": {"scale_up": 0.5, "network": 0.5, "latency": "20 us"}}]})");
  const std::vector<std::string> question = {"predict",   "job",   goal,    "--fabric",  "star:2@1GB/s",
                                             "--devices", devices, "--gpu", "slow-card", "--json"};
  EXPECT_EQ(json_of(question)["time_ps"], 3'020'000'000);
  const std::string jobs = folder.write(
      "jobs.json", R"({"banyan": "jobs/1", "jobs": [{"train": {"gpu": "slow-card", "layers": 2, "hidden": 512, "dp": 2,
    "global-batch": 2}}]})");
  const Json json =
      json_of({"predict", "job", "--jobs", jobs, "--devices", devices, "--fabric", "star:2@1GB/s", "--json"});
  EXPECT_TRUE(json["complete"].get<bool>());
  EXPECT_EQ(json["ranks"].size(), 2u);
  expect_refused({"predict", "job", goal, "--fabric", "star:2", "--devices", devices},
                 "--devices: says nothing without --gpu");
  expect_refused({"predict", "job", goal, "--fabric", "star:2", "--devices", devices, "--gpu", "slow-car"},
                 "did you mean 'slow-card'?");
  expect_refused({"predict", "job", "--jobs", jobs, "--fabric", "star:2"},
                 "jobs[0] --gpu: device 'slow-card' is not known");
}

// The step would take gigabytes, if it were made first.
TEST(CliPredict, RefusesAJobThatHasNoPlaceBeforeItIsMade) {
  const TemporaryFolder folder;
  const std::string jobs =
      folder.write("jobs.json", R"({"banyan": "jobs/1", "jobs": [{"train": {"layers": 2, "hidden": 512, "dp": 8,
    "accumulate": 1000000}}]})");
  rusage before{}, after{};
  getrusage(RUSAGE_CHILDREN, &before);
  expect_refused({"predict", "job", "--jobs", jobs, "--fabric", "star:2@1GB/s"}, "jobs[0]");
  getrusage(RUSAGE_CHILDREN, &after);
  constexpr int64_t kKilobytes = 400 << 10;
  EXPECT_LT(after.ru_maxrss, std::max<int64_t>(before.ru_maxrss, kKilobytes));
}

TEST(CliPredict, RefusesWhatIsWrongInOneLine) {
  const TemporaryFolder folder;
  expect_refused({"predict"}, "WHAT is required");
  expect_refused({"predict", "nowhere.json"}, "nowhere.json");
  expect_refused({"predict", "allreduce", "dgx-a100:2", "--sweep", "1KiB"}, "--sweep: '1KiB' has no ':'");
  expect_refused({"predict", "allreduce", "dgx-a100:2", "--sweep", "1MiB:1KiB"}, "ends before it begins");
  expect_refused({"predict", "allreduce", "dgx-a100:2", "--bytes", "0"}, "zero bytes");
  expect_refused({"predict", "train", "--model", "gpt3-175b"}, "--fabric");
  expect_refused({"predict", "train", "--model", "gpt5", "--fabric", "dgx-a100:1"}, "--model");
  expect_refused({"predict", "train", "--layers", "4", "--hidden", "512", "--dp", "64", "--fabric", "dgx-a100:1"},
                 "take a larger fabric");
  expect_refused({"predict", "job", "--fabric", "star:2"}, "give one of");
  expect_refused({"predict", "job", folder.write("x.goal", "num_ranks 2\nrank 0 { a: calc 5\n a requires b\n}\n"),
                  "--fabric", "star:2"},
                 "x.goal line");
  expect_refused({"predict", "job", folder.write("y.goal", "num_ranks 2\nrank 0 { send 5b to 1 }\nrank 1 { }\n"),
                  "--fabric", "star:2"},
                 "never received");
  expect_refused({"predict", "job", "--jobs",
                  folder.write("j.json", "{\"banyan\": \"jobs/1\", \"jobs\": [{\"gaol\": 1}]}"), "--fabric", "star:2"},
                 "j.json line 1: jobs[0] has unknown key 'gaol' (did you mean 'goal'?)");
  expect_refused(
      {"predict", "job", "--jobs",
       folder.write("k.json", "{\"banyan\": \"jobs/1\", \"jobs\": [{\"goal\": \"none.goal\"}]}"), "--fabric", "star:2"},
      "k.json jobs[0]");
  expect_refused({"predict", "calibrate", folder.write("c.csv", "size,time\n")}, "c.csv");
}

}  // namespace
}  // namespace banyan::app
