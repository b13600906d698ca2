#include "banyan/answer/jobs_file.h"

#include "banyan/testing/test.h"

namespace banyan::answer {
namespace {

std::string file_of(const std::string& jobs) { return R"({"banyan": "jobs/1", "jobs": [)" + jobs + "]}"; }

std::string error_of(const std::string& jobs) {
  try {
    parse_jobs_file(file_of(jobs));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input) << error.what();
    EXPECT_EQ(error.where(), "line 1");
    return error.message();
  }
  return "none";
}

TEST(JobsFile, SaysWhatEachJobIsAndWhere) {
  const std::vector<JobEntry> jobs = parse_jobs_file(file_of(R"(
      {"name": "one", "tenant": "a", "goal": "x.goal", "ranks": ["gpu3", "gpu1"], "weight": 0.5, "priority": 7},
      {"chakra": "run", "groups": "groups.json", "placement": "random", "seed": 18446744073709551615, "start": "10 ms"},
      {"train": {"model": "gpt3-13b", "tp": 8, "bucket": "64MiB", "sequence-parallel": true, "fused-attention": false}})"));
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_EQ(jobs[0].name, "one");
  EXPECT_EQ(jobs[0].tenant, "a");
  EXPECT_EQ(jobs[0].goal, "x.goal");
  EXPECT_THAT(jobs[0].place.ranks, ElementsAre("gpu3", "gpu1"));
  EXPECT_EQ(jobs[0].weight, 0.5);
  EXPECT_EQ(jobs[0].priority, 7);
  EXPECT_FALSE(jobs[0].train.has_value());
  EXPECT_EQ(jobs[1].chakra, "run");
  EXPECT_EQ(jobs[1].groups, "groups.json");
  EXPECT_EQ(jobs[1].place.placement, predict::PlacementRule::random);
  EXPECT_EQ(jobs[1].place.seed, UINT64_MAX);
  EXPECT_EQ(jobs[1].start, std::chrono::milliseconds(10));
  ASSERT_TRUE(jobs[2].train.has_value());
  EXPECT_EQ(jobs[2].train->model->name, "gpt3-13b");
  EXPECT_EQ(jobs[2].train->config.tp, 8u);
  EXPECT_EQ(jobs[2].train->config.bucket, Bytes(64 << 20));
  EXPECT_TRUE(jobs[2].train->config.sequence_parallel);
  EXPECT_TRUE(jobs[2].train->unfused_attention);
  EXPECT_FALSE(jobs[2].place.placement.has_value());
  EXPECT_FALSE(jobs[2].place.seed.has_value());
}

TEST(JobsFile, NamesThePlaceOfWhatIsWrong) {
  const std::string good = R"({"goal": "x.goal"},)";
  EXPECT_EQ(error_of(""), "jobs has 0 jobs; give 1 to 10000");
  EXPECT_EQ(error_of("[]"), "jobs[0] is not an object: it is an array");
  EXPECT_THAT(error_of(good + R"({"gaol": "x"})"), HasSubstr("jobs[1] has unknown key 'gaol' (did you mean 'goal'?)"));
  EXPECT_EQ(error_of(R"({"name": "x"})"), "jobs[0] needs one of \"train\", \"goal\" and \"chakra\"");
  EXPECT_THAT(error_of(R"({"goal": "x", "chakra": "y"})"), HasSubstr("needs one of"));
  EXPECT_EQ(error_of(R"({"goal": ""})"), "jobs[0].goal is empty; name a file");
  EXPECT_THAT(error_of(R"({"goal": "x", "groups": "g"})"), HasSubstr("jobs[0].groups is of \"chakra\""));
  EXPECT_THAT(error_of(R"({"goal": "x", "ranks": ["a"], "seed": 3})"), HasSubstr("jobs[0].seed says nothing"));
  EXPECT_THAT(error_of(R"({"goal": "x", "ranks": []})"), HasSubstr("jobs[0].ranks is empty"));
  EXPECT_EQ(error_of(R"({"goal": "x", "ranks": ["a", 4]})"), "jobs[0].ranks[1] is not a text: it is 4");
  EXPECT_THAT(error_of(R"({"goal": "x", "placement": "loose"})"), HasSubstr("jobs[0].placement: unknown placement"));
  EXPECT_THAT(error_of(R"({"goal": "x", "start": "10"})"), HasSubstr("jobs[0].start: "));
  EXPECT_EQ(error_of(R"({"goal": "x", "weight": 0})"), "jobs[0].weight is not a number from 0.001 to 1e+06: it is 0");
  EXPECT_THAT(error_of(R"({"goal": "x", "priority": 2.5})"), EndsWith("from 0 to 255: it is 2.5"));
  EXPECT_THAT(error_of(R"({"goal": "x", "seed": -1})"), HasSubstr("jobs[0].seed is not a whole number"));
}

TEST(JobsFile, TakesOptionsOfTrainAndNothingElse) {
  const auto error = [](const std::string& options) { return error_of("{\"train\": {" + options + "}}"); };
  EXPECT_EQ(error(R"("modle": "gpt3-13b")"),
            "jobs[0].train has 'modle', which is no option of 'banyan predict train' (did you mean 'model'?)");
  EXPECT_THAT(error(R"("help": true)"), HasSubstr("'help', which is no option"));
  EXPECT_THAT(error(R"("": 1)"), HasSubstr("no option"));
  EXPECT_THAT(error(R"("model=x": 1)"), HasSubstr("no option"));
  EXPECT_EQ(error(R"("tp": true)"), "jobs[0].train.tp is not a text or a number: it is true");
  EXPECT_EQ(error(R"("tp": [8])"), "jobs[0].train.tp is not a text or a number: it is an array");
  EXPECT_EQ(error(R"("sequence-parallel": 1)"), "jobs[0].train.sequence-parallel is not true or false: it is 1");
  EXPECT_THAT(error(R"("tp": 2.5)"), HasSubstr("jobs[0].train.tp: '2.5' is not a whole number from 1 to"));
  EXPECT_THAT(error(R"("tp": "--pp")"), HasSubstr("jobs[0].train.tp: '--pp' is not a whole number"));
  EXPECT_THAT(error(R"("bucket": "25 apples")"), HasSubstr("jobs[0].train.bucket: "));
  EXPECT_THAT(error(R"("recompute": "some")"), HasSubstr("jobs[0].train.recompute: "));
}

TEST(JobsFile, NamesTheLineOfAWrongNumber) {
  try {
    parse_jobs_file("{\"banyan\": \"jobs/1\", \"jobs\": [\n{\"train\": {\"model\": \"gpt3-13b\",\n\"tp\": 0}}]}");
    ADD_FAILURE() << "a tensor of no ranks";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), StartsWith("line 3: jobs[0].train.tp: '0' is not a whole number from 1 to"));
  }
}

}  // namespace
}  // namespace banyan::answer
