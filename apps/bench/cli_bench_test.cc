// `banyan bench` with real ranks.

#include <nlohmann/json.hpp>

#include "apps/bench/bench_measure.h"
#include "apps/test_banyan_process.h"
#include "banyan/base/file.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using Json = nlohmann::json;

TEST(BenchCli, EveryCollectiveOfTwoAndThreeRanksIsRight) {
  for (const char* ranks : {"2", "3"}) {
    const Json json = json_of({"bench", "all", "-g", ranks, "--sizes", "0,4,1000,70000", "--min-seconds", "0.001",
                               "--warmup", "1", "--root", "all", "--json"});
    EXPECT_EQ(json["wrong"], 0);
    size_t checked = 0;
    for (const Json& row : json["rows"]) {
      EXPECT_GT(row["time_us"], 0) << row;
      checked += row["wrong"].is_null() ? 0 : 1;
    }
    const size_t n = std::stoul(ranks);
    // Five without a root, of which one only out of place; four with one; and the barrier.
    EXPECT_EQ(json["rows"].size(), 4 * (4 * 2 + 1 + 4 * 2 * n) + 1);
    EXPECT_EQ(checked, json["rows"].size() - 1);
  }
}

TEST(BenchCli, EveryTypeAndOpIsRight) {
  const Outcome outcome =
      run_banyan({"bench", "allreduce,reduce-scatter", "-g", "2", "--type", "all", "--op", "all", "--sizes", "1000",
                  "--min-seconds", "0", "--warmup", "0", "--memory", "registered"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("# banyan 0."), HasSubstr("#  Rank 1 Pid "), HasSubstr("bfloat16"),
                                 HasSubstr("# Out of bounds values : 0 OK"), HasSubstr("# Avg bus bandwidth")));
}

TEST(BenchCli, BitwiseOpsAreMeasuredOfTheTypesThatHaveThem) {
  const auto ops_by_type = [](const char* types, const char* ops) {
    const Json json = json_of({"bench", "reduce", "-g", "3", "--type", types, "--op", ops, "--sizes", "1001",
                               "--min-seconds", "0", "--warmup", "0", "--json"});
    EXPECT_EQ(json["wrong"], 0);
    std::string rows;
    for (const Json& row : json["rows"]) {
      if (!row["in_place"].get<bool>())
        rows += row["type"].get<std::string>() + " " + row["redop"].get<std::string>() + ";";
    }
    return rows;
  };
  EXPECT_EQ(ops_by_type("uint16,float32", "sum,bxor"), "uint16 sum;uint16 bxor;float32 sum;");
  EXPECT_EQ(ops_by_type("float64", "all"), "float64 sum;float64 prod;float64 min;float64 max;float64 avg;");
  EXPECT_EQ(ops_by_type("int64", "band,bor"), "int64 band;int64 bor;");
}

TEST(BenchCli, WritesFilesAndDrawsThem) {
  const TemporaryFolder folder;
  const std::string csv = folder.path("first.csv"), plot = folder.path("curves.svg");
  const std::vector<std::string> words{"bench", "allgather",     "-g",   "2", "-b", "8", "-e",
                                       "4KiB",  "--min-seconds", "0.001"};
  std::vector<std::string> first = words, second = words;
  first.insert(first.end(), {"--csv", csv});
  second.insert(second.end(), {"--plot", plot, "--against", csv});
  ASSERT_EQ(run_banyan(first).exit_code, 0);
  EXPECT_THAT(read_file(csv), HasSubstr("allgather,2,8,1,float32,none,-1,0,"));
  ASSERT_EQ(run_banyan(second).exit_code, 0);
  EXPECT_THAT(read_file(plot), AllOf(HasSubstr("first allgather"), HasSubstr("now: allgather")));
}

TEST(BenchCli, TakesTheCommandLineOfNcclTests) {
  const Json report =
      json_of(words_of("bench all_reduce_perf -b 1K -e 4K -f 2 -g 2 -n 3 -w 1 -c 2 -o max -d half -r 0 --json"));
  std::string rows;
  for (const Json& row : report["rows"]) {
    EXPECT_EQ(row["wrong"], 0);
    rows += row["collective"].get<std::string>() + " " + std::to_string(row["bytes"].get<uint64_t>()) + " " +
            row["type"].get<std::string>() + " " + row["redop"].get<std::string>() + ";";
  }
  EXPECT_EQ(rows,
            "allreduce 1024 float16 max;allreduce 1024 float16 max;allreduce 2048 float16 max;"
            "allreduce 2048 float16 max;allreduce 4096 float16 max;allreduce 4096 float16 max;");
}

TEST(BenchCli, StepsByAFixedSize) {
  const Json report = json_of(words_of("bench -b 8 -e 24 -i 8 -n 1 -c 0 --in-place --json"));
  std::vector<uint64_t> sizes;
  for (const Json& row : report["rows"]) {
    EXPECT_TRUE(row["wrong"].is_null());
    sizes.push_back(row["bytes"]);
  }
  EXPECT_EQ(sizes, (std::vector<uint64_t>{8, 16, 24}));
}

// One call that is a thousand times quicker than all others must not make a block a thousand times too long.
TEST(BenchMeasure, NoSingleCallDecidesHowManyFillABlock) {
  uint64_t trials = 0;
  const auto seconds_of = [&](uint64_t calls) {
    const double slow = 1e-3 * static_cast<double>(calls);
    return ++trials == 1 ? 1e-6 : slow;
  };
  const uint64_t calls = calls_that_fill(0.02, seconds_of);
  EXPECT_GE(calls, 5u);
  EXPECT_LE(calls, 40u);
}

TEST(BenchMeasure, OnePauseDoesNotMakeABlockShort) {
  uint64_t trials = 0;
  const auto seconds_of = [&](uint64_t calls) { return (++trials == 1 ? 0.5 : 0) + 1e-5 * static_cast<double>(calls); };
  EXPECT_NEAR(static_cast<double>(calls_that_fill(0.02, seconds_of)), 2000, 10);
}

TEST(BenchCli, NamesWhatIsWrong) {
  EXPECT_THAT(run_banyan({"bench", "alreduce"}).err, HasSubstr("did you mean 'allreduce'?"));
  EXPECT_THAT(run_banyan({"bench", "-n", "0"}).err, HasSubstr("--iterations"));
  EXPECT_THAT(run_banyan({"bench", "-g", "0"}).err, HasSubstr("--processes"));
  EXPECT_THAT(run_banyan({"bench", "-i", "0"}).err, HasSubstr("--step-bytes: is zero bytes"));
  EXPECT_THAT(run_banyan({"bench", "-b", "1", "-e", "1M", "-i", "1"}).err, HasSubstr("more than 1000 sizes"));
  EXPECT_THAT(run_banyan({"bench", "--max-bytes", "2"}).err, HasSubstr("--max-bytes: is below --min-bytes"));
  EXPECT_THAT(run_banyan({"bench", "--step-factor", "x"}).err, HasSubstr("--step-factor"));
  EXPECT_THAT(run_banyan({"bench", "--memory", "gpu"}).err, HasSubstr("neither ordinary nor registered"));
  EXPECT_THAT(run_banyan({"bench", "--plot", "/no/such/folder/x.svg"}).err, HasSubstr("/no/such/folder"));
  EXPECT_EQ(run_banyan({"bench", "--op", "mean"}).exit_code, 2);
  EXPECT_THAT(run_banyan({"bench", "--op", "sum,bor", "--type", "half,double"}).err,
              HasSubstr("--op: bor is for integers, not float16; give the same bits as uint16"));
  EXPECT_THAT(run_banyan({"bench", "--op", "mulsum"}).err, HasSubstr("--op: premul_sum has a factor for each rank"));
}

}  // namespace
}  // namespace banyan::app
