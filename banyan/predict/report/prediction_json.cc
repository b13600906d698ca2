#include "banyan/predict/report/prediction_json.h"

#include "banyan/fabric/json.h"
#include "banyan/predict/report/json_writer.h"
#include "banyan/predict/report/prediction_json_keys.h"

namespace banyan::predict {
namespace {

using report::JsonWriter;
using report::kPredictionFormat;
using report::kSpanKinds;

template <typename Rows, typename Number>
void write_column(JsonWriter& json, const char* key, const Rows& rows, Number number) {
  json.line().key(key).open('[');
  for (const auto& row : rows) json.number(number(row));
  json.close();
}

void write_jobs(JsonWriter& json, const std::vector<PredictedJob>& jobs) {
  json.line().key("jobs").open('[');
  for (const PredictedJob& job : jobs) {
    json.line().open('{').key("name").text(job.name).key("tenant").text(job.tenant);
    json.key("begin_ps").number(job.begin.count()).key("end_ps").number(job.end.count());
    if (job.alone) json.key("alone_ps").number(job.alone->count());
    if (job.failed_at) json.key("failed_at_ps").number(job.failed_at->count());
    json.close();
  }
  json.close();
}

void write_ranks(JsonWriter& json, const std::vector<PredictedRank>& ranks) {
  json.line().key("ranks").open('[');
  for (const PredictedRank& rank : ranks) {
    json.line().open('{').key("name").text(rank.name);
    json.key("job").number(rank.job).key("node").number(rank.node).key("streams").open('[');
    for (const std::string& stream : rank.streams) json.text(stream);
    json.close();
    json.key("compute_ps").number(rank.compute.count()).key("exposed_ps").number(rank.exposed.count());
    json.key("waiting_ps")
        .number(rank.waiting.count())
        .key("host_ps")
        .number(rank.host.count())
        .key("bubble_ps")
        .number(rank.bubble.count());
    json.close();
  }
  json.close();
}

void write_spans(JsonWriter& json, const Prediction& prediction) {
  json.line().key("names").open('[');
  for (const std::string& name : prediction.names) json.text(name);
  json.close();
  json.line().key("kinds").open('[');
  for (const PredictedSpan::Kind kind : kSpanKinds) json.text(to_string(kind));
  json.close();
  const auto& spans = prediction.spans;
  json.line().key("spans").open('{');
  write_column(json, "rank", spans, [](const PredictedSpan& span) { return span.rank; });
  write_column(json, "stream", spans, [](const PredictedSpan& span) { return span.stream; });
  write_column(json, "kind", spans, [](const PredictedSpan& span) { return static_cast<uint32_t>(span.kind); });
  write_column(json, "name", spans, [](const PredictedSpan& span) { return span.name; });
  write_column(json, "begin_ps", spans, [](const PredictedSpan& span) { return span.begin.count(); });
  write_column(json, "duration_ps", spans, [](const PredictedSpan& span) { return (span.end - span.begin).count(); });
  json.close();
}

void write_links(JsonWriter& json, const Prediction& prediction) {
  json.line().key("load_step_ps").number(prediction.load_step.count());
  json.line().key("links").open('{');
  write_column(json, "bytes", prediction.links, [](const PredictedLink& link) { return link.bytes; });
  write_column(json, "full_ps", prediction.links, [](const PredictedLink& link) { return link.full.count(); });
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
    json.line().open('{').key("time_ps").number(event.time.count()).key("link").number(index(event.link));
    if (event.bandwidth) json.key("bytes_per_second").number(event.bandwidth->bytes_per_second());
    json.close();
  }
  json.close();
}

}  // namespace

std::string format_prediction(const ReportInput& input) {
  const Prediction& prediction = input.prediction;
  std::string text;
  JsonWriter json(text);
  json.open('{').key("banyan").text(kPredictionFormat).key("title").text(prediction.title);
  json.line().key("complete").boolean(prediction.complete).key("time_ps").number(prediction.time.count());
  write_jobs(json, prediction.jobs);
  write_ranks(json, prediction.ranks);
  write_spans(json, prediction);
  write_links(json, prediction);
  write_events(json, prediction.events);
  json.line().key("window").open('{').key("bytes").number(prediction.window.bytes);
  json.key("of_all").number(prediction.window.of_all).key("worst_flow").number(prediction.window.worst_flow).close();
  json.line().key("points").open('[');
  for (const PredictedPoint& point : input.points) {
    json.line().open('{').key("total_bytes").number(point.total.count()).key("plan").text(point.plan);
    json.key("time_ps").number(point.time.count());
    json.key("algbw_bytes_per_second").number(point.algbw).key("busbw_bytes_per_second").number(point.busbw);
    if (point.slice != Bytes(0)) json.key("slice_bytes").number(point.slice.count());
    json.close();
  }
  json.close().line().key("what_if").open('[');
  for (const WhatIf& what : input.what_if) {
    json.line().open('{').key("resource").text(what.resource).key("time_ps").number(what.time.count());
    json.key("gain").number(what.gain).close();
  }
  json.close().line().key("notes").open('[');
  for (const std::string& note : input.notes) json.text(note);
  json.close();
  if (input.simulated) {
    const SimulatedCounts& counts = *input.simulated;
    json.line().key("simulated").open('{').key("nodes").number(counts.nodes);
    json.key("nodes_simulated").number(counts.nodes_simulated).key("rank_kinds").number(counts.rank_kinds);
    json.key("messages").number(counts.messages).close();
  }
  if (!input.training.empty()) json.line().key("training").raw(input.training);
  if (input.fabric) json.line().key("fabric").raw(format_fabric_json(*input.fabric));
  json.close();
  text += '\n';
  return text;
}

}  // namespace banyan::predict
