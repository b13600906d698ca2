#include "banyan/run/record/dump.h"

#include <sys/stat.h>
#include <unistd.h>

#include "banyan/base/file.h"
#include "banyan/run/record/recorder.h"
#include "banyan/run/record/test_dumps.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

namespace fs = std::filesystem;

class DumpTest : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  ~DumpTest() override {
    unsetenv("BANYAN_RECORDER_DIR");
    unsetenv("TMPDIR");
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
};

RankDump sample() {
  SampleDump dump("world", 2, 4);
  dump.with_id("5f3a").says(DumpReason::timeout, "rank 2 waited for \"rank 3\"\n");
  dump.add_done(3, 50)
      .add({.kind = OperationKind::broadcast, .count = 7, .type = element::DataType::int8, .other = 0}, 60, 61)
      .add({.kind = OperationKind::barrier}, 62, 63)
      .add({.kind = OperationKind::all_gather_v, .count = 12}, 64)
      .waits_for(3, 9);
  dump.sees(0, Health::alive, 6).sees(3, Health::dead, 4);
  RankDump result = dump;
  result.operations.back().counts_hash = 0xffffffffffffff01;
  result.operations[4].count = 0;
  result.operations[4].type = element::DataType::uint8;
  result.torn = 1;
  return result;
}

TEST_F(DumpTest, RoundTrips) {
  const RankDump dump = sample();
  const std::string json = dump_to_json(dump);
  EXPECT_EQ(parse_dump(json), dump) << json;
  EXPECT_EQ(dump_to_json(parse_dump(json)), json);
}

TEST_F(DumpTest, MessagesRoundTrip) {
  RankDump dump = sample();
  dump.messages = {.messages = {{.number = 3,
                                 .count = 100'000,
                                 .awaited_since = 5,
                                 .peer = 1,
                                 .tag = UINT32_MAX,
                                 .is_send = true,
                                 .type = element::DataType::float64},
                                {.number = 7, .count = 1, .state = OperationState::failed},
                                {.number = 8, .peer = 3, .state = OperationState::done}},
                   .pairs = {{.rank = 1, .sent = 4, .received = 0, .last_tag = UINT32_MAX},
                             {.rank = 3, .sent = 0, .received = UINT64_MAX >> 1}},
                   .begun = 8};
  EXPECT_EQ(parse_dump(dump_to_json(dump)), dump);
  dump.messages.messages[1].number = 3;
  EXPECT_THAT(testing::error_of([&] { parse_dump(dump_to_json(dump)); }), HasSubstr("number does not ascend"));
  dump.messages.messages.clear();
  dump.messages.pairs[1].rank = 1;
  EXPECT_THAT(testing::error_of([&] { parse_dump(dump_to_json(dump)); }), HasSubstr("rank 1, which occurs twice"));
  dump.messages.pairs[1].rank = 4;
  EXPECT_THAT(testing::error_of([&] { parse_dump(dump_to_json(dump)); }), HasSubstr("rank"));
}

TEST_F(DumpTest, RecordsOfTheVersionBeforeAreRead) {
  const RankDump dump = sample();
  std::string text = dump_to_json(dump);
  text.replace(text.find("flight-recorder/2"), 17, "flight-recorder/1");
  EXPECT_EQ(parse_dump(text), dump);
  text.replace(text.find("flight-recorder/1"), 17, "flight-recorder/3");
  EXPECT_THAT(testing::error_of([&] { parse_dump(text); }), HasSubstr("is \"flight-recorder/3\""));
}

TEST_F(DumpTest, RoundTripsEveryReduction) {
  SampleDump sample("world", 0, 2);
  for (size_t op = 0; op < element::kReduceOps; ++op) {
    sample.add({.type = element::DataType::int16, .op = static_cast<element::ReduceOp>(op)}, 60, 61);
  }
  const RankDump dump = sample;
  const std::string json = dump_to_json(dump);
  EXPECT_EQ(parse_dump(json), dump) << json;
  EXPECT_THAT(json, HasSubstr("\"bxor\""));
}

TEST_F(DumpTest, BytesThatAreNoTextAreReplaced) {
  RankDump dump = sample();
  dump.host = std::string(2000, '\xff');
  const RankDump read = parse_dump(dump_to_json(dump));
  EXPECT_EQ(read.host.size(), 3 * 1024u);
}

TEST_F(DumpTest, TellsOfThisProcess) {
  alignas(64) static std::byte memory[Recorder::kMemoryBytes];
  Recorder recorder(memory);
  recorder.begin({.kind = OperationKind::all_reduce, .count = 5}).finish();
  recorder.begin({.kind = OperationKind::barrier}).wait_for(3);
  recorder.begin({.kind = OperationKind::send, .other = 1});
  const RankDump dump = begin_dump(memory);
  EXPECT_EQ(dump.pid, getpid());
  EXPECT_EQ(dump.thread, getpid());
  EXPECT_THAT(dump.program, HasSubstr("banyan_run_record_test"));
  EXPECT_FALSE(dump.host.empty());
  EXPECT_EQ(dump.operations.size(), 3u);
  EXPECT_EQ(dump.begun, 3u);
  EXPECT_EQ(dump.waits_for, 3u);
  ASSERT_NE(dump.newest(), nullptr);
  EXPECT_EQ(name(*dump.newest()), "barrier #2");
  EXPECT_GE(dump.time, dump.newest()->begin);
}

TEST_F(DumpTest, WritesAndReadsAFolder) {
  const RankDump dump = sample();
  EXPECT_EQ(write_dump(dump, folder_), path("world.5f3a-rank2.json"));
  EXPECT_EQ(write_dump(dump, folder_), path("world.5f3a-rank2.json"));  // in place of the old one
  const RankDump other = SampleDump("a/b c", 0, 1).add_done(1, 1);
  EXPECT_EQ(write_dump(other, folder_), path("a_b_c-rank0.json"));
  write_file(path("notes.json"), "not ours");
  write_file(path("x-rank1.json.txt"), "not ours");
  write_file(path("x-rank.json"), "not ours");
  EXPECT_THAT(read_dumps(folder_), ElementsAre(other, dump));
}

TEST_F(DumpTest, SaysWhichFileIsBroken) {
  write_dump(sample(), folder_);
  write_file(path("world-rank7.json"), "{\"banyan\": \"fabric/1\"}");
  EXPECT_EQ(testing::error_of([&] { read_dumps(folder_); }),
            path("world-rank7.json") +
                ": is \"fabric/1\"; a flight record says \"banyan\": \"flight-recorder/2\", or \"flight-recorder/1\"");
}

TEST_F(DumpTest, SaysWhenThereIsNothingToRead) {
  EXPECT_THAT(testing::error_of([&] { read_dumps(folder_); }),
              HasSubstr("there is no flight record ('*-rank<N>.json')"));
  EXPECT_THAT(testing::error_of([&] { read_dumps(path("none")); }), HasSubstr("No such file"));
}

TEST_F(DumpTest, GivenFoldersAreMade) {
  setenv("BANYAN_RECORDER_DIR", path("x/y/z").c_str(), 1);
  EXPECT_EQ(recorder_directory(), path("x/y/z"));
  EXPECT_EQ(recorder_directory(), path("x/y/z"));
  struct stat info {};
  ASSERT_EQ(stat(path("x/y/z").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0700u);
}

TEST_F(DumpTest, TheDefaultFolderMustBeOurs) {
  unsetenv("BANYAN_RECORDER_DIR");
  setenv("TMPDIR", folder_.c_str(), 1);
  const std::string folder = path("banyan-recorder-" + std::to_string(geteuid()));
  EXPECT_EQ(recorder_directory(), folder);
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  EXPECT_THAT(testing::error_of([] { recorder_directory(); }), HasSubstr("set BANYAN_RECORDER_DIR"));
  fs::remove(folder);
  fs::create_directory_symlink(folder_, folder);
  EXPECT_THAT(testing::error_of([] { recorder_directory(); }), HasSubstr("set BANYAN_RECORDER_DIR"));
}

// In a folder of the user's choice that others may write to, such as /tmp.
TEST_F(DumpTest, FollowsNoLinkThatSomebodyHasPutAtItsName) {
  const RankDump dump = sample();
  const std::string victim = path("precious"), name = path(dump_file_name(dump));
  write_file(victim, "mine");
  fs::create_symlink(victim, name);
  fs::create_symlink(victim, name + ".tmp." + std::to_string(getpid()));
  EXPECT_EQ(write_dump(dump, folder_), name);
  EXPECT_EQ(read_file(victim), "mine");
  EXPECT_FALSE(fs::is_symlink(name));
  EXPECT_EQ(read_dumps(folder_).size(), 1u);
}

// Also in a folder that others may read.
TEST_F(DumpTest, IsForItsUserAlone) {
  fs::permissions(folder_, fs::perms(0755));
  const fs::perms given = fs::status(write_dump(sample(), folder_)).permissions();
  EXPECT_EQ(given, fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(DumpTest, AFolderThatCannotBeMadeIsAnError) {
  write_file(path("file"), "");
  setenv("BANYAN_RECORDER_DIR", path("file/x").c_str(), 1);
  EXPECT_THAT(testing::error_of([] { recorder_directory(); }), HasSubstr("cannot make"));
}

struct Damage {
  const char* name;
  const char* from;
  const char* to;
  const char* message;
};

class Broken : public DumpTest, public ::testing::WithParamInterface<Damage> {};
INSTANTIATE_TEST_SUITE_P(
    Dump, Broken,
    ::testing::Values(
        Damage{"Truncated", "]}\n", "", "is not JSON: parse error at line"},
        Damage{"Rank", "\"rank\":2,\"size\":4", "\"rank\":4,\"size\":4",
               "communicator.rank is 4, but there are 4 ranks, counted from 0"},
        Damage{"Size", "\"size\":4", "\"size\":4000000000",
               "communicator.size is not a whole number from 0 to 1048576"},
        Damage{"Key", "\"waits_for\": 3", "\"waits_fro\": 3", "unknown key 'waits_fro' (did you mean 'waits_for'?)"},
        Damage{"Missing", "\"begun\": 6,", "", "the flight record has no \"begun\""},
        Damage{"Kind", "\"kind\":\"barrier\"", "\"kind\":\"barier\"", "operations[4].kind: unknown operation 'barier'"},
        Damage{"Type", "\"type\":\"int8\"", "\"type\":\"int9\"", "operations[3].type: unknown data type 'int9'"},
        Damage{"Hash", "ffffffffffffff01", "xyz", "operations[5].counts_hash: 'xyz' is not 16 hexadecimal digits"},
        Damage{"Order", "\"ticket\":5", "\"ticket\":2", "operations[4].ticket does not ascend"},
        Damage{"Sequence", "\"sequence\":5", "\"sequence\":2", "operations[4].sequence does not ascend"},
        Damage{"Twice", "{\"rank\":3,\"health\"", "{\"rank\":0,\"health\"",
               "peers[1] is of rank 0, which occurs twice"},
        Damage{"Health", "\"dead\"", "\"deaf\"", "unknown health 'deaf' (did you mean 'dead'?)"},
        Damage{"Time", "\"monotonic_ns\":100", "\"monotonic_ns\":9999999999100",
               "written.monotonic_ns is not a whole number from -46"},
        Damage{"Reason", "\"timeout\"", "\"boredom\"", "known are timeout, error, asked"},
        Damage{"Negative", "\"torn\": 1", "\"torn\": -1", "torn is not a whole number, zero or above: it is -1"}),
    [](const auto& case_info) { return case_info.param.name; });

TEST_P(Broken, IsRefusedWithTheReason) {
  std::string json = dump_to_json(sample());
  const size_t place = json.find(GetParam().from);
  ASSERT_NE(place, std::string::npos) << json;
  json.replace(place, std::string(GetParam().from).size(), GetParam().to);
  EXPECT_THAT(testing::error_of([&] { parse_dump(json); }), HasSubstr(GetParam().message));
}

TEST_F(DumpTest, RefusesDeepNesting) {
  EXPECT_THAT(testing::error_of([] { parse_dump(std::string(100'000, '[')); }), HasSubstr("nested deeper"));
}

}  // namespace
}  // namespace banyan::run
