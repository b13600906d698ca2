#include "banyan/predict/report/page_data.h"

#include <nlohmann/json.hpp>

#include "banyan/predict/report/page_series.h"
#include "banyan/predict/report/page_spans.h"
#include "banyan/predict/report/test_predictions.h"
#include "banyan/testing/test.h"

namespace banyan::predict::report {
namespace {

using nlohmann::json;

json data_of(const ReportInput& input, const ReportLimits& limits = {}) {
  return json::parse(page_data(input, limits));
}

std::string notes_of(const json& data) { return data["notes"].dump(); }

TEST(PageData, HoldsEverySpanWithItsTimes) {
  const ReportInput input = sample::three_jobs();
  const Prediction& prediction = input.prediction;
  const json data = data_of(input);
  std::multiset<std::tuple<std::string, std::string, int64_t, int64_t, std::string, std::string>> expected, found;
  for (const PredictedSpan& span : prediction.spans) {
    const PredictedRank& rank = prediction.ranks[span.rank];
    expected.emplace(rank.name, rank.streams[span.stream], span.begin.count(), span.end.count(),
                     prediction.names[span.name], to_string(span.kind));
  }
  for (const json& track : data["tracks"]) {
    int64_t last = 0;
    const json& spans = track["spans"];
    for (size_t i = 0; i < spans.size(); i += 4) {
      const int64_t begin = last + spans[i].get<int64_t>();
      last = begin + spans[i + 1].get<int64_t>();
      found.emplace(track["rank"], track["stream"], begin, last, data["names"][spans[i + 2].get<size_t>()],
                    data["kinds"][spans[i + 3].get<size_t>()]);
    }
  }
  EXPECT_EQ(found, expected);
  EXPECT_TRUE(data["notes"].empty());
}

TEST(PageData, TellsTheTimeOfTheHostApartFromTheBubble) {
  ReportInput input;
  Prediction& prediction = input.prediction;
  prediction.time = Picoseconds(100);
  prediction.jobs = {{.name = "job", .tenant = "", .end = Picoseconds(100), .alone = {}}};
  prediction.ranks = {{.name = "a",
                       .streams = {},
                       .compute = Picoseconds(40),
                       .exposed = Picoseconds(20),
                       .waiting = Picoseconds(10),
                       .host = Picoseconds(25),
                       .bubble = Picoseconds(5)}};
  const json data = data_of(input);
  EXPECT_EQ(data["ranks"][0], json::parse(R"(["a", 0, 40, 20, 10, 25, 5])"));
  EXPECT_EQ(data["jobs"][0]["parts_ps"], json::parse("[40, 20, 10, 25, 5]"));
  EXPECT_DOUBLE_EQ(data["shares"][3].get<double>(), 0.25);
  EXPECT_DOUBLE_EQ(data["shares"][4].get<double>(), 0.05);
}

TEST(PageData, HoldsTheFactsInTheirOrder) {
  ReportInput input = sample::all_reduce_on_one_box();
  input.facts = {{"Tokens", "12 a second"}, {"Memory", "fits: <1 GiB"}};
  EXPECT_EQ(data_of(input)["facts"], json::parse(R"([["Tokens", "12 a second"], ["Memory", "fits: <1 GiB"]])"));
}

TEST(PageData, ExplainsThatRanksThatAreAlikeHaveOneTrack) {
  const json data = data_of(sample::training_step({.fabric = "dgx-a100:4", .ranks_with_spans = 4}));
  EXPECT_THAT(notes_of(data), HasSubstr("the timeline shows 4 of 32 ranks, one of each kind."));
}

TEST(PageData, KeepsWholeRanksWhenThereAreTooManySpans) {
  const ReportInput input = sample::training_step({.fabric = "dgx-a100:4"});
  const size_t all = input.prediction.spans.size(), most = all / 5;
  std::map<uint32_t, size_t> of_rank, kept;
  for (const PredictedSpan& span : input.prediction.spans) ++of_rank[span.rank];
  const PageSpans page = choose_spans(input.prediction, most);
  size_t total = 0;
  for (const PageSpans::Track& track : page.tracks) {
    kept[track.rank] += track.spans.size();
    total += track.spans.size();
  }
  EXPECT_LE(total, most);
  EXPECT_GE(kept.size(), 5u);
  for (const auto& [rank, count] : kept) EXPECT_EQ(count, of_rank[rank]) << rank;
  EXPECT_EQ(kept.begin()->first, 0u);
  EXPECT_GE(kept.rbegin()->first, 16u) << "spread over all ranks";
  EXPECT_THAT(page.note, HasSubstr("of 32 ranks, evenly spread"));
  EXPECT_THAT(notes_of(data_of(input, {.spans = most})), HasSubstr("The timeline holds "));
}

TEST(PageData, KeepsTheLongestSpansOfARankThatIsTooLarge) {
  const ReportInput input = sample::training_step({.fabric = "dgx-a100:1"});
  const PageSpans page = choose_spans(input.prediction, 10);
  size_t total = 0;
  Picoseconds shortest = Picoseconds::max(), longest_left{0};
  std::set<uint32_t> chosen;
  for (const PageSpans::Track& track : page.tracks) {
    EXPECT_EQ(track.rank, input.prediction.spans.front().rank);
    total += track.spans.size();
    chosen.insert(track.spans.begin(), track.spans.end());
  }
  for (uint32_t i = 0; i < input.prediction.spans.size(); ++i) {
    const PredictedSpan& span = input.prediction.spans[i];
    if (chosen.contains(i)) shortest = std::min(shortest, span.end - span.begin);
    if (!chosen.contains(i) && span.rank == page.tracks[0].rank)
      longest_left = std::max(longest_left, span.end - span.begin);
  }
  EXPECT_LE(total, 10u);
  EXPECT_GE(total, 5u);
  EXPECT_GT(shortest, longest_left);
  EXPECT_THAT(page.note, HasSubstr("those of at least"));
}

TEST(PageData, NeverHoldsMoreThanItsLimits) {
  const ReportInput input = sample::training_step({.fabric = "dgx-a100:16", .micro_batches = 2});
  for (const size_t most : {size_t{0}, size_t{1}, size_t{7}, size_t{100}}) {
    SCOPED_TRACE(most);
    const json data = data_of(input, {.spans = most, .ranks = most, .links = most, .lines = most, .samples = most});
    size_t spans = 0;
    for (const json& track : data["tracks"]) spans += track["spans"].size() / 4;
    EXPECT_LE(spans, most);
    EXPECT_LE(data["ranks"].size(), std::max<size_t>(most, 1));
    EXPECT_LE(data["links"].size(), most);
    EXPECT_LE(data["drawing"]["lines"].size(), most);
    EXPECT_EQ(data["series"]["steps"], 0);
    for (const json& line : data["drawing"]["lines"]) {
      EXPECT_FALSE(line["forth"].is_object() && line["forth"].contains("series"));
    }
    EXPECT_THAT(notes_of(data), HasSubstr("The timeline holds "));
    EXPECT_EQ(notes_of(data).find("The drawing shows the ") != std::string::npos, most < 32);
    EXPECT_EQ(notes_of(data).find("The breakdown has ") != std::string::npos, most < 128);
    EXPECT_THAT(notes_of(data), HasSubstr("Loads over time are left out"));
  }
}

TEST(PageData, FoldsRanksIntoMeansThatKeepTheirSum) {
  const ReportInput input = sample::training_step({.fabric = "dgx-a100:4"});
  const json data = data_of(input, {.ranks = 8});
  ASSERT_EQ(data["ranks"].size(), 8u);
  EXPECT_EQ(data["ranks"][1][0], "gpu4 – gpu7");
  int64_t compute = 0;
  for (size_t i = 4; i < 8; ++i) compute += input.prediction.ranks[i].compute.count();
  EXPECT_NEAR(data["ranks"][1][2].get<double>(), static_cast<double>(compute) / 4, 1);
}

TEST(PageData, GivesEveryLineTheLoadOfItsLinks) {
  const ReportInput input = sample::all_reduce_on_one_box();
  const json data = data_of(input);
  ASSERT_EQ(data["drawing"]["lines"].size(), 8u);
  const double seconds = static_cast<double>(input.prediction.time.count()) * 1e-12;
  const json& line = data["drawing"]["lines"][3];
  const std::string name = line["forth"]["hottest"];
  for (uint32_t number = 0; number < input.fabric->links().size(); ++number) {
    const Link& link = input.fabric->links()[number];
    if (input.fabric->name(link.from) + " -> " + input.fabric->name(link.to) != name) continue;
    const double bandwidth = static_cast<double>(link.bandwidth.bytes_per_second());
    EXPECT_DOUBLE_EQ(line["forth"]["load"], input.prediction.links[number].bytes / bandwidth / seconds);
    EXPECT_EQ(line["forth"]["series"].get<std::string>().size(), data["series"]["steps"].get<size_t>());
    return;
  }
  FAIL() << name;
}

TEST(PageData, TellsOfLinksThatChangeAndJobsThatFail) {
  const ReportInput input = sample::links_that_change();
  const json data = data_of(input);
  const int64_t time = input.prediction.time.count();
  ASSERT_EQ(data["events"].size(), 7u);
  const json& first = data["events"][0];
  EXPECT_EQ(first["kind"], "down");
  EXPECT_EQ(first["time_ps"], time / 5);
  EXPECT_EQ(first["links"], 2);
  ASSERT_EQ(first["names"].size(), 1u);
  EXPECT_THAT(first["names"][0].get<std::string>(), ::testing::StartsWith("gpu3 – ib"));
  EXPECT_EQ(data["events"][1]["kind"], "bandwidth");
  EXPECT_EQ(data["events"][1]["bytes_per_second"], 5'000'000'000);
  EXPECT_EQ(data["events"][2]["kind"], "up");
  EXPECT_EQ(data["jobs"][2]["failed_at_ps"], time * 11 / 20);
  EXPECT_TRUE(data["jobs"][0]["failed_at_ps"].is_null());
  // Links that changed have their rows with their times, whether they are among the busiest or not.
  std::map<std::string, json> rows;
  for (const json& row : data["links"]) {
    if (row.contains("states")) rows[row["name"]] = row;
  }
  EXPECT_EQ(rows.size(), 8u);
  size_t directions = 0;
  for (const auto& [name, row] : rows) {
    const json& states = row["states"];
    ASSERT_EQ(states.size(), 3u) << name;
    if (states[2] != 0) continue;
    const json& line = data["drawing"]["lines"][row["line"].get<size_t>()];
    for (const char* side : {"forth", "back"}) {
      if (line[side]["hottest"] != name) continue;
      ++directions;
      EXPECT_EQ(line[side]["down"], json::array({states[0], states[1]})) << name;
    }
  }
  EXPECT_GE(directions, 4u);
  EXPECT_EQ(data_of(input, {.events = 3})["events"].size(), 3u);
  EXPECT_THAT(notes_of(data_of(input, {.events = 3})), HasSubstr("marks the first 3"));
}

TEST(PageData, OfAnyPartAloneIsWhole) {
  ReportInput only_links = sample::all_reduce_on_one_box();
  only_links.fabric.reset();
  EXPECT_TRUE(data_of(only_links)["drawing"].is_null());
  EXPECT_EQ(data_of(only_links)["links"][0]["name"], "link 0");
  EXPECT_EQ(data_of(sample::nothing())["sentence"], "Nothing was simulated.");
  ReportInput only_fabric;
  only_fabric.fabric = sample::three_jobs().fabric;
  EXPECT_EQ(data_of(only_fabric)["drawing"]["lines"].size(), 64u);
  EXPECT_EQ(data_of(sample::sweep_only())["points"].size(), 69u);
}

TEST(PageSeries, KeepsTheMeanOfEachStepAndTheHighestOfTheLinks) {
  Prediction prediction;
  prediction.load_step = Picoseconds(10);
  prediction.links.resize(2);
  prediction.links[0].load = {0.0f, 1.0f, 0.0f, 0.0f};
  prediction.links[1].load = {0.0f, 0.0f, 0.001f};
  const PageSeries series(prediction, 2);
  EXPECT_EQ(series.steps(), 2u);
  EXPECT_DOUBLE_EQ(series.step_ps(), 20);
  const uint32_t both[] = {0, 1};
  // A half is level 32 of 63; what is not idle is never level 0.
  EXPECT_EQ(series.highest(both), (std::string{PageSeries::letter(0.5), PageSeries::letter(0.0005)}));
  EXPECT_EQ(PageSeries::letter(0.5), 'g');
  EXPECT_EQ(PageSeries::letter(0.0005), 'B');
  EXPECT_EQ(PageSeries::letter(0), 'A');
  EXPECT_EQ(PageSeries::letter(2), '_');
}

}  // namespace
}  // namespace banyan::predict::report
