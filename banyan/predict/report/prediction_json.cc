#include "banyan/predict/report/prediction_json.h"

#include "banyan/fabric/json.h"
#include "banyan/predict/report/json_writer.h"
#include "banyan/predict/report/prediction_json_keys.h"

namespace banyan::predict {
namespace {

using report::JsonWriter;
using report::kPredictionFormat;
using report::kSpanKinds;

void write_jobs(JsonWriter& json, const std::vector<PredictedJob>& jobs) {
  json.line().key("jobs").open('[');
  for (const PredictedJob& job : jobs) {
    json.line().open('{').field("name", job.name).field("tenant", job.tenant);
    json.field("begin_ps", job.begin).field("end_ps", job.end);
    if (job.alone) json.field("alone_ps", *job.alone);
    if (job.failed_at) json.field("failed_at_ps", *job.failed_at);
    json.close();
  }
  json.close();
}

void write_ranks(JsonWriter& json, const std::vector<PredictedRank>& ranks) {
  json.line().key("ranks").open('[');
  for (const PredictedRank& rank : ranks) {
    json.line().open('{').field("name", rank.name);
    json.field("job", rank.job).field("node", rank.node).list("streams", rank.streams);
    json.field("compute_ps", rank.compute).field("exposed_ps", rank.exposed);
    json.field("waiting_ps", rank.waiting).field("host_ps", rank.host).field("bubble_ps", rank.bubble);
    json.close();
  }
  json.close();
}

void write_spans(JsonWriter& json, const Prediction& prediction) {
  json.line().list("names", prediction.names);
  json.line().list("kinds", kSpanKinds, [](PredictedSpan::Kind kind) { return to_string(kind); });
  const auto& spans = prediction.spans;
  json.line().key("spans").open('{');
  json.line().list("rank", spans, [](const PredictedSpan& span) { return span.rank; });
  json.line().list("stream", spans, [](const PredictedSpan& span) { return span.stream; });
  json.line().list("kind", spans, [](const PredictedSpan& span) { return static_cast<uint32_t>(span.kind); });
  json.line().list("name", spans, [](const PredictedSpan& span) { return span.name; });
  json.line().list("begin_ps", spans, [](const PredictedSpan& span) { return span.begin.count(); });
  json.line().list("duration_ps", spans, [](const PredictedSpan& span) { return (span.end - span.begin).count(); });
  json.close();
}

void write_links(JsonWriter& json, const Prediction& prediction) {
  json.line().field("load_step_ps", prediction.load_step);
  json.line().key("links").open('{');
  json.line().list("bytes", prediction.links, [](const PredictedLink& link) { return link.bytes; });
  json.line().list("full_ps", prediction.links, [](const PredictedLink& link) { return link.full.count(); });
  json.line().key("load").open('[');
  for (const PredictedLink& link : prediction.links) {
    json.open('[');
    for (const float load : link.load) json.number(load);
    json.close();
  }
  json.close().close();
}

void write_events(JsonWriter& json, const std::vector<LinkEvent>& events) {
  json.line().key("link_events").open('[');
  for (const LinkEvent& event : events) {
    json.line().open('{').field("time_ps", event.time).field("link", index(event.link));
    if (event.bandwidth) json.field("bytes_per_second", event.bandwidth->bytes_per_second());
    json.close();
  }
  json.close();
}

}  // namespace

std::string format_prediction(const ReportInput& input) {
  const Prediction& prediction = input.prediction;
  std::string text;
  JsonWriter json(text);
  json.open('{').field("banyan", kPredictionFormat).field("title", prediction.title);
  json.line().field("complete", prediction.complete).field("time_ps", prediction.time);
  write_jobs(json, prediction.jobs);
  write_ranks(json, prediction.ranks);
  write_spans(json, prediction);
  write_links(json, prediction);
  write_events(json, prediction.events);
  json.line().key("window").open('{').field("bytes", prediction.window.bytes);
  json.field("of_all", prediction.window.of_all).field("worst_flow", prediction.window.worst_flow).close();
  json.line().key("points").open('[');
  for (const PredictedPoint& point : input.points) {
    json.line().open('{').field("total_bytes", point.total).field("plan", point.plan);
    json.field("time_ps", point.time);
    json.field("algbw_bytes_per_second", point.algbw).field("busbw_bytes_per_second", point.busbw);
    if (point.slice != Bytes(0)) json.field("slice_bytes", point.slice);
    json.close();
  }
  json.close().line().key("what_if").open('[');
  for (const WhatIf& what : input.what_if) {
    json.line().open('{').field("resource", what.resource).field("time_ps", what.time);
    json.field("gain", what.gain).close();
  }
  json.close().line().list("notes", input.notes);
  if (input.simulated) {
    const SimulatedCounts& counts = *input.simulated;
    json.line().key("simulated").open('{').field("nodes", counts.nodes);
    json.field("nodes_simulated", counts.nodes_simulated).field("rank_kinds", counts.rank_kinds);
    json.field("messages", counts.messages).close();
  }
  if (!input.training.empty()) json.line().key("training").raw(input.training);
  if (input.fabric) json.line().key("fabric").raw(format_fabric_json(*input.fabric));
  json.close();
  text += '\n';
  return text;
}

}  // namespace banyan::predict
