// The contract of the whole program: exit codes, streams, JSON, colour. Bad input has cli_bad_input_test.cc.

#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/test_banyan_process.h"
#include "banyan/base/file.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using Json = nlohmann::json;

// A plan of a small fabric, and what made it.
class PlanFile : public ::testing::Test {
 protected:
  PlanFile() {
    const Outcome outcome = run_banyan({"plan", "allgather", "dgx-a100:2", "-o", plan_});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  }

  TemporaryFolder folder_;
  std::string plan_ = folder_.path("plan.json");
};

class Help : public ::testing::TestWithParam<const char*> {
 protected:
  std::string line_;
};
INSTANTIATE_TEST_SUITE_P(Of, Help,
                         ::testing::Values("fabric", "topology", "plan", "verify", "export", "show", "run", "doctor",
                                           "bench", "compress", "decompress", "predict", "predict train", "predict job",
                                           "predict calibrate", "lab up", "lab run", "lab status", "lab check",
                                           "lab fail", "lab heal", "lab list", "lab down"));

TEST_P(Help, HasExamplesOfItsCommand) {
  std::istringstream words(GetParam());
  std::vector<std::string> arguments{std::istream_iterator<std::string>(words), {}};
  EXPECT_EQ(run_banyan({"help", arguments.front()}).exit_code, 0);
  arguments.push_back("--help");
  const Outcome outcome = run_banyan(arguments);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(outcome.out, HasSubstr(std::string("Examples:\n  banyan ") + GetParam()));
  for (std::istringstream lines(outcome.out.substr(0, outcome.out.find("\nExamples:"))); std::getline(lines, line_);) {
    EXPECT_LE(line_.size(), 80u) << line_;
  }
  EXPECT_THAT(outcome.out, HasSubstr("--json"));
}

TEST(Cli, HasTheUsualWaysToHelpAndVersion) {
  for (const char* word : {"version", "-V", "--version"}) {
    EXPECT_THAT(run_banyan({word}).out, ::testing::MatchesRegex("banyan [0-9]+\\.[0-9]+\\.[0-9]+(\\.dev[0-9]+)?\n"))
        << word;
  }
  EXPECT_THAT(json_of({"version", "--json"})["version"].get<std::string>(), HasSubstr("."));
  EXPECT_EQ(run_banyan({"help"}).out, run_banyan({"--help"}).out);
  EXPECT_EQ(run_banyan({"help", "plan"}).out, run_banyan({"plan", "-h"}).out);
  EXPECT_EQ(run_banyan({"help", "lab", "up"}).out, run_banyan({"lab", "up", "--help"}).out);
}

TEST(Cli, TakesTheCollectiveNamesOfNcclPytorchAndMpi) {
  const std::string own = json_of({"plan", "allreduce", "ring:4", "--json"})["schedule"].dump();
  for (const char* name : {"all_reduce", "all-reduce", "AllReduce", "ncclAllReduce", "MPI_Allreduce"}) {
    EXPECT_EQ(json_of({"plan", name, "ring:4", "--json"})["schedule"].dump(), own) << name;
  }
  EXPECT_EQ(json_of({"plan", "reduce_scatter", "ring:4", "--json"})["collective"], "reduce-scatter");
  const std::string title = json_of({"predict", "all_gather", "ring:4", "--json"})["title"];
  EXPECT_THAT(title, StartsWith("allgather of 1 GiB"));
}

TEST(Cli, ListsWhatOptionsCanName) {
  EXPECT_THAT(run_banyan({"predict", "train", "--list"}).out, HasSubstr("gpt3-175b"));
  const Json lists = json_of({"predict", "train", "--list", "--json"});
  EXPECT_GT(lists["models"].size(), 5u);
  EXPECT_GT(lists["devices"].size(), 5u);
  EXPECT_EQ(json_of({"plan", "--list", "--json"})["planners"][0], "forest");
  EXPECT_TRUE(lists["models"][0]["parameters"].is_number_integer());
  EXPECT_GT(lists["devices"][0]["memory_bytes"], 1u << 30);
  const Json all = json_of({"predict", "--list", "--json"});
  EXPECT_EQ(all["models"], lists["models"]);
  EXPECT_EQ(all["devices"], lists["devices"]);
  EXPECT_EQ(all["planners"], json_of({"plan", "--list", "--json"})["planners"]);
  EXPECT_THAT(run_banyan({"predict", "--list"}).out, AllOf(HasSubstr("gpt3-175b"), HasSubstr("double-binary-tree")));
}

TEST(Cli, ADashIsStandardOutput) {
  const Outcome plan = run_banyan({"plan", "allgather", "ring:4", "-o", "-"});
  EXPECT_EQ(Json::parse(plan.out)["banyan"], "schedule/1") << plan.err;
  EXPECT_THAT(plan.err, HasSubstr("optimal, verified"));
  EXPECT_EQ(run_banyan({"plan", "allgather", "ring:4", "-o", "-", "--json"}).exit_code, 2);
  EXPECT_THAT(run_banyan({"show", "ring:4", "-o", "-"}).out, HasSubstr("<svg"));
  EXPECT_EQ(Json::parse(run_banyan({"fabric", "ring:4", "-o", "-"}).out)["nodes"].size(), 4u);
}

void collect_keys(const Json& value, std::set<std::string>& keys) {
  if (value.is_object()) {
    for (const auto& [key, below] : value.items()) {
      keys.insert(key);
      collect_keys(below, keys);
    }
  }
  for (const Json& item : value.is_array() ? value : Json::array()) collect_keys(item, keys);
}

// Every key that --json prints is named in the documentation.
TEST_F(PlanFile, JsonHasDocumentedKeysOnly) {
  const std::string examples = BANYAN_SOURCE_DIR "/examples/";
  const std::pair<std::vector<std::string>, std::vector<const char*>> commands[] = {
      {{"fabric", "dgx-a100:2+nvls"}, {"cli.md", "formats/plan-json.md"}},
      {{"fabric", "a <-> b 1GB/s loss 0.1; b <-> c 1GB/s; c <-> a 1GB/s", "--loss-report"}, {"cli.md"}},
      {{"fabric", "--list"}, {"cli.md"}},
      {{"topology", "--demand", examples + "demand.csv", "--ports", "4"}, {"cli.md"}},
      {{"topology", "--ranks", "16", "--degree", "4"}, {"cli.md"}},
      {{"plan", "allgather", "dgx-a100:2", "--compare"}, {"formats/plan-json.md"}},
      {{"plan", "allreduce", "dgx-a100:2", "--bytes", "64KiB"}, {"formats/plan-json.md"}},
      {{"plan", "--repair", plan_, "--fail", "gpu3-ib0"}, {"formats/plan-json.md"}},
      {{"plan", "--list"}, {"cli.md"}},
      {{"verify", plan_}, {"cli.md", "formats/plan-json.md"}},
      {{"export", plan_, "--format", "msccl", "-o", folder_.path("out.xml")}, {"cli.md"}},
      {{"show", "ring:4", "-o", folder_.path("ring.svg")}, {"cli.md"}},
      {{"run", "allreduce", "-n", "2", "--bytes", "64KiB", "--repeat", "1"}, {"cli.md"}},
      {{"run", "-n", "2", "--", "true"}, {"cli.md"}},
      {{"bench", "allreduce", "-g", "2", "--sizes", "4KiB", "-n", "5"}, {"cli.md"}},
      {{"compress", examples + "embedding_gradient.npy", "--speed"}, {"cli.md"}},
      {{"compress", examples + "embedding_gradient.npy", "--bits", "1", "-o", folder_.path("packed")}, {"cli.md"}},
      {{"decompress", folder_.path("packed"), "-o", folder_.path("array.npy")}, {"cli.md"}},
      {{"predict", "allgather", "ring:4"}, {"formats/prediction.md", "formats/fabric.md"}},
      {{"predict", "--list"}, {"cli.md"}},
      {{"predict", "train", "--list"}, {"cli.md"}},
      {{"predict", "train", "--layers", "2", "--hidden", "512", "--global-batch", "2", "--fabric", "dgx-a100:1"},
       {"formats/prediction.md", "formats/fabric.md"}},
      {{"predict", "job", examples + "trace.goal", "--fabric", "ring:4"},
       {"formats/prediction.md", "formats/fabric.md"}},
      {{"predict", "calibrate", examples + "nccl.log", "--ranks", "8"}, {"predict.md", "predict-costs.md", "cli.md"}},
      {{"version"}, {"cli.md"}},
  };
  for (const auto& [arguments, pages] : commands) {
    std::string text;
    for (const char* const page : pages) text += read_file(BANYAN_SOURCE_DIR "/docs/" + std::string(page));
    std::vector<std::string> with_json = arguments;
    with_json.insert(std::find(with_json.begin(), with_json.end(), "--"), "--json");
    std::set<std::string> keys;
    collect_keys(json_of(with_json), keys);
    EXPECT_FALSE(keys.empty());
    for (const std::string& key : keys) {
      EXPECT_TRUE(text.find("`" + key + "`") != std::string::npos || text.find("\"" + key + "\"") != std::string::npos)
          << "'" << key << "' of " << ::testing::PrintToString(arguments) << " is not in docs/" << pages.front();
    }
  }
}

TEST(Fabric, ReportsCountsAndBottleneck) {
  const Json report = json_of({"fabric", "dgx-a100:8", "--json"});
  EXPECT_EQ(report["fabric"], Json::parse(R"({"ranks": 64, "switches": 9, "links": 256})"));
  EXPECT_EQ(report["bandwidths"].size(), 1u);
  EXPECT_EQ(report["bandwidths"][0]["out_bytes_per_second"], 325'000'000'000u);
  EXPECT_EQ(report["bottleneck"]["fraction"], "1600000000000/7");
  const std::string text = run_banyan({"fabric", "dgx-a100:8"}).out;
  EXPECT_THAT(text, HasSubstr("64 ranks, 9 switches, 256 links"));
  EXPECT_THAT(text, HasSubstr("228.57 GB/s"));
}

TEST(Fabric, WritesAFabricThatReadsBackTheSame) {
  const TemporaryFolder folder;
  const std::string file = folder.path("fabric.json");
  const Json written = json_of({"fabric", "dgx-a100:2", "--fail", "gpu3-ib0", "--json", "-o", file});
  EXPECT_EQ(written["fabric"]["links"], 62u);
  EXPECT_EQ(written["name"], "dgx-a100:2 --fail gpu3-ib0");
  EXPECT_EQ(json_of({"fabric", file, "--json"})["fingerprint"], written["fingerprint"]);
}

// Of a file of one server the links between CPUs are assumed, until somebody says how fast they are.
TEST(Fabric, SaysWhatABoundRestsOn) {
  const TemporaryFolder folder;
  const std::string table = BANYAN_SOURCE_DIR "/banyan/fabric/corpus/gpu_matrix/pcie.txt@24GB/s",
                    saved = folder.path("fabric.json");
  const Outcome guess = run_banyan({"fabric", table, "-o", saved});
  EXPECT_THAT(guess.out, AllOf(HasSubstr("so allgathers have up to 12.00 GB/s, as far as is known:"),
                               HasSubstr("cpu0-cpu1 (6 GB/s) assumed"), HasSubstr("--degrade cpu0-cpu1=BANDWIDTH"),
                               HasSubstr("--cpu-link BANDWIDTH"), Not(HasSubstr("no allgather is faster"))));
  EXPECT_THAT(run_banyan({"plan", "allgather", saved}).out,
              HasSubstr("as far as is known: cpu0-cpu1 (6 GB/s) assumed"));
  const Json report = json_of({"fabric", saved, "--json"});
  ASSERT_EQ(report["bottleneck"]["assumed"].size(), 1u);
  EXPECT_EQ(report["bottleneck"]["assumed"][0]["bytes_per_second"], 6'000'000'000u);
  for (const std::vector<std::string>& given :
       {std::vector<std::string>{"--cpu-link", "64GB/s"}, std::vector<std::string>{"--degrade", "cpu0-cpu1=64GB/s"}}) {
    const std::string text = run_banyan({"fabric", table, given[0], given[1]}).out;
    EXPECT_THAT(text, AllOf(HasSubstr("so no allgather is faster than 32.00 GB/s"), Not(HasSubstr("as far as"))))
        << given[0];
  }
}

TEST(Fabric, TakesTheNicsThatAreNamed) {
  const std::string table = BANYAN_SOURCE_DIR "/banyan/fabric/corpus/gpu_matrix/far_nic.txt@24GB/s";
  for (const std::vector<std::string>& nics :
       {std::vector<std::string>{"--nics", "NIC0,NIC1"}, std::vector<std::string>{"--nics=-NIC2"},
        std::vector<std::string>{"--nics", "^NIC2"}, std::vector<std::string>{}}) {
    std::vector<std::string> command{"fabric", table, "--gpu", "a100", "--nic", "100Gb/s", "--boxes", "2"};
    command.insert(command.end(), nics.begin(), nics.end());
    EXPECT_THAT(run_banyan(command).out, HasSubstr("so no allgather is faster than 50.00 GB/s"));
  }
}

// A bandwidth behind the name of a file that is no description of a fabric at all.
TEST(Fabric, LooksAtTheFormatBeforeTheBandwidth) {
  const TemporaryFolder folder;
  const std::string foreign = folder.path("foreign.xml");
  write_file(foreign, "<algo name=\"x\"></algo>\n");
  EXPECT_THAT(run_banyan({"fabric", foreign + "@48GB/s"}).err, HasSubstr("'algo' but NCCL's topology has 'system'"));
}

TEST(Fabric, AppliesEditsInTheOrderGiven) {
  EXPECT_EQ(run_banyan({"fabric", "full:4", "--degrade", "gpu0-gpu1=1GB/s", "--fail", "gpu0-gpu1"}).exit_code, 0);
  const Outcome outcome = run_banyan({"fabric", "full:4", "--fail", "gpu0-gpu1", "--degrade", "gpu0-gpu1=1GB/s"});
  EXPECT_EQ(outcome.exit_code, 2) << "there is no link left to degrade";
}

TEST(Fabric, ShowsWhatSwitchesCanDo) {
  EXPECT_THAT(run_banyan({"fabric", "dgx-h100:2+nvls"}).out,
              HasSubstr("2 switches multicast and reduce (nvsw0, nvsw1)"));
  const Json report = json_of({"fabric", "dgx-h100:2", "--in-network", "ib0=reduce", "--json"});
  EXPECT_EQ(report["in_network"], Json::parse(R"([{"switch": "ib0", "multicast": false, "reduce": true}])"));
  EXPECT_EQ(report["name"], "dgx-h100:2 --in-network ib0=reduce");
  EXPECT_EQ(json_of({"fabric", "dgx-h100:2", "--json"})["in_network"].size(), 0u);
  EXPECT_EQ(json_of({"fabric", "dgx-h100:2", "--in-network", "nvsw*", "--json"})["fingerprint"],
            json_of({"fabric", "dgx-h100:2+nvls", "--json"})["fingerprint"]);
}

TEST(Fabric, ListsGenerators) {
  EXPECT_THAT(run_banyan({"fabric", "--list"}).out, HasSubstr("SPEC+nvls"));
  EXPECT_EQ(json_of({"fabric", "--list", "--json"})["suffixes"].size(), 2u);
  EXPECT_THAT(run_banyan({"fabric", "--list"}).out, HasSubstr("torus:"));
  EXPECT_GT(json_of({"fabric", "--list", "--json"})["generators"].size(), 10u);
}

TEST(Topology, PrintsTheFrontierWithTheBounds) {
  const Json report = json_of({"topology", "--ranks", "16", "--degree", "4", "--bandwidth", "25GB/s", "--json"});
  EXPECT_EQ(report["bound"], Json::parse(R"({"steps": 2, "time_fraction": "15/16"})"));
  EXPECT_EQ(report["link_bytes_per_second"], 25'000'000'000);
  EXPECT_EQ(report["picked"], Json(nullptr));
  ASSERT_EQ(report["topologies"].size(), 2u);
  const Json &low = report["topologies"][0], &wide = report["topologies"][1];
  EXPECT_EQ(low["steps"], 2);
  EXPECT_EQ(wide["steps"], 3);
  EXPECT_EQ(wide["spec"], "circulant:16,3,4@25GB/s");
  EXPECT_EQ(wide["time_fraction"], "15/16");
  EXPECT_DOUBLE_EQ(wide["algbw_GBps"], 100 * 16.0 / 15);
  EXPECT_EQ(wide["all_to_all"]["links_fraction"], "1/8") << "of 2/15, if hops were all";
  EXPECT_EQ(wide["verified"], true);
  const std::string text = run_banyan({"topology", "--ranks", "16", "--degree", "4"}).out;
  EXPECT_THAT(text,
              AllOf(HasSubstr("2 steps (Moore), time 15/16"), HasSubstr("circulant:16,3,4"), HasSubstr("6.25 GB/s")));
  EXPECT_EQ(json_of({"topology", "--ranks", "16", "--degree", "4", "--all", "--json"})["topologies"].size(), 5u);
  const Json cables = json_of({"topology", "--ranks", "16", "--degree", "4", "--cables", "--json"});
  EXPECT_EQ(cables["topologies"].size(), 1u);
  EXPECT_EQ(cables["topologies"][0]["cables"], true);
  EXPECT_EQ(cables["picked"], "circulant:16,3,4@50GB/s");
}

TEST(Topology, WritesAndDrawsWhatWasPicked) {
  const TemporaryFolder folder;
  const std::string file = folder.path("fabric.json"), picture = folder.path("fabric.svg");
  const Json report = json_of(
      {"topology", "--ranks", "16", "--degree", "4", "--pick", "2", "-o", file, "--picture", picture, "--json"});
  EXPECT_EQ(report["picked"], "circulant:16,3,4@50GB/s");
  EXPECT_EQ(json_of({"fabric", file, "--json"})["fingerprint"],
            json_of({"fabric", "circulant:16,3,4@50GB/s", "--json"})["fingerprint"]);
  EXPECT_THAT(read_file(picture), HasSubstr("<svg"));
  const auto picked = [](const std::string& option, const std::string& value) {
    return json_of({"topology", "--ranks", "16", "--degree", "4", option, value, "--json"})["picked"]
        .get<std::string>();
  };
  EXPECT_EQ(picked("--pick", "circulant:16,3,4"), "circulant:16,3,4@50GB/s");
  EXPECT_EQ(picked("--bytes", "1GiB"), "circulant:16,3,4@50GB/s");
  EXPECT_THAT(picked("--bytes", "1KiB"), StartsWith("cayley:m=8"));
}

TEST(Plan, PrintsTheObjectThatScriptsReadFrom) {
  const Json report = json_of({"plan", "allgather", "dgx-h100:8", "--json"});
  EXPECT_EQ(report["collective"], "allgather");
  EXPECT_EQ(report["fabric"], Json::parse(R"({"ranks": 64, "switches": 9, "links": 256})"));
  EXPECT_NEAR(report["bound"]["algbw_GBps"].get<double>(), 457.142857, 1e-5);
  EXPECT_EQ(report["bound"]["fraction"], "3200000000000/7");
  EXPECT_THAT(report["bound"]["witness"].get<std::string>(), HasSubstr("64 shards"));
  EXPECT_NEAR(report["schedule"]["algbw_GBps"].get<double>(), 457.142857, 1e-5);
  EXPECT_EQ(report["schedule"]["optimal"], true);
  EXPECT_GE(report["schedule"]["trees"].get<uint64_t>(), 64u);
  EXPECT_LE(report["schedule"]["height_max"].get<uint64_t>(), 3u);
  EXPECT_GT(report["schedule"]["height_mean"].get<double>(), 0);
  double parts = 0;
  for (const char* phase : {"bound", "switches", "packing", "lowering"})
    parts += report["seconds"][phase].get<double>();
  EXPECT_LE(parts, report["seconds"]["total"].get<double>());
}

TEST(Plan, ProvesItselfInWords) {
  const Outcome outcome = run_banyan({"plan", "allgather", "dgx-a100:2"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("optimal, verified"));
  EXPECT_THAT(outcome.out, HasSubstr("shards over"));
}

TEST(Plan, ComparesWithTheSchedulesOfToday) {
  const Json report = json_of({"plan", "allgather", "dgx-a100:2", "--compare", "--sizes", "1MB,2MiB", "--json"});
  const Json& rows = report["comparison"];
  ASSERT_GE(rows.size(), 6u);
  EXPECT_EQ(rows[0]["planner"], "forest");
  EXPECT_EQ(rows[0]["estimates"][1]["bytes"], 2u * 1024 * 1024);
  for (const Json& row : rows) {
    if (!row.contains("why_not")) {
      EXPECT_GE(row["times_bound"].get<double>(), 1) << row["planner"];
    }
  }
  const std::string text = run_banyan({"plan", "allgather", "dgx-a100:2", "--compare"}).out;
  EXPECT_THAT(text, HasSubstr("64MiB"));
  EXPECT_THAT(text, HasSubstr("ring"));
}

TEST(Plan, ProvesTheBoundOfAnAllreduceByCutsThatCountTogether) {
  const std::string uneven = "random:n=10,links=20";
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json");
  const Json report = json_of({"plan", "allreduce", uneven, "--compare", "--json", "-o", plan});
  EXPECT_TRUE(report["schedule"]["optimal"].get<bool>());
  EXPECT_EQ(report["schedule"]["fraction"], report["bound"]["fraction"]);
  EXPECT_EQ(report["comparison"][0]["times_bound"].get<double>(), 1);
  ASSERT_FALSE(report["bound"]["weighted_cuts"].empty());
  EXPECT_GE(report["bound"]["weighted_cuts"][0]["times"].get<int64_t>(), 1);
  EXPECT_FALSE(report["bound"].contains("cuts"));
  EXPECT_EQ(json_of({"verify", plan, "--json"})["bound"], report["bound"]);
  const std::string planned = run_banyan({"plan", "allreduce", uneven, "--compare"}).out;
  const std::string verified = run_banyan({"verify", plan}).out;
  for (const std::string& text : {planned, verified}) {
    EXPECT_THAT(text,
                AllOf(HasSubstr("\nbound"), HasSubstr("optimal"), HasSubstr("summed and spread crosses the cuts")));
    EXPECT_THAT(text, Not(HasSubstr("reference")));
  }
}

TEST(Cli, ShowsNoControlCharactersOfFileNames) {
  const TemporaryFolder folder;
  const std::string fabric = folder.path("a\x1b[31m\n.json"), plan = folder.path("b\x1b[31m.json");
  ASSERT_EQ(run_banyan({"fabric", "ring:4", "-o", fabric}).exit_code, 0);
  const auto is_harmless = AllOf(Not(HasSubstr("\x1b")), HasSubstr("?[31m"));
  EXPECT_THAT(run_banyan({"fabric", fabric}).out, is_harmless);
  EXPECT_THAT(run_banyan({"plan", "allgather", fabric, "-o", plan}).out, is_harmless);
  EXPECT_THAT(run_banyan({"show", fabric}).out, is_harmless);
  EXPECT_THAT(run_banyan({"predict", "allgather", fabric}).out, is_harmless);
  EXPECT_THAT(run_banyan({"predict", plan, plan}).out, is_harmless);
}

TEST_F(PlanFile, OfSwitchesThatMulticastAndReduce) {
  const std::string file = folder_.path("nvls.json");
  const Json plan = json_of({"plan", "allreduce", "dgx-a100:1+nvls", "-o", file, "--json"});
  EXPECT_NEAR(plan["schedule"]["algbw_GBps"], 300, 1e-9);
  EXPECT_EQ(run_banyan({"verify", file}).exit_code, 0);
  EXPECT_THAT(run_banyan({"plan", "allreduce", "dgx-a100:1+nvls", "--compare"}).out,
              HasSubstr("300.00 GB/s   100.0 %"));
  EXPECT_EQ(run_banyan({"predict", file}).exit_code, 0);
  EXPECT_THAT(run_banyan({"show", file}).out, HasSubstr("class=\"switch\""));
  expect_refused({"run", "--plan", file, "--bytes", "1MiB"}, "branches at switch 'nvsw0'");
  // Without a plan of its own `run` branches at no switch.
  EXPECT_EQ(run_banyan({"run", "allreduce", "--fabric", "dgx-a100:1+nvls", "--bytes", "64KiB"}).exit_code, 0);
  EXPECT_THAT(run_banyan({"plan", "allgather", "shufflecast:fanout=2,columns=2"}).out,
              HasSubstr("whether any trees on this fabric reach the bound is not known"));
}

TEST(Plan, PlansEveryCollectiveForSomeRanksOnly) {
  for (const char* collective : {"allgather", "reduce-scatter", "allreduce", "broadcast", "reduce"}) {
    const Json report = json_of({"plan", collective, "dgx-a100:2", "--ranks", "0-2,gpu9", "--json"});
    EXPECT_EQ(report["participants"], Json({"gpu0", "gpu1", "gpu2", "gpu9"})) << collective;
  }
  EXPECT_EQ(json_of({"plan", "broadcast", "full:4", "--root", "gpu3", "--json"})["root"], "gpu3");
}

TEST(Plan, WeighsShards) {
  const Json even = json_of({"plan", "allgather", "ring:4", "--json"});
  const Json uneven = json_of({"plan", "allgather", "ring:4", "--weights", "1,0,0,0", "--json"});
  EXPECT_NE(even["bound"]["fraction"], uneven["bound"]["fraction"]);
}

TEST(Plan, WritesTheSameBytesForTheSameInput) {
  const TemporaryFolder folder;
  for (const char* name : {"a.json", "b.json"}) run_banyan({"plan", "allreduce", "torus:3x3", "-o", folder.path(name)});
  EXPECT_THAT(folder.names(), ElementsAre("a.json", "b.json"));
  EXPECT_EQ(folder.read("a.json"), folder.read("b.json"));
}

TEST_F(PlanFile, IsVerified) {
  const Json report = json_of({"verify", plan_, "--json"});
  EXPECT_EQ(report["valid"], true);
  EXPECT_EQ(report["schedule"]["optimal"], true);
  EXPECT_THAT(run_banyan({"verify", plan_}).out, StartsWith("valid"));
  EXPECT_EQ(run_banyan({"verify", plan_, "dgx-a100:2"}).exit_code, 0);
}

TEST_F(PlanFile, IsRefusedForAnotherFabric) {
  for (const std::vector<std::string>& other :
       {std::vector<std::string>{"dgx-a100:3"}, {"dgx-a100:2", "--degrade", "gpu0-nvsw0=100GB/s"}}) {
    std::vector<std::string> arguments{"verify", plan_};
    arguments.insert(arguments.end(), other.begin(), other.end());
    expect_refused(arguments, "was planned for another fabric");
  }
}

TEST_F(PlanFile, IsExportedWithTheTableOfWhatItNeeds) {
  // One tree per rank: what the optimum needs may be more than a runtime has.
  ASSERT_EQ(run_banyan({"plan", "allgather", "dgx-a100:2", "--trees", "1", "-o", plan_}).exit_code, 0);
  for (const char* format : {"msccl", "mscclpp"}) {
    const std::string file = folder_.path(format);
    const Outcome outcome = run_banyan({"export", plan_, "--format", format, "-o", file});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "written    " + file + "\n");
    EXPECT_THAT(outcome.err, StartsWith("limit of the runtime"));
    EXPECT_THAT(outcome.err, Not(HasSubstr("written")));
    EXPECT_EQ(run_banyan({"export", plan_, "--format", format}).out, folder_.read(format));
    const Json fit = json_of({"export", plan_, "--format", format, "-o", file, "--json"});
    EXPECT_EQ(fit["fits"], true);
    EXPECT_GT(fit["limits"].size(), 0u);
  }
  EXPECT_THAT(folder_.read("mscclpp"), StartsWith("{\n  \"")) << "indented by two, like all JSON of ours";
}

TEST_F(PlanFile, IsDrawn) {
  EXPECT_THAT(run_banyan({"show", plan_}).out, HasSubstr("<svg"));
  EXPECT_THAT(run_banyan({"show", plan_, "--format", "dot", "--root", "gpu3", "--trees", "1"}).out, HasSubstr("gpu3"));
  const Json drawn = json_of({"show", plan_, "-o", folder_.path("trees.dot"), "--json"});
  EXPECT_EQ(drawn["drawn"], "plan");
  EXPECT_THAT(folder_.read("trees.dot"), StartsWith("digraph"));
}

TEST_F(PlanFile, IsRun) {
  const Json report = json_of({"run", "allgather", "--plan", plan_, "--bytes", "1MiB", "--repeat", "1", "--json"});
  EXPECT_EQ(report["processes"], 16u);
  EXPECT_EQ(report["correct"], true);
}

TEST(Show, DrawsFabrics) {
  EXPECT_THAT(run_banyan({"show", "torus:3x3"}).out, HasSubstr("<svg"));
  EXPECT_THAT(run_banyan({"show", "dgx-a100:1", "--format", "dot"}).out, HasSubstr("nvsw0"));
}

TEST(Output, HasNoColourInAPipe) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"fabric", "ring:4"},
                                                    {"plan", "allgather", "ring:4", "--compare"},
                                                    {"plan", "--help"}}) {
    EXPECT_THAT(run_banyan(arguments).out, Not(HasSubstr("\033")));
  }
}

TEST(Output, HasColourOnATerminalUnlessToldNotTo) {
  const std::vector<std::string> arguments{"plan", "allgather", "ring:4"};
  EXPECT_THAT(run_banyan_on_terminal(arguments).out, HasSubstr("\033[32moptimal"));
  EXPECT_THAT(run_banyan_on_terminal(arguments, {"NO_COLOR=1"}).out, Not(HasSubstr("\033")));
  EXPECT_THAT(run_banyan_on_terminal(arguments, {"TERM=dumb"}).out, Not(HasSubstr("\033")));
}

TEST(Output, ShowsNoProgressOnWhatIsDoneAtOnce) {
  EXPECT_THAT(run_banyan_on_terminal({"plan", "allgather", "ring:4"}).out, Not(HasSubstr("banyan: ")));
}

TEST(Output, IsQuietWhenItsReaderLeaves) {
  const Outcome outcome = run_banyan_into_closed_pipe({"plan", "allgather", "ring:4", "--json"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST(Output, FailsAloudOnAFullDisk) {
  const Outcome outcome = run_banyan_into("/dev/full", {"plan", "allgather", "ring:4"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("banyan: standard output: cannot write it"));
}

}  // namespace
}  // namespace banyan::app
