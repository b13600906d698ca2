#include "banyan/predict/report/test_prediction_reader.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/json_reader.h"
#include "banyan/base/place.h"
#include "banyan/fabric/json.h"
#include "banyan/predict/report/prediction_json_keys.h"

namespace banyan::predict {
namespace {

using report::kSpanKinds;

// The format itself nests 4 deep, a fabric in it one more.
constexpr JsonForm kForm{.name = "prediction", .format = report::kPredictionFormat, .depth = 8};
constexpr int64_t kMaxPicoseconds = int64_t{1} << 62;

Picoseconds time_of(JsonNode node) { return Picoseconds(static_cast<int64_t>(node.whole(0, kMaxPicoseconds))); }

double positive(JsonNode node) { return node.number(0, HUGE_VAL); }

std::vector<std::string> texts(JsonNode list) {
  std::vector<std::string> texts;
  for (const JsonNode text : list.items()) texts.push_back(text.text());
  return texts;
}

// Columns of one table, which are of one length.
class Columns {
 public:
  Columns(JsonNode table, std::initializer_list<std::string_view> keys) {
    table.with_keys(keys);
    for (const std::string_view key : keys) {
      const JsonNode column = table.at(key);
      if (columns_.empty()) rows_ = column.size();
      if (column.size() != rows_) {
        throw column.error("has " + std::to_string(column.size()) + " entries, " + columns_.front().place() + " has " +
                           std::to_string(rows_));
      }
      columns_.push_back(column);
    }
  }
  size_t rows() const { return rows_; }
  JsonNode at(size_t column, size_t row) const { return columns_[column][row]; }

 private:
  std::vector<JsonNode> columns_;
  size_t rows_ = 0;
};

class PredictionReader {
 public:
  explicit PredictionReader(JsonNode root) : root_(root) {}

  ReportInput read() && {
    root_.with_keys({"banyan", "title", "complete", "time_ps", "jobs", "ranks", "names", "kinds", "spans",
                     "load_step_ps", "links", "link_events", "window", "points", "what_if", "notes", "simulated",
                     "training", "fabric"});
    read_fabric();
    prediction_.title = root_.at("title").text();
    prediction_.complete = root_.at("complete").boolean();
    prediction_.time = time_of(root_.at("time_ps"));
    read_jobs();
    read_ranks();
    prediction_.names = texts(root_.at("names"));
    read_spans();
    read_links();
    read_events();
    const JsonNode window = root_.at("window").with_keys({"bytes", "of_all", "worst_flow"});
    prediction_.window.bytes = positive(window.at("bytes"));
    prediction_.window.of_all = positive(window.at("of_all"));
    prediction_.window.worst_flow = positive(window.at("worst_flow"));
    read_points();
    read_what_if();
    if (const auto notes = root_.find("notes")) input_.notes = texts(*notes);
    if (const auto simulated = root_.find("simulated")) read_simulated(*simulated);
    if (const auto training = root_.find("training")) input_.training = training->object_text();
    return std::move(input_);
  }

 private:
  void read_fabric();
  void read_jobs();
  void read_ranks();
  void read_spans();
  void read_links();
  void read_events();
  void read_points();
  void read_what_if();
  void read_simulated(JsonNode counts);

  const JsonNode root_;
  ReportInput input_;
  Prediction& prediction_ = input_.prediction;
};

void PredictionReader::read_fabric() {
  if (const auto fabric = root_.find("fabric"))
    input_.fabric = fabric::parse_fabric_json(fabric->object_text(), "fabric");
}

void PredictionReader::read_jobs() {
  for (const JsonNode job : root_.at("jobs").items()) {
    job.with_keys({"name", "tenant", "begin_ps", "end_ps", "alone_ps", "failed_at_ps"});
    prediction_.jobs.push_back({.name = job.at("name").text(),
                                .tenant = job.at("tenant").text(),
                                .begin = time_of(job.at("begin_ps")),
                                .end = time_of(job.at("end_ps")),
                                .alone = {}});
    if (job.has("alone_ps")) prediction_.jobs.back().alone = time_of(job.at("alone_ps"));
    if (job.has("failed_at_ps")) prediction_.jobs.back().failed_at = time_of(job.at("failed_at_ps"));
    if (prediction_.jobs.back().end < prediction_.jobs.back().begin) {
      throw job.error("ends before it begins");
    }
  }
}

void PredictionReader::read_ranks() {
  const size_t jobs = std::max<size_t>(prediction_.jobs.size(), 1);  // without jobs all ranks are of the only one
  for (const JsonNode row : root_.at("ranks").items()) {
    row.with_keys({"name", "job", "node", "streams", "compute_ps", "exposed_ps", "waiting_ps", "host_ps", "bubble_ps"});
    PredictedRank rank{.name = row.at("name").text(), .streams = {}};
    rank.job = row.at("job").number_of(jobs, "jobs");
    rank.node = row.at("node").number_of(input_.fabric ? input_.fabric->nodes().size() : UINT32_MAX, "nodes");
    rank.streams = texts(row.at("streams"));
    if (rank.streams.size() > size_t{UINT16_MAX} + 1) throw row.at("streams").error("are more than 65536");
    rank.compute = time_of(row.at("compute_ps"));
    rank.exposed = time_of(row.at("exposed_ps"));
    rank.waiting = time_of(row.at("waiting_ps"));
    if (const auto host = row.find("host_ps")) rank.host = time_of(*host);
    rank.bubble = time_of(row.at("bubble_ps"));
    prediction_.ranks.push_back(std::move(rank));
  }
}

void PredictionReader::read_spans() {
  std::vector<PredictedSpan::Kind> kind_of;
  for (const JsonNode kind_name : root_.at("kinds").items()) {
    const std::string name = kind_name.text();
    const auto found = std::find_if(kSpanKinds.begin(), kSpanKinds.end(),
                                    [&](PredictedSpan::Kind kind) { return to_string(kind) == name; });
    if (found == kSpanKinds.end()) throw kind_name.error("is no kind that is known here");
    kind_of.push_back(*found);
  }
  const Columns columns(root_.at("spans"), {"rank", "stream", "kind", "name", "begin_ps", "duration_ps"});
  prediction_.spans.reserve(columns.rows());
  for (size_t i = 0; i < columns.rows(); ++i) {
    PredictedSpan span;
    span.rank = columns.at(0, i).number_of(prediction_.ranks.size(), "ranks");
    span.stream =
        static_cast<uint16_t>(columns.at(1, i).number_of(prediction_.ranks[span.rank].streams.size(), "streams"));
    span.kind = kind_of[columns.at(2, i).number_of(kind_of.size(), "kinds")];
    span.name = columns.at(3, i).number_of(prediction_.names.size(), "names");
    span.begin = time_of(columns.at(4, i));
    const auto left = static_cast<uint64_t>(kMaxPicoseconds - span.begin.count());
    span.end = span.begin + Picoseconds(static_cast<int64_t>(columns.at(5, i).whole(0, left)));
    if (i > 0 && span.begin < prediction_.spans.back().begin) {
      throw columns.at(4, i).error("is before that of the span before it");
    }
    prediction_.spans.push_back(span);
  }
}

void PredictionReader::read_links() {
  prediction_.load_step = time_of(root_.at("load_step_ps"));
  const Columns columns(root_.at("links"), {"bytes", "full_ps", "load"});
  if (input_.fabric && columns.rows() != 0 && columns.rows() != input_.fabric->links().size()) {
    throw Error(ErrorCode::mismatch, "has " + std::to_string(columns.rows()) + " links, its fabric has " +
                                         std::to_string(input_.fabric->links().size()));
  }
  for (size_t i = 0; i < columns.rows(); ++i) {
    PredictedLink link;
    link.bytes = positive(columns.at(0, i));
    link.full = time_of(columns.at(1, i));
    const JsonNode load = columns.at(2, i);
    for (const JsonNode part : load.items()) link.load.push_back(static_cast<float>(part.number(0, 1)));
    if (!link.load.empty() && prediction_.load_step.count() == 0) {
      throw load.error("has entries, but load_step_ps is 0");
    }
    prediction_.links.push_back(std::move(link));
  }
}

void PredictionReader::read_events() {
  const auto events = root_.find("link_events");
  if (!events) return;
  const size_t links = input_.fabric ? input_.fabric->links().size() : prediction_.links.size();
  for (const JsonNode row : events->items()) {
    row.with_keys({"time_ps", "link", "bytes_per_second"});
    LinkEvent event{.time = time_of(row.at("time_ps")), .link = LinkId{row.at("link").number_of(links, "links")}};
    if (const auto rate = row.find("bytes_per_second")) {
      event.bandwidth = Bandwidth::bytes_per_second(rate->whole(0, Bandwidth::kMaxBytesPerSecond));
    }
    const auto place = [](const LinkEvent& of) { return std::pair(of.time, of.link); };
    if (!prediction_.events.empty() && place(event) <= place(prediction_.events.back())) {
      throw row.error("does not come after the event before it, by time and link");
    }
    prediction_.events.push_back(event);
  }
}

void PredictionReader::read_points() {
  for (const JsonNode row : root_.at("points").items()) {
    row.with_keys(
        {"total_bytes", "plan", "time_ps", "algbw_bytes_per_second", "busbw_bytes_per_second", "slice_bytes"});
    input_.points.push_back({.total = Bytes(row.at("total_bytes").whole(0, uint64_t{1} << 63)),
                             .plan = row.at("plan").text(),
                             .time = time_of(row.at("time_ps")),
                             .algbw = positive(row.at("algbw_bytes_per_second")),
                             .busbw = positive(row.at("busbw_bytes_per_second"))});
    if (const auto slice = row.find("slice_bytes"))
      input_.points.back().slice = Bytes(slice->whole(1, uint64_t{1} << 63));
  }
}

void PredictionReader::read_what_if() {
  for (const JsonNode row : root_.at("what_if").items()) {
    row.with_keys({"resource", "time_ps", "gain"});
    input_.what_if.push_back({.resource = row.at("resource").text(),
                              .time = time_of(row.at("time_ps")),
                              .gain = row.at("gain").number(-HUGE_VAL, 1)});
  }
}

}  // namespace

void PredictionReader::read_simulated(JsonNode counts) {
  counts.with_keys({"nodes", "nodes_simulated", "rank_kinds", "messages"});
  input_.simulated = {.nodes = counts.at("nodes").whole(),
                      .nodes_simulated = counts.at("nodes_simulated").whole(),
                      .rank_kinds = static_cast<uint32_t>(counts.at("rank_kinds").whole(0, UINT32_MAX)),
                      .messages = counts.at("messages").whole()};
}

ReportInput read_prediction(std::string_view json, const std::string& where) {
  return at_place(where, [&] {
    const JsonDocument document(json, kForm);
    return PredictionReader(document.root()).read();
  });
}

}  // namespace banyan::predict
