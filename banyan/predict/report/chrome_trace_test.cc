#include "banyan/predict/report/chrome_trace.h"

#include <nlohmann/json.hpp>

#include "banyan/fabric/generate.h"
#include "banyan/predict/report/test_predictions.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

using nlohmann::json;

std::vector<json> events(const ReportInput& input, const std::string& phase) {
  const json document = json::parse(chrome_trace(input));
  std::vector<json> found;
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

ReportInput two_ranks() {
  ReportInput input;
  input.prediction.time = Picoseconds(5'000'000);
  input.prediction.ranks = {{.name = "a", .streams = {"compute", "comm"}}, {.name = "b", .streams = {"compute"}}};
  input.prediction.names = {"work", "talk"};
  return input;
}

TEST(ChromeTrace, HasAnEventForEverySpanWithItsRankStreamAndTimes) {
  const ReportInput input = sample::three_jobs();
  const std::vector<json> spans = events(input, "X");
  ASSERT_EQ(spans.size(), input.prediction.spans.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    const PredictedSpan& span = input.prediction.spans[i];
    EXPECT_EQ(spans[i]["pid"], span.rank + 1);
    EXPECT_EQ(spans[i]["name"], input.prediction.names[span.name]);
    EXPECT_EQ(spans[i]["cat"], to_string(span.kind));
    // As doubles, as viewers read them: exact to a nanosecond, and here to a picosecond.
    EXPECT_NEAR(spans[i]["ts"].get<double>() * 1e6, static_cast<double>(span.begin.count()), 0.5);
    EXPECT_NEAR(spans[i]["dur"].get<double>() * 1e6, static_cast<double>((span.end - span.begin).count()), 0.5);
  }
}

TEST(ChromeTrace, KeepsEveryPicosecondInItsText) {
  ReportInput input = two_ranks();
  const auto add = [&](int64_t begin, int64_t end) {
    input.prediction.spans.push_back({.begin = Picoseconds(begin), .end = Picoseconds(end)});
  };
  add(0, 1);
  add(1'000'000, 1'000'010);
  add(1'234'567, 2'234'567);
  add(int64_t{1} << 61, (int64_t{1} << 61) + 7);  // 26 days
  const std::string text = chrome_trace(input);
  EXPECT_THAT(text, HasSubstr("\"ts\":0,\"dur\":0.000001"));
  EXPECT_THAT(text, HasSubstr("\"ts\":1,\"dur\":0.00001}"));
  EXPECT_THAT(text, HasSubstr("\"ts\":1.234567,\"dur\":1}"));
  EXPECT_THAT(text, HasSubstr("\"ts\":2305843009213.693952,\"dur\":0.000007}"));
}

TEST(ChromeTrace, TellsWhatHappensToLinksAndWhichJobsFail) {
  const ReportInput input = sample::links_that_change();
  const double time = static_cast<double>(input.prediction.time.count()) * 1e-6;
  const std::vector<json> instants = events(input, "i");
  ASSERT_EQ(instants.size(), 8u);
  EXPECT_EQ(instants[0]["name"], "gpu3 – ib0 fails");
  EXPECT_EQ(instants[0]["s"], "g");
  EXPECT_NEAR(instants[0]["ts"].get<double>(), time / 5, 1e-3);
  EXPECT_EQ(instants[1]["name"], "gpu9 – ib0 changes to 5 GB/s");
  EXPECT_EQ(instants[2]["name"], "gpu3 – ib0 returns");
  EXPECT_EQ(instants[7]["name"], "evaluate fails");
  EXPECT_NEAR(instants[7]["ts"].get<double>(), time * 11 / 20, 1e-3);
}

TEST(ChromeTrace, NamesProcessesAndThreads) {
  const ReportInput input = two_ranks();
  std::map<std::pair<int, int>, std::string> names;
  for (const json& event : events(input, "M")) {
    if (event["name"] == "process_name" || event["name"] == "thread_name") {
      names[{event["pid"].get<int>(), event["tid"].get<int>()}] = event["args"]["name"].get<std::string>();
    }
  }
  const std::map<std::pair<int, int>, std::string> expected = {
      {{1, 0}, "a"}, {{1, 1}, "compute"}, {{1, 2}, "comm"}, {{2, 0}, "b"}, {{2, 1}, "compute"}};
  EXPECT_EQ(names, expected);
}

// Events of one thread lie one after the other or inside one another, since viewers drop those that overlap in part.
TEST(ChromeTrace, PutsOverlappingSpansOfAStreamOnThreadsOfTheirOwn) {
  ReportInput input = two_ranks();
  input.prediction.spans = {{.begin = Picoseconds(0), .end = Picoseconds(30)},
                            {.begin = Picoseconds(10), .end = Picoseconds(50)},
                            {.begin = Picoseconds(20), .end = Picoseconds(25)},
                            {.begin = Picoseconds(30), .end = Picoseconds(40)},
                            {.rank = 1, .begin = Picoseconds(35), .end = Picoseconds(60)}};
  std::vector<std::pair<int, int>> places;
  for (const json& event : events(input, "X")) places.emplace_back(event["pid"], event["tid"]);
  EXPECT_EQ(places, (std::vector<std::pair<int, int>>{{1, 1}, {1, 3}, {1, 4}, {1, 1}, {2, 1}}));
  EXPECT_THAT(chrome_trace(input), HasSubstr("compute (2)"));
  EXPECT_THAT(chrome_trace(input), HasSubstr("compute (3)"));
}

TEST(ChromeTrace, CountsTheLoadOfEveryLinkWhereItChanges) {
  ReportInput input = two_ranks();
  Fabric::Builder builder;
  const NodeId a = builder.add_rank("a"), b = builder.add_rank("b");
  for (int i = 0; i < 2; ++i) builder.add_cable({.from = a, .to = b, .bandwidth = Bandwidth::gigabytes_per_second(1)});
  input.fabric = std::move(builder).build();
  input.prediction.load_step = Picoseconds(1'500'000);
  input.prediction.links.resize(4);
  input.prediction.links[2].load = {0.25f, 0.25f, 0.75f};
  std::vector<std::tuple<std::string, double, double>> samples;
  for (const json& event : events(input, "C")) {
    EXPECT_EQ(event["pid"], 3);
    samples.emplace_back(event["name"], event["ts"], event["args"]["load"]);
  }
  const std::string name = "a -> b#1";
  EXPECT_EQ(samples,
            (std::vector<std::tuple<std::string, double, double>>{{name, 0, 0.25}, {name, 3, 0.75}, {name, 5, 0}}));
}

TEST(ChromeTrace, EscapesHostileNames) {
  const ReportInput input = sample::hostile_names();
  const std::vector<json> spans = events(input, "X");
  ASSERT_FALSE(spans.empty());
  std::set<std::string> names;
  for (const json& span : spans) names.insert(span["name"].get<std::string>());
  EXPECT_EQ(names.count(input.prediction.names[0]), 1u);
  EXPECT_EQ(names.count("broken \uFFFD( UTF-8 \n line \t tab"), 1u);
}

TEST(ChromeTrace, OfNothingIsStillATrace) {
  const json document = json::parse(chrome_trace(sample::nothing()));
  EXPECT_TRUE(document["traceEvents"].empty());
  EXPECT_EQ(document["otherData"]["complete"], "yes");
  EXPECT_EQ(json::parse(chrome_trace(sample::stopped_early()))["otherData"]["complete"], "no: stopped early");
}

TEST(ChromeTrace, GoesOutInBlocksWithoutHoldingTheWhole) {
  const ReportInput input =
      sample::training_step({.fabric = "dgx-a100:8", .stages = 8, .micro_batches = 24, .layers = 11});
  size_t largest = 0, total = 0;
  std::string text;
  write_chrome_trace(input, [&](std::string_view block) {
    largest = std::max(largest, block.size());
    total += block.size();
    text += block;
  });
  EXPECT_LT(largest, 70'000u);
  EXPECT_GT(total, 8'000'000u);
  EXPECT_EQ(text, chrome_trace(input));
}

}  // namespace
}  // namespace banyan::predict
