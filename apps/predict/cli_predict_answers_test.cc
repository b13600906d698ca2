// Answers of `banyan predict` where the answer is no, not known, or needs a word beside it: memory, Ctrl-C, figures of
// other devices, places, failures.

#include <nlohmann/json.hpp>

#include "apps/test_banyan_process.h"
#include "banyan/predict/report/test_prediction_reader.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using Json = nlohmann::json;

using Words = std::vector<std::string>;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json prediction_of(const Words& arguments) {
  const Json prediction = json_of(with(arguments, {"--json"}));
  predict::read_prediction(prediction.dump(), "--json");  // throws when it is not the format of -o
  return prediction;
}

const Words kTooLarge = {"predict", "train", "--model",        "gpt3-13b", "--tp",     "2",
                         "--dp",    "4",     "--global-batch", "16",       "--fabric", "dgx-a100:1"};

TEST(CliPredictTrain, SaysNoToWhatDoesNotFitIntoMemory) {
  const Outcome no = run_banyan(kTooLarge);
  EXPECT_EQ(no.exit_code, 1);
  EXPECT_THAT(no.out, AllOf(StartsWith("memory"), HasSubstr("does not fit"), HasSubstr("GiB more than"),
                            HasSubstr("it fits with"), Not(HasSubstr("a step:"))));
  const Outcome json = run_banyan(with(kTooLarge, {"--json"}));
  EXPECT_EQ(json.exit_code, 1);
  const predict::ReportInput read = predict::read_prediction(json.out, "--json");
  EXPECT_FALSE(read.prediction.complete);
  EXPECT_THAT(read.notes, ::testing::Contains(HasSubstr("does not fit")));
  EXPECT_FALSE(Json::parse(json.out)["training"]["memory"]["fits"].get<bool>());
  const Outcome anyway = run_banyan(with(kTooLarge, {"--ignore-memory"}));
  EXPECT_EQ(anyway.exit_code, 0) << anyway.err;
  EXPECT_THAT(anyway.out, AllOf(StartsWith("memory"), HasSubstr("does not fit"), HasSubstr("a step:")));
}

TEST(CliPredictTrain, SaysWhoseFiguresADeviceCarries) {
  const Words step = {"predict", "train",          "--layers", "4",        "--hidden",   "1024",  "--dp",
                      "2",       "--global-batch", "2",        "--fabric", "dgx-h100:1", "--gpu", "h100"};
  EXPECT_THAT(run_banyan(step).out, HasSubstr("was measured on a100-80g"));
  EXPECT_THAT(prediction_of(step)["notes"].dump(), AllOf(HasSubstr("35 us"), HasSubstr("measured on a100-80g")));
  Words own = step;
  own.back() = "a100";
  EXPECT_TRUE(prediction_of(own)["notes"].empty());
}

// 1.5 s of work that the host holds up: twice as quick a device changes little.
TEST(CliPredictTrain, GainsLittleFromAFasterDeviceWhereTheHostIsTheLimit) {
  const Json json = prediction_of({"predict", "train", "--model", "gpt3-13b", "--gpu", "h100", "--fabric", "dgx-h100:8",
                                   "--tp", "8", "--dp", "8", "--global-batch", "64", "--what-if"});
  for (const Json& row : json["what_if"]) {
    if (row["resource"] == "the speed of computation") {
      EXPECT_LT(row["gain"].get<double>(), 0.05);
    }
  }
}

TEST(CliPredictTrain, SaysHowManyRanksOfTheFabricAreUsed) {
  const Outcome outcome =
      run_banyan({"predict", "train", "--layers", "2", "--hidden", "512", "--fabric", "dgx-a100:8"});
  EXPECT_THAT(outcome.out, HasSubstr("1 of 64 ranks of the fabric, in their order: gpu0"));
}

std::string ring_of_sends(uint64_t bytes) {
  std::string text = "num_ranks 2\n";
  for (int rank = 0; rank < 2; ++rank) {
    const std::string other = std::to_string(1 - rank), size = std::to_string(bytes) + "b";
    text += "rank " + std::to_string(rank) + " {\n s: send " + size + " to " + other + "\n r: recv " + size + " from " +
            other + "\n r requires s\n}\n";
  }
  return text;
}

TEST(CliPredictJob, ChecksSendsAsTheSimulatorSendsThem) {
  const TemporaryFolder folder;
  const Words small = {"predict", "job", folder.write("small.goal", ring_of_sends(65'536)), "--fabric", "star:2@1GB/s"};
  EXPECT_EQ(prediction_of(small)["time_ps"], 70'536'000);
  const Words large = {"predict", "job", folder.write("large.goal", ring_of_sends(1 << 20)), "--fabric",
                       "star:2@1GB/s"};
  expect_refused(large, "--eager SIZE");
  EXPECT_EQ(prediction_of(with(large, {"--eager", "1MiB"}))["time_ps"], 1'053'576'000);
  expect_refused(with(large, {"--eager", "much"}), "--eager: ");
}

TEST(CliPredictJob, ComparesAFailureWithTheRunWithoutIt) {
  const TemporaryFolder folder;
  const std::string goal = folder.write(
      "pair.goal", "num_ranks 2\nrank 0 {\n b: send 1000000b to 1\n}\nrank 1 {\n recv 1000000b from 0\n}\n");
  const Words job = {"predict", "job", goal, "--fabric", "a <-> s 1GB/s; s <-> b 1GB/s"};
  // 5 us, and 1 MB at 1 GB/s; half of it waits for 1 ms.
  const Words broken = with(job, {"--event", "0.505 ms a-s fail", "--event", "1.505 ms a-s returns"});
  const Json json = prediction_of(broken);
  EXPECT_EQ(json["time_ps"], 2'005'000'000);
  EXPECT_EQ(json["jobs"][0]["alone_ps"], 1'005'000'000);
  EXPECT_THAT(run_banyan(broken).out, HasSubstr("1.995 times what it takes without them"));
  EXPECT_THAT(run_banyan(job).out, Not(HasSubstr("without them")));
}

TEST(CliPredictJob, SaysWhereRanksStandAndHowManyJobsItLeavesOut) {
  const TemporaryFolder folder;
  const std::string goal = folder.write("pair.goal", ring_of_sends(8));
  // The boxes found in it are {a, c} and {b, d}.
  const std::string fabric =
      "a: rank; b: rank; c: rank; d: rank; a <-> sw0 10GB/s; c <-> sw0 10GB/s; b <-> sw1 10GB/s; d <-> sw1 10GB/s; "
      "sw0 <-> sw1 1GB/s";
  EXPECT_THAT(run_banyan({"predict", "job", goal, "--fabric", fabric}).out,
              HasSubstr("2 of 4 ranks of the fabric, in their order: a, c"));
  Json jobs = {{"banyan", "jobs/1"}, {"jobs", Json::array()}};
  for (int i = 0; i < 24; ++i) jobs["jobs"].push_back({{"goal", goal}});
  const Outcome outcome =
      run_banyan({"predict", "job", "--jobs", folder.write("jobs.json", jobs.dump()), "--fabric", "star:48@1GB/s"});
  EXPECT_THAT(outcome.out, HasSubstr("and 4 more jobs"));
}

TEST(CliPredictJob, SaysWhenVirtualTimeIsAtItsEnd) {
  const TemporaryFolder folder;
  const std::string goal = folder.write("slow.goal", ring_of_sends(uint64_t{1} << 45));
  expect_refused({"predict", "job", goal, "--no-check", "--eager", "64TiB", "--fabric", "star:2@1MB/s"},
                 "longer than the 53 days of virtual time");
}

TEST(CliPredict, RefusesWhatWouldNotEnd) {
  const TemporaryFolder folder;
  expect_refused({"predict", "allreduce", "star:4@25GB/s", "--bytes", "1GiB", "--slice", "1B"},
                 "--slice: slices of 1 B cut 1 GiB into 1073741824 pieces");
  const std::string pipe = folder.path("pipe.goal");
  ASSERT_EQ(std::system(("mkfifo " + pipe).c_str()), 0);
  expect_refused({"predict", "job", pipe, "--fabric", "star:2"}, "pipe.goal line 1");
  expect_refused({"predict", "job", "--jobs", pipe, "--fabric", "star:2"}, "is a pipe that nobody writes to");
  expect_refused({"predict", "job", "--kineto", pipe, "--fabric", "star:2"}, "is a pipe");
}

TEST(CliPredict, RefusesTwoReportsInOneFile) {
  const TemporaryFolder folder;
  expect_refused({"predict", "allreduce", "ring:4", "-o", folder.path("x"), "--html", folder.path("./x")},
                 "--output and --html both write");
  expect_refused({"predict", "train", "--layers", "2", "--hidden", "512", "--fabric", "star:2", "--trace",
                  folder.path("x"), "--html", folder.path("x")},
                 "--html and --trace both write");
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(CliPredict, NamesTheCollectiveOrCommandThatWasMeant) {
  expect_refused({"predict", "allredcue", "ring:4"},
                 "is neither a plan file nor a collective (did you mean 'allreduce'?)");
  expect_refused({"predict", "trian"}, "did you mean 'train'?");
  expect_refused({"predict", "train", "--modle", "x"}, "'banyan predict train --help'");
  expect_refused({"predict", "job", "--gaol", "x"}, "'banyan predict job --help'");
}

// As a user's Ctrl-C: SIGINT after a while. It would take minutes.
TEST(CliPredict, CallsNothingThatWasInterruptedAResult) {
  const TemporaryFolder folder;
  const std::string out = folder.path("out"),
                    command = std::string("timeout --preserve-status -s INT 8 " BANYAN_BINARY
                                          " predict allreduce star:16@25GB/s --bytes 4GiB --slice 2KiB "
                                          "--unfolded > ") +
                              out + "; exit $?";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_THAT(folder.read("out"), AllOf(HasSubstr("interrupted"), Not(HasSubstr("algbw")), Not(HasSubstr("*"))));
}

TEST(CliPredictCalibrate, NamesColumnsThatItDoesNotUse) {
  const TemporaryFolder folder;
  const std::string rows =
      folder.write("rows.csv",
                   "global batch,micro batch,hidden,heads,layers,seq,zero,flash attention,MFU,"
                   "time (ms)\n8,1,1024,16,12,1024,0,yes,0.3,1400\n8,2,1024,16,12,1024,0,no,0.3,1200\n");
  const Outcome outcome = run_banyan({"predict", "calibrate", rows, "--quick", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["notes"], Json::array({"rows.csv: not used are the columns 'MFU'"}));
}

// What reports from the field had: names with quotes, a device that nobody knows, chakra_jsonizer, a launcher's tags.
TEST(FilesFromTheField, AreReadForWhatTheyMean) {
  const TemporaryFolder folder;
  const auto traced = [&](const std::string& name, const std::string& device) {
    const std::string file =
        folder.write("trace.json", R"({"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": ")" +
                                       name +
                                       R"(", "pid": 10, "tid": 10, "ts": 1000.0, "dur": 50, "args": {"External id": 1}},
{"ph": "X", "cat": ")" + device +
                                       R"(", "name": "gemm", "pid": 0, "tid": 7, "ts": 1040.0, "dur": 900,
 "args": {"External id": 1, "correlation": 1, "stream": 7, "device": 0}}]})");
    return run_banyan({"predict", "job", "--kineto", file, "--fabric", "star:2@10GB/s"}).out;
  };
  EXPECT_THAT(traced("lib = Library(\"ops\", \"IMPL\")\n(1): <module>", "kernel"),
              AllOf(HasSubstr("It takes 940 us. Ranks spend 96 % computing"),
                    HasSubstr("5 characters and words mended that JSON forbids"),
                    HasSubstr("\nsimulated  3 of 3 nodes: 1 kind of ranks for 1 rank\n")));
  EXPECT_THAT(
      traced("aten::mm", "npu_events"),
      AllOf(HasSubstr("Ranks spend 100 % held up by their host"),
            HasSubstr("1 event of category 'npu_events', of a device, 900.0 us"), Not(HasSubstr("nothing mended"))));
  const std::string texts =
      R"({ "version": "0.0.4" }{ "id": "1", "name": "c", "type": "COMP_NODE", "durationMicros": "10",
 "attr": [{"name": "is_cpu_op", "boolVal": false}] }{ "id": "2", "name": "ar", "type": "COMM_COLL_NODE", "dataDeps": ["1"],
 "attr": [{"name": "is_cpu_op", "boolVal": false}, {"name": "comm_type", "int64Val": "0"},
          {"name": "comm_size", "int64Val": "1000000"}] })";
  folder.write("run.0.et", texts);
  folder.write("run.1.et", texts);
  // 10 us of computing, 5 us of a message, 1 MB out and in at 10 GB/s.
  EXPECT_EQ(
      json_of({"predict", "job", "--chakra", folder.path("run"), "--fabric", "star:2@10GB/s", "--json"})["time_ps"],
      115'000'000);
  std::string log;
  for (const char* line :
       {"# size count type redop root time algbw busbw", "# (B) (elements) (us) (GB/s) (GB/s)",
        "1048576 262144 float sum -1 100.0 10.49 15.73", "4194304 1048576 float sum -1 250.0 16.78 25.17",
        "16777216 4194304 float sum -1 850.0 19.74 29.61"})
    log += "[1,0]<stdout>:" + std::string(line) + "\n";
  const auto fitted = json_of({"predict", "calibrate", folder.write("tagged.log", log), "--ranks", "8", "--json"});
  EXPECT_EQ(fitted["curves"][0]["points"], 3);
  EXPECT_NEAR(fitted["curves"][0]["pieces"][0]["alpha_seconds"], 50e-6, 1e-9);
  EXPECT_EQ(fitted["notes"][0],
            "tagged.log: what a launcher writes before each line ('[1,0]<stdout>:') was taken off 5 lines");
}

}  // namespace
}  // namespace banyan::app
