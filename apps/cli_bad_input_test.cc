// For any bad input: one line that names the culprit and the mend, exit code 2, nothing on standard output, and
// no file left behind.

#include "apps/test_banyan_process.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

void expect_refusal(const std::vector<std::string>& arguments, const std::vector<std::string>& mentions) {
  const std::string line = refusal_of(arguments);
  for (const std::string& mention : mentions) EXPECT_THAT(line, HasSubstr(mention));
}

struct BadCommand {
  const char* name;
  std::vector<std::string> arguments;
  std::vector<std::string> mentions;
};

std::string name_of(const ::testing::TestParamInfo<BadCommand>& info) { return info.param.name; }

class BadCommandLine : public ::testing::TestWithParam<BadCommand> {};

TEST_P(BadCommandLine, IsRefusedInOneLine) { expect_refusal(GetParam().arguments, GetParam().mentions); }

INSTANTIATE_TEST_SUITE_P(
    Syntax, BadCommandLine,
    ::testing::Values(
        BadCommand{"NoCommand", {}, {"no command given", "banyan --help"}},
        BadCommand{"UnknownCommand", {"paln"}, {"'paln'", "did you mean 'plan'"}},
        BadCommand{"UnknownGlobalOption", {"--fast"}, {"'--fast'", "banyan --help"}},
        BadCommand{"UnknownOption", {"plan", "allgather", "ring:4", "--fast"}, {"--fast", "banyan plan --help"}},
        BadCommand{"NearOption", {"plan", "--jsn", "allgather", "ring:4"}, {"'--jsn'", "did you mean '--json'"}},
        BadCommand{"NearOptionWithValue",
                   {"plan", "allgather", "ring:4", "--fails", "gpu3"},
                   {"unknown option '--fails' (did you mean '--fail'?)"}},
        BadCommand{"OptionOfAnotherCommand",
                   {"predict", "allreduce", "ring:4", "--fail", "gpu0"},
                   {"unknown option '--fail' ('banyan fabric' has it)"}},
        BadCommand{"FabricBeforeCollective",
                   {"plan", "ring:4", "allgather"},
                   {"the collective comes before the fabric: banyan plan allgather ring:4"}},
        BadCommand{"FabricBeforeCollectiveOfPredict",
                   {"predict", "ring:4", "allgather"},
                   {"the collective comes before the fabric: banyan predict allgather ring:4"}},
        BadCommand{"TransportOfPrograms", {"run", "allreduce", "--transport", "ucx"}, {"BANYAN_TRANSPORT=ucx"}},
        BadCommand{"NearLabCommand", {"lab", "staus"}, {"'staus'", "did you mean 'status'", "banyan lab --help"}},
        BadCommand{"NearPredictCommand", {"predict", "trian"}, {"'trian'", "did you mean 'train'"}},
        BadCommand{"BeginningOfCommand", {"topo"}, {"'topo'", "did you mean 'topology'"}},
        BadCommand{"BeginningOfOption", {"fabric", "ring:4", "--out", "f"}, {"'--out'", "did you mean '--output'"}},
        BadCommand{
            "OthersOption", {"predict", "allreduce", "ring:4", "--size", "1G"}, {"'--size' (did you mean '--bytes'?)"}},
        BadCommand{"NameAsWord", {"lab", "down", "nc2"}, {"'nc2' is one word too many", "say --name nc2"}},
        BadCommand{"NearHelp", {"help", "plna"}, {"'plna'", "did you mean 'plan'"}},
        BadCommand{"TwiceGiven", {"plan", "allgather", "ring:4", "--trees", "1", "--trees", "2"}, {"more than once"}},
        BadCommand{"ValueOfFlag", {"plan", "allgather", "ring:4", "--json=maybe"}, {"--json"}},
        BadCommand{"SurplusArgument", {"plan", "allgather", "ring:4", "more"}, {"more", "banyan plan --help"}},
        BadCommand{"MissingFabric", {"plan", "allgather"}, {"FABRIC is required", "banyan plan --help"}},
        BadCommand{"MissingFabricOfFabric", {"fabric"}, {"FABRIC is required", "--list"}},
        BadCommand{"MissingValue", {"plan", "allgather", "ring:4", "--trees"}, {"--trees needs a value: --trees K"}},
        BadCommand{"SizesAlone", {"plan", "allgather", "ring:4", "--sizes", "1MB"}, {"--sizes", "--compare"}},
        BadCommand{"RanksEmpty", {"plan", "allgather", "ring:4", "--ranks", ""}, {"--ranks", "is empty"}},
        BadCommand{"MissingFormat", {"export", "plan.json"}, {"--format is required", "banyan export --help"}},
        BadCommand{"PlanAndFabric", {"run", "allreduce", "--plan", "a", "--fabric", "b"}, {"--plan", "--fabric"}},
        BadCommand{"LineFeedInArgument", {"plan", "all\ngather", "ring:4"}, {"all?gather"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Values, BadCommandLine,
    ::testing::Values(
        BadCommand{"Collective", {"plan", "allgathr", "ring:4"}, {"'allgathr'", "known: allgather"}},
        BadCommand{"TreesWord", {"plan", "allgather", "ring:4", "--trees", "x"}, {"--trees: 'x'", "whole number"}},
        BadCommand{"TreesZero", {"plan", "allgather", "ring:4", "--trees", "0"}, {"--trees: '0'", "from 1"}},
        BadCommand{"TreesNegative", {"plan", "allgather", "ring:4", "--trees=-1"}, {"--trees: '-1'"}},
        BadCommand{"TreesHuge", {"plan", "allgather", "ring:4", "--trees", "99999999999999999999"}, {"--trees"}},
        BadCommand{"HeightZero", {"plan", "allgather", "ring:4", "--max-height", "0"}, {"--max-height: '0'"}},
        BadCommand{"HeightTooLow", {"plan", "allgather", "ring:8", "--max-height", "2"}, {"height"}},
        BadCommand{"RankTooHigh", {"plan", "allgather", "ring:4", "--ranks", "0-9"}, {"--ranks", "rank 9", "0 to 3"}},
        BadCommand{"RankUnknown",
                   {"plan", "allgather", "ring:4", "--ranks", "gpu0,gpu77"},
                   {"--ranks", "'gpu77'", "did you mean"}},
        BadCommand{"RankTwice", {"plan", "allgather", "ring:4", "--ranks", "0,1,0"}, {"--ranks", "'gpu0'", "twice"}},
        BadCommand{"OneRank", {"plan", "allgather", "ring:4", "--ranks", "2"}, {"--ranks", "at least two"}},
        BadCommand{"RootUnknown", {"plan", "broadcast", "ring:4", "--root", "gpu9"}, {"--root", "'gpu9'"}},
        BadCommand{
            "RootOfAllgather", {"plan", "allgather", "ring:4", "--root", "1"}, {"--root", "broadcast and reduce"}},
        BadCommand{"RootOutside", {"plan", "reduce", "ring:4", "--ranks", "0-2", "--root", "3"}, {"--root", "gpu3"}},
        BadCommand{"WeightsTooFew",
                   {"plan", "allgather", "ring:4", "--weights", "1,2,3"},
                   {"--weights", "3 weights for 4 ranks"}},
        BadCommand{"WeightsAllZero", {"plan", "allgather", "ring:4", "--weights", "0,0,0,0"}, {"--weights", "zero"}},
        BadCommand{"WeightsNegative", {"plan", "allgather", "ring:4", "--weights", "1,-2,1,1"}, {"--weights", "'-2'"}},
        BadCommand{
            "WeightsOfAllreduce", {"plan", "allreduce", "ring:4", "--weights", "1,1,1,2"}, {"--weights", "allreduce"}},
        BadCommand{"SizeUnit", {"plan", "allgather", "ring:4", "--compare", "--sizes", "1ZB"}, {"--sizes", "'ZB'"}},
        BadCommand{"SizeZero", {"plan", "allgather", "ring:4", "--compare", "--sizes", "0"}, {"--sizes", "zero bytes"}},
        BadCommand{"OutputFolder",
                   {"plan", "allgather", "ring:4", "-o", "/no-such-folder/p.json"},
                   {"/no-such-folder", "does not exist"}},
        BadCommand{"PictureFormat", {"show", "ring:4", "--format", "png"}, {"'png'", "svg, dot"}},
        BadCommand{"PictureEnding", {"show", "ring:4", "-o", "x.png"}, {"'x.png'", ".svg"}},
        BadCommand{"TreesOfFabric", {"show", "ring:4", "--root", "1"}, {"--root", "is a fabric"}},
        BadCommand{"TopologyDegree", {"topology", "--ranks", "8", "--degree", "8"}, {"--degree", "'8'", "7"}},
        BadCommand{"TopologyRanks", {"topology", "--ranks", "1", "--degree", "1"}, {"--ranks", "'1'", "10000"}},
        BadCommand{"TopologyWithoutDegree", {"topology", "--ranks", "8"}, {"--degree"}},
        BadCommand{"TopologyUnknown",
                   {"topology", "--ranks", "7", "--degree", "3", "--cables"},
                   {"no topology of 7 ranks with 3 cables"}},
        BadCommand{"TopologyBandwidth",
                   {"topology", "--ranks", "8", "--degree", "3", "--bandwidth", "400"},
                   {"--bandwidth", "unit"}},
        BadCommand{"TopologyRow",
                   {"topology", "--ranks", "16", "--degree", "4", "--pick", "3"},
                   {"--pick", "'3' is no row", "from 1 to 2"}},
        BadCommand{"TopologyNotPicked",
                   {"topology", "--ranks", "16", "--degree", "4", "-o", "/tmp/never-written.json"},
                   {"-o", "2 topologies", "--pick"}},
        BadCommand{"TopologyPicture",
                   {"topology", "--ranks", "16", "--degree", "4", "--pick", "1", "--picture", "x.png"},
                   {"--picture", "'x.png'", ".svg"}},
        BadCommand{
            "TopologyBytes", {"topology", "--ranks", "16", "--degree", "4", "--bytes", "0"}, {"--bytes", "zero"}},
        BadCommand{"Boxes", {"fabric", "ring:4", "--boxes", "0"}, {"--boxes: '0'"}},
        BadCommand{"Nic", {"fabric", "ring:4", "--nic", "400"}, {"--nic", "'400'", "has no unit"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Fabrics, BadCommandLine,
    ::testing::Values(BadCommand{"NoSuchFile", {"plan", "allgather", "missing.json"}, {"missing.json"}},
                      BadCommand{"Folder", {"plan", "allgather", "/"}, {"/"}},
                      BadCommand{"OneRank", {"plan", "allgather", "full:1"}, {"full:1"}},
                      BadCommand{"TooManyLinks", {"fabric", "full:1000000"}, {"full:1000000", "links"}},
                      BadCommand{
                          "OverflowingSpec", {"fabric", "torus:4000000000x4000000000x4000000000"}, {"4000000000"}},
                      BadCommand{"MillionRanks", {"plan", "allgather", "ring:1000000"}, {"1000000"}},
                      BadCommand{"SpecUnit", {"fabric", "ring:4@400"}, {"unit"}},
                      BadCommand{"FailUnknown", {"fabric", "ring:4", "--fail", "gpu0-gpu99"}, {"--fail", "gpu0-gpu99"}},
                      BadCommand{"FailDisconnects", {"fabric", "star:3", "--fail", "gpu1"}, {"gpu1"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Runs, BadCommandLine,
    ::testing::Values(
        BadCommand{"OneProcess", {"run", "allreduce", "-n", "1"}, {"-n: '1'", "from 2"}},
        BadCommand{"TooManyProcesses", {"run", "allreduce", "-n", "100000"}, {"-n: '100000'", "256"}},
        BadCommand{"MoreThanRanks", {"run", "allreduce", "--fabric", "ring:4", "-n", "5"}, {"5 processes", "4 ranks"}},
        BadCommand{"MoreThanTheMemory",
                   {"run", "allreduce", "-n", "2", "--bytes", "4096TiB"},
                   {"need 18014 TB, but this machine has", "give a smaller total"}},
        BadCommand{"WholeCluster", {"run", "allreduce", "--fabric", "star:300"}, {"300 ranks", "-n"}},
        BadCommand{"ZeroBytes", {"run", "allreduce", "-n", "2", "--bytes", "0"}, {"--bytes", "'0'", "at least 4"}},
        BadCommand{"LessThanOneElement",
                   {"run", "allreduce", "-n", "2", "--bytes", "7", "--type", "float64"},
                   {"'7'", "8 bytes"}},
        BadCommand{"FractionOfAByte", {"run", "allreduce", "-n", "2", "--bytes", "1.5"}, {"--bytes", "1.5"}},
        BadCommand{"Type", {"run", "allreduce", "-n", "2", "--type", "flaot32"}, {"--type", "flaot32", "float32"}},
        BadCommand{"Op", {"run", "allreduce", "-n", "2", "--op", "mean"}, {"--op", "mean", "sum"}},
        BadCommand{"BitsOfFloats",
                   {"run", "allreduce", "-n", "2", "--op", "band", "--type", "double"},
                   {"--op: band is for integers, not float64", "uint64"}},
        BadCommand{"Transport", {"run", "allreduce", "-n", "2", "--transport", "rdma"}, {"--transport", "rdma", "tcp"}},
        BadCommand{"Repeat", {"run", "allreduce", "-n", "2", "--repeat", "0"}, {"--repeat: '0'"}},
        BadCommand{"EditWithoutFabric", {"run", "allreduce", "-n", "4", "--fail", "gpu0-gpu1"}, {"--fabric"}},
        BadCommand{"RanksTwice", {"run", "allreduce", "-n", "2", "--ranks", "0-1"}, {"-n", "--ranks"}}),
    name_of);

struct BadFile {
  const char* name;
  std::string contents;
  std::vector<std::string> mentions;
};

std::string name_of_file(const ::testing::TestParamInfo<BadFile>& info) { return info.param.name; }

std::string fabric_json(const std::string& nodes, const std::string& links) {
  return "{\"banyan\": \"fabric/1\",\n \"nodes\": [" + nodes + "],\n \"links\": [" + links + "]}\n";
}

const std::string kTwoRanks = R"({"name": "a", "kind": "rank"}, {"name": "b", "kind": "rank"})";

std::string cable(const std::string& from, const std::string& to, const std::string& bandwidth) {
  return "{\"from\": \"" + from + "\", \"to\": \"" + to + "\", \"bandwidth\": " + bandwidth + ", \"both\": true}";
}

// One of each format; all else that they refuse is in the tests of the readers.
class BadFabricFile : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadFabricFile, IsRefusedAndLeavesNoPlanBehind) {
  const TemporaryFolder folder;
  const std::string fabric = folder.write("fabric.in", GetParam().contents);
  const std::string plan = folder.path("plan.json");
  std::vector<std::string> mentions = GetParam().mentions;
  mentions.push_back("fabric.in");
  expect_refusal({"plan", "allgather", fabric, "-o", plan}, mentions);
  expect_refusal({"plan", "allgather", fabric, "--json"}, mentions);
  EXPECT_THAT(folder.names(), ElementsAre("fabric.in"));
}

INSTANTIATE_TEST_SUITE_P(
    Of, BadFabricFile,
    ::testing::Values(
        BadFile{"TruncatedJson", fabric_json(kTwoRanks, cable("a", "b", R"("1 GB/s")")).substr(0, 70), {"line"}},
        BadFile{"UnknownNode", fabric_json(kTwoRanks, cable("a", "bb", R"("1 GB/s")")), {"'bb'", "did you mean 'b'"}},
        BadFile{"ZeroBandwidth", fabric_json(kTwoRanks, cable("a", "b", R"("0 GB/s")")), {"links[0]", "zero"}},
        BadFile{"TextWithoutUnit", "a <-> b 400\n", {"400"}}, BadFile{"OtherXml", "<html><body/></html>", {}}),
    name_of_file);

class BadPlanFile : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadPlanFile, IsRefusedByEveryCommandThatReadsPlans) {
  const TemporaryFolder folder;
  const std::string plan = folder.write("plan.json", GetParam().contents);
  const std::string output = folder.path("output.svg");
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"verify", plan},
                                                    {"export", plan, "--format", "msccl", "-o", output},
                                                    {"show", plan, "-o", output},
                                                    {"run", "allgather", "--plan", plan}}) {
    expect_refused(arguments, "plan.json");
  }
  EXPECT_THAT(folder.names(), ElementsAre("plan.json"));
}

INSTANTIATE_TEST_SUITE_P(Of, BadPlanFile,
                         ::testing::Values(BadFile{"Truncated", R"({"banyan": "schedule/1", "fabric": {)", {}},
                                           BadFile{
                                               "AFabric", fabric_json(kTwoRanks, cable("a", "b", R"("1 PB/x")")), {}}),
                         name_of_file);

TEST(BadInput, LeavesAnOlderFileAsItWas) {
  const TemporaryFolder folder;
  const std::string plan = folder.write("plan.json", "precious");
  expect_refused({"plan", "allgather", "ring:4", "--weights", "1", "-o", plan}, "--weights");
  EXPECT_EQ(folder.read("plan.json"), "precious");
  EXPECT_THAT(folder.names(), ElementsAre("plan.json"));
}

TEST(BadInput, IsOneLineOnATerminalToo) {
  const Outcome outcome = run_banyan_on_terminal({"plan", "allgather", "missing.json"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, StartsWith("banyan: "));
  EXPECT_EQ(outcome.out.find('\n'), outcome.out.size() - 1);
}

}  // namespace
}  // namespace banyan::app
