#include "banyan/predict/report/prediction_json.h"

#include <nlohmann/json.hpp>

#include "banyan/base/file.h"
#include "banyan/predict/report/test_prediction_reader.h"
#include "banyan/predict/report/test_predictions.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

using nlohmann::json;

void expect_same(const Prediction& a, const Prediction& b) {
  EXPECT_EQ(a.title, b.title);
  EXPECT_EQ(a.time, b.time);
  EXPECT_EQ(a.complete, b.complete);
  EXPECT_EQ(a.names, b.names);
  EXPECT_EQ(a.load_step, b.load_step);
  EXPECT_EQ(a.window.bytes, b.window.bytes);
  EXPECT_EQ(a.window.of_all, b.window.of_all);
  EXPECT_EQ(a.window.worst_flow, b.window.worst_flow);
  ASSERT_EQ(a.jobs.size(), b.jobs.size());
  for (size_t i = 0; i < a.jobs.size(); ++i) {
    EXPECT_EQ(a.jobs[i].name, b.jobs[i].name);
    EXPECT_EQ(a.jobs[i].tenant, b.jobs[i].tenant);
    EXPECT_EQ(a.jobs[i].begin, b.jobs[i].begin);
    EXPECT_EQ(a.jobs[i].end, b.jobs[i].end);
    EXPECT_EQ(a.jobs[i].alone, b.jobs[i].alone);
    EXPECT_EQ(a.jobs[i].failed_at, b.jobs[i].failed_at);
  }
  ASSERT_EQ(a.ranks.size(), b.ranks.size());
  for (size_t i = 0; i < a.ranks.size(); ++i) {
    const PredictedRank &one = a.ranks[i], &other = b.ranks[i];
    EXPECT_EQ(one.name, other.name);
    EXPECT_EQ(one.streams, other.streams);
    EXPECT_EQ(std::tuple(one.job, one.node, one.compute, one.exposed, one.waiting, one.host, one.bubble),
              std::tuple(other.job, other.node, other.compute, other.exposed, other.waiting, other.host, other.bubble));
  }
  ASSERT_EQ(a.spans.size(), b.spans.size());
  for (size_t i = 0; i < a.spans.size(); ++i) {
    const PredictedSpan &one = a.spans[i], &other = b.spans[i];
    ASSERT_EQ(std::tuple(one.rank, one.stream, one.kind, one.name, one.begin, one.end),
              std::tuple(other.rank, other.stream, other.kind, other.name, other.begin, other.end));
  }
  ASSERT_EQ(a.links.size(), b.links.size());
  for (size_t i = 0; i < a.links.size(); ++i) {
    EXPECT_EQ(a.links[i].bytes, b.links[i].bytes);
    EXPECT_EQ(a.links[i].full, b.links[i].full);
    EXPECT_EQ(a.links[i].load, b.links[i].load);
  }
}

TEST(PredictionJson, ReadsBackAsTheSameToTheLastBit) {
  ReportInput input = sample::three_jobs();
  input.prediction.jobs[2].failed_at = Picoseconds(12'345);
  input.prediction.window = {.bytes = 1.0 / 3, .of_all = 1e-7, .worst_flow = 0.004};
  input.points = sample::sweep_only().points;
  input.what_if = {{"links \"up\"", Picoseconds(17), 1.0 / 7}, {"compute", Picoseconds(99), -0.02}};
  input.prediction.ranks[1].host = Picoseconds(7);
  input.points[0].slice = Bytes(1 << 20);
  input.notes = {"h100: \"borrowed\""};
  input.simulated = SimulatedCounts{.nodes = 12, .nodes_simulated = 3, .rank_kinds = 1, .messages = 5};
  input.training = R"({"model":"gpt","memory":{"fits":true,"stages":[{"all":1}]}})";
  const ReportInput back = read_prediction(format_prediction(input), "test");
  EXPECT_EQ(back.notes, input.notes);
  ASSERT_TRUE(back.simulated);
  EXPECT_EQ(back.simulated->messages, 5u);
  EXPECT_EQ(back.training, input.training);
  expect_same(input.prediction, back.prediction);
  ASSERT_TRUE(back.fabric);
  EXPECT_EQ(back.fabric->fingerprint(), input.fabric->fingerprint());
  ASSERT_EQ(back.points.size(), input.points.size());
  for (size_t i = 0; i < back.points.size(); ++i) {
    EXPECT_EQ(back.points[i].total, input.points[i].total);
    EXPECT_EQ(back.points[i].plan, input.points[i].plan);
    EXPECT_EQ(back.points[i].time, input.points[i].time);
    EXPECT_EQ(back.points[i].algbw, input.points[i].algbw);
    EXPECT_EQ(back.points[i].busbw, input.points[i].busbw);
    EXPECT_EQ(back.points[i].slice, input.points[i].slice);
  }
  ASSERT_EQ(back.what_if.size(), 2u);
  EXPECT_EQ(back.what_if[0].resource, "links \"up\"");
  EXPECT_EQ(back.what_if[0].time, Picoseconds(17));
  EXPECT_EQ(back.what_if[1].gain, -0.02);
}

TEST(PredictionJson, WritesTheSameBytesAgain) {
  for (const ReportInput& input : {sample::stopped_early(), sample::sweep_only(), sample::nothing()}) {
    const std::string text = format_prediction(input);
    EXPECT_EQ(format_prediction(read_prediction(text, "test")), text);
  }
}

TEST(PredictionJson, KeepsNamesWithAnyCharacters) {
  const ReportInput input = sample::hostile_names();
  const std::string text = format_prediction(input);
  const ReportInput back = read_prediction(text, "test");
  EXPECT_EQ(back.prediction.names[0], input.prediction.names[0]);
  EXPECT_EQ(back.prediction.ranks[3].name, input.prediction.ranks[3].name);
  EXPECT_THAT(back.prediction.title, HasSubstr("\x01 \uFFFD "));  // what was no UTF-8
}

TEST(PredictionJson, SaysItsUnitsInItsKeys) {
  const json document = json::parse(format_prediction(sample::all_reduce_on_one_box()));
  EXPECT_EQ(document["banyan"], "prediction/1");
  EXPECT_TRUE(document["time_ps"].is_number_unsigned());
  EXPECT_EQ(document["spans"]["duration_ps"].size(), document["spans"]["rank"].size());
  EXPECT_TRUE(document["points"][0].contains("algbw_bytes_per_second"));
}

// The complaint about a good prediction after one change.
std::string complaint(const std::function<void(json&)>& change) {
  json document = json::parse(format_prediction(sample::all_reduce_on_one_box()));
  change(document);
  try {
    read_prediction(document.dump(), "p.json");
  } catch (const Error& error) {
    EXPECT_THAT(error.where(), ::testing::StartsWith("p.json"));
    return error.what();
  }
  return "nothing";
}

TEST(PredictionJson, RefusesWhatRefersToNothing) {
  EXPECT_THAT(complaint([](json& d) { d["spans"]["rank"][5] = 8; }),
              HasSubstr("spans.rank[5] is 8, but there are 8 ranks"));
  EXPECT_THAT(complaint([](json& d) { d["spans"]["stream"][2] = 3; }), HasSubstr("spans.stream[2] is 3"));
  EXPECT_THAT(complaint([](json& d) { d["spans"]["kind"][0] = 7; }), HasSubstr("spans.kind[0] is 7"));
  EXPECT_THAT(complaint([](json& d) { d["spans"]["name"][1] = 4000000000u; }), HasSubstr("spans.name[1]"));
  EXPECT_THAT(complaint([](json& d) { d["ranks"][3]["job"] = 1; }), HasSubstr("ranks[3].job is 1"));
  EXPECT_THAT(complaint([](json& d) { d["ranks"][0]["node"] = 9; }),
              HasSubstr("ranks[0].node is 9, but there are 9 nodes"));
}

TEST(PredictionJson, RefusesWrongValuesWithTheirPlace) {
  EXPECT_THAT(complaint([](json& d) { d["time_ps"] = -1; }), HasSubstr("time_ps is not a whole number"));
  EXPECT_THAT(complaint([](json& d) { d["time_ps"] = uint64_t{1} << 63; }),
              HasSubstr("time_ps is not a whole number from 0 to"));
  EXPECT_THAT(complaint([](json& d) { d["spans"]["begin_ps"][4] = "soon"; }), HasSubstr("spans.begin_ps[4]"));
  EXPECT_THAT(complaint([](json& d) { d["spans"]["begin_ps"][0] = 999999999999; }),
              HasSubstr("spans.begin_ps[1] is before"));
  EXPECT_THAT(complaint([](json& d) { d["spans"]["begin_ps"].push_back(1); }), HasSubstr("spans.begin_ps has"));
  EXPECT_THAT(complaint([](json& d) { d["spans"]["duration_ps"].back() = int64_t{1} << 62; }),
              HasSubstr("spans.duration_ps[167] is not a whole number from 0 to"));
  EXPECT_THAT(complaint([](json& d) { d["links"]["load"][3][0] = 1.5; }),
              HasSubstr("links.load[3][0] is not a number from 0 to 1: it is"));
  EXPECT_THAT(complaint([](json& d) { d["links"]["bytes"][0] = -1; }),
              HasSubstr("links.bytes[0] is not a number, 0 or above: it is -1"));
  EXPECT_THAT(complaint([](json& d) { d["load_step_ps"] = 0; }), HasSubstr("load_step_ps is 0"));
  EXPECT_THAT(complaint([](json& d) { d["kinds"][0] = "sleep"; }), HasSubstr("kinds[0] is no kind"));
  EXPECT_THAT(complaint([](json& d) { d["jobs"][0]["begin_ps"] = int64_t{1} << 60; }),
              HasSubstr("ends before it begins"));
  EXPECT_THAT(complaint([](json& d) { d["what_if"][0]["gain"] = 2; }),
              HasSubstr("what_if[0].gain is not a number, at most 1: it is 2"));
}

TEST(PredictionJson, CarriesWhatHappensToLinks) {
  const ReportInput input = sample::links_that_change();
  const std::vector<LinkEvent> back = read_prediction(format_prediction(input), "p.json").prediction.events;
  ASSERT_EQ(back.size(), input.prediction.events.size());
  ASSERT_GE(back.size(), 14u);
  for (size_t i = 0; i < back.size(); ++i) {
    EXPECT_EQ(back[i].time, input.prediction.events[i].time) << i;
    EXPECT_EQ(back[i].link, input.prediction.events[i].link) << i;
    EXPECT_EQ(back[i].bandwidth, input.prediction.events[i].bandwidth) << i;
  }
  const auto with = [](const char* events) {
    return complaint([&](json& d) { d["link_events"] = json::parse(events); });
  };
  EXPECT_EQ(complaint([](json& d) { d.erase("link_events"); }), "nothing") << "files from before they were told";
  EXPECT_EQ(with(R"([{"time_ps": 5, "link": 15, "bytes_per_second": 0}, {"time_ps": 6, "link": 15}])"), "nothing");
  EXPECT_THAT(with(R"([{"time_ps": 5, "link": 16}])"), HasSubstr("link_events[0].link is 16, but there are 16 links"));
  EXPECT_THAT(with(R"([{"time_ps": 5, "link": 3}, {"time_ps": 5, "link": 3}])"),
              HasSubstr("link_events[1] does not come after"));
  EXPECT_THAT(with(R"([{"time_ps": 5, "link": 3}, {"time_ps": 4, "link": 4}])"),
              HasSubstr("link_events[1] does not come after"));
  EXPECT_THAT(with(R"([{"time_ps": 5, "link": 3, "bytes_per_second": 10000000000000000}])"),
              HasSubstr("link_events[0].bytes_per_second is not a whole number from 0 to"));
}

TEST(PredictionJson, RefusesOtherFormatsAndKeys) {
  EXPECT_THAT(complaint([](json& d) { d["banyan"] = "prediction/2"; }),
              HasSubstr("a prediction says \"banyan\": \"prediction/1\""));
  EXPECT_THAT(complaint([](json& d) { d.erase("spans"); }), HasSubstr("has no \"spans\""));
  EXPECT_THAT(complaint([](json& d) { d["jobs"][0]["tennant"] = ""; }), HasSubstr("did you mean 'tenant'"));
  EXPECT_THAT(complaint([](json& d) { d["fabric"]["nodes"][0]["kind"] = "toaster"; }),
              HasSubstr("p.json fabric line 1: "));
  EXPECT_THAT(complaint([](json& d) { d = json::array(); }), HasSubstr("the prediction is not an object"));
}

TEST(PredictionJson, RefusesLinksOfAnotherFabric) {
  json document = json::parse(format_prediction(sample::all_reduce_on_one_box()));
  for (const char* key : {"bytes", "full_ps", "load"}) document["links"][key].erase(0);
  try {
    read_prediction(document.dump(), "p.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_THAT(error.what(), HasSubstr("has 15 links, its fabric has 16"));
  }
}

TEST(PredictionJson, ReadsTheExampleOfItsManual) {
  const std::string manual = read_file(BANYAN_SOURCE_DIR "/docs/formats/prediction.md");
  const size_t begin = manual.find("```json\n") + 8;
  const ReportInput example = read_prediction(manual.substr(begin, manual.find("```", begin) - begin), "manual");
  EXPECT_EQ(example.prediction.spans.size(), 2u);
  EXPECT_EQ(example.prediction.spans[1].end, Picoseconds(4000));
}

TEST(PredictionJson, RefusesBrokenAndDeeplyNestedTexts) {
  const std::string text = format_prediction(sample::sweep_only());
  EXPECT_THROW(read_prediction(text.substr(0, text.size() / 2), "p.json"), Error);
  EXPECT_THROW(read_prediction("", "p.json"), Error);
  EXPECT_THROW(read_prediction(std::string(1 << 22, '['), "p.json"), Error);
}

}  // namespace
}  // namespace banyan::predict
