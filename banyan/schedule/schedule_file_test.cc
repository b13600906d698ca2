#include "banyan/schedule/schedule_file.h"

#include "banyan/base/file.h"
#include "banyan/fabric/text.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/test.h"

namespace banyan::schedule {
namespace {

TEST(ScheduleFile, KeepsTheTrafficOfAnAllToAll) {
  const Fabric fabric = fabric::parse_fabric_text("a <-> b 2GB/s");
  Schedule::Builder builder(fabric,
                            Collective::make(fabric, {.kind = CollectiveKind::all_to_all, .traffic = {1, 2, 3, 0}}));
  const std::vector<RouteId> forth{builder.add_route(std::vector<LinkId>{LinkId{0}})},
      back{builder.add_route(std::vector<LinkId>{LinkId{1}})};
  builder.add_chunk({.root = fabric.at("a"), .units = 2, .out_tree = forth});
  builder.add_chunk({.root = fabric.at("b"), .units = 3, .out_tree = back});
  const Schedule schedule = std::move(builder).build();
  const Fraction time = seconds_per_byte(schedule);
  const std::string text = format_schedule(
      {.schedule = schedule, .planner = "hand", .claimed_seconds_per_byte = time, .bound_seconds_per_byte = {}});
  EXPECT_THAT(text, HasSubstr("\"traffic\": [[1,2],[3,0]]"));
  const Schedule read = parse_schedule(text, "file").schedule;
  EXPECT_EQ(read.collective(), schedule.collective());
  EXPECT_TRUE(verify(read, time).valid);
  std::string odd = text;
  odd.replace(odd.find("[[1,2]"), 6, "[[1]");
  EXPECT_THROW(parse_schedule(odd, "file"), Error);
}

TEST(ScheduleFile, SaysThatAnExportIsNoPlan) {
  const auto error = [](const std::string& text) { return testing::error_of([&] { parse_schedule(text, "file"); }); };
  EXPECT_EQ(error("<algo name=\"banyan\" proto=\"Simple\" nchannels=\"1\">\n</algo>\n"),
            "file: is an export for MSCCL, not a plan; give the plan that it was made of");
  EXPECT_EQ(error("{\n  \"name\": \"banyan\",\n  \"collective\": \"allreduce\",\n  \"protocol\": \"Simple\"}"),
            "file: is an export for MSCCL++, not a plan; give the plan that it was made of");
}

// Broadcast from "a" down a path, in two chunks, one of them with steps.
ScheduleFile sample() {
  const Fabric fabric = fabric::parse_fabric_text("a <-> sw 2GB/s; b <-> sw 2GB/s; b <-> c 1GB/s");
  Schedule::Builder builder(fabric,
                            Collective::make(fabric, {.kind = CollectiveKind::broadcast, .root = fabric.at("a")}));
  const RouteId to_b = builder.add_route(std::vector<LinkId>{LinkId{0}, LinkId{3}});
  const RouteId to_c = builder.add_route(std::vector<LinkId>{LinkId{4}});
  const std::vector<RouteId> tree{to_b, to_c};
  const std::vector<uint32_t> steps{1, 2};
  builder.add_chunk({.root = fabric.at("a"), .units = 2, .out_tree = tree});
  builder.add_chunk({.root = fabric.at("a"), .units = 3, .out_tree = tree, .out_steps = steps});
  Schedule schedule = std::move(builder).build();
  const Fraction time = seconds_per_byte(schedule);
  return {.schedule = std::move(schedule),
          .planner = "hand",
          .claimed_seconds_per_byte = time,
          .bound_seconds_per_byte = time};
}

// An allreduce of both trees with quotes in a name and a subset of the ranks.
ScheduleFile odd_sample() {
  const Fabric fabric = fabric::parse_fabric_text("a\"b <-> c 1GB/s; c <-> d 1GB/s");
  Schedule::Builder builder(
      fabric, Collective::make(fabric, {.kind = CollectiveKind::all_reduce, .ranks = {NodeId{1}, NodeId{0}}}));
  const std::vector<RouteId> out{builder.add_route(std::vector<LinkId>{LinkId{1}})},
      in{builder.add_route(std::vector<LinkId>{LinkId{0}})};
  builder.add_chunk({.root = NodeId{1}, .units = 7, .in_tree = in, .out_tree = out});
  Schedule schedule = std::move(builder).build();
  const Fraction time = seconds_per_byte(schedule);
  return {.schedule = std::move(schedule),
          .planner = "hand",
          .claimed_seconds_per_byte = time,
          .bound_seconds_per_byte = std::nullopt};
}

std::string error_of(const std::string& text) {
  return testing::error_of([&] { parse_schedule(text, "plan.json"); });
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ScheduleFile, ReadsWhatItWrites) {
  for (const ScheduleFile& file : {sample(), odd_sample()}) {
    const std::string text = format_schedule(file);
    const ScheduleFile again = parse_schedule(text, "plan.json");
    EXPECT_EQ(format_schedule(again), text);
    EXPECT_EQ(again.schedule.fabric().fingerprint(), file.schedule.fabric().fingerprint());
    EXPECT_EQ(again.schedule.collective(), file.schedule.collective());
    EXPECT_EQ(again.claimed_seconds_per_byte, file.claimed_seconds_per_byte);
    EXPECT_EQ(again.bound_seconds_per_byte, file.bound_seconds_per_byte);
    const Verdict verdict = verify(again.schedule, again.claimed_seconds_per_byte);
    EXPECT_TRUE(verdict.valid) << verdict.reason;
  }
}

TEST(ScheduleFile, KeepsTheOrderOfChunksAndTheirSteps) {
  const ScheduleFile file = sample(), again = parse_schedule(format_schedule(file), "plan.json");
  ASSERT_EQ(again.schedule.chunk_count(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again.schedule.chunk(i).units, file.schedule.chunk(i).units);
    EXPECT_EQ(again.schedule.chunk(i).offset_units, file.schedule.chunk(i).offset_units);
    EXPECT_TRUE(std::ranges::equal(again.schedule.chunk(i).out_tree, file.schedule.chunk(i).out_tree));
  }
  EXPECT_EQ(again.schedule.chunk(1).out_steps[1], 2u);
}

TEST(ScheduleFile, NamesWhatIsWrong) {
  const std::string good = format_schedule(sample());
  EXPECT_THAT(error_of(""), HasSubstr("plan.json: is empty, not JSON"));
  EXPECT_THAT(error_of(good.substr(0, good.size() / 2)), HasSubstr("line"));
  EXPECT_THAT(error_of("[]"), HasSubstr("not an object"));
  EXPECT_THAT(error_of(std::string(100000, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(error_of(replaced(good, "schedule/1", "schedule/9")), HasSubstr("schedule/9"));
  EXPECT_THAT(error_of(replaced(good, "\"hand\"", "\"\\u001b[31mhand\"")), HasSubstr("control character"));
  EXPECT_THAT(error_of(replaced(good, "\"planner\"", "\"planer\"")), HasSubstr("did you mean 'planner'?"));
  EXPECT_THAT(error_of(replaced(good, "\"units\": 2", "\"units\": 0")), HasSubstr("chunks[0]: a chunk has zero units"));
  EXPECT_THAT(error_of(replaced(good, "\"units\": 2", "\"units\": -2")),
              HasSubstr("chunks[0].units is not a whole number"));
  EXPECT_THAT(error_of(replaced(good, "\"units\": 2", "\"units\": 2.5")), HasSubstr("not a whole number"));
  EXPECT_THAT(error_of(replaced(good, "\"units\": 2", "\"units\": 4")), HasSubstr("total_units is 5"));
  EXPECT_THAT(error_of(replaced(good, "\"out\": [0,1]", "\"out\": [0,9]")),
              HasSubstr("chunks[0]: a tree uses route 9"));
  EXPECT_THAT(error_of(replaced(good, "\n[0,3]", "\n[0,4]")), HasSubstr("routes[0]: a route jumps"));
  EXPECT_THAT(error_of(replaced(good, "\n[0,3]", "\n[0,99999999999]")),
              HasSubstr("routes[0][1] is not a whole number from 0 to 4294967295"));
  EXPECT_THAT(error_of(replaced(good, "\"broadcast\"", "\"gossip\"")), HasSubstr("unknown collective 'gossip'"));
  EXPECT_THAT(error_of(replaced(good, "{\"root\": \"a\"", "{\"root\": \"aa\"")), HasSubstr("'aa' is not declared"));
  EXPECT_THAT(error_of(replaced(good, "\"seconds_per_byte\": \"1/", "\"seconds_per_byte\": \"-1/")),
              HasSubstr("not above zero"));
}

// One digit of the file changed: it no longer reads, or the verifier refuses it, or only what is not promised changed
// (a latency, a bound that is merely carried along, parts of a fabric that the plan does not lean on).
TEST(ScheduleFile, AChangedNumberInTheTreesIsRefused) {
  for (const ScheduleFile& file : {sample(), odd_sample()}) {
    const std::string good = format_schedule(file);
    const size_t trees = good.find("\"routes\"");
    ASSERT_NE(trees, std::string::npos);
    int refused = 0, same = 0;
    for (size_t i = trees; i < good.size(); ++i) {
      if (good[i] < '0' || good[i] > '9') continue;
      std::string bad = good;
      bad[i] = good[i] == '9' ? '8' : static_cast<char>(good[i] + 1);
      try {
        const ScheduleFile changed = parse_schedule(bad, "plan.json");
        const Verdict verdict = verify(changed.schedule, changed.claimed_seconds_per_byte);
        // What still verifies must deliver the same: only steps may differ freely.
        const bool steps_only = bad.find("_steps", 0) < i;
        EXPECT_TRUE(!verdict.valid || steps_only) << bad.substr(i > 40 ? i - 40 : 0, 80);
        verdict.valid ? ++same : ++refused;
      } catch (const Error&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, 2);
  }
}

TEST(ScheduleFile, SurvivesRandomDamage) {
  const uint32_t seed = 20261120;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::minstd_rand random(seed);
  const std::string good = format_schedule(sample());
  int read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    for (uint64_t changes = 1 + random() % 3; changes > 0; --changes)
      bad[random() % bad.size()] = static_cast<char>(random() % 128);
    try {
      parse_schedule(bad, "plan.json");
      ++read;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("plan.json"));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  EXPECT_LT(read, 3000);
}

TEST(ScheduleFile, IsWrittenWholeOrNotAtAll) {
  const std::string path = ::testing::TempDir() + "banyan_schedule_file_test.json";
  write_schedule(path, sample());
  EXPECT_EQ(read_file(path), format_schedule(read_schedule(path)));
  EXPECT_THROW(write_schedule("/nonexistent/plan.json", sample()), Error);
}

}  // namespace
}  // namespace banyan::schedule
