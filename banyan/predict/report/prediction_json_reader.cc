#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/fabric/json.h"
#include "banyan/predict/report/prediction_json.h"
#include "banyan/predict/report/prediction_json_keys.h"

namespace banyan {
namespace {

using report::kPredictionFormat;
using report::kSpanKinds;

using Json = nlohmann::json;

constexpr size_t kMaxDepth = 8;  // the format itself needs 4, a fabric in it one more
constexpr int64_t kMaxPicoseconds = int64_t{1} << 62;

Error invalid(const std::string& message) { return Error(ErrorCode::invalid_input, message); }

// Refuses hostile nesting before anything recursive sees it.
void check_depth(std::string_view json) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) throw invalid("is nested deeper than a prediction ever is");
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
}

Json parse_json(std::string_view text) {
  check_depth(text);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    // Without the library's own prefix.
    const std::string what = error.what();
    const size_t start = what.find("parse error");
    throw invalid(start == std::string::npos ? "is not JSON" : "is not JSON: " + what.substr(start).substr(0, 200));
  } catch (const Json::exception& error) {
    throw invalid("is not JSON that can be read: " + std::string(error.what()).substr(0, 200));
  }
}

// One value of the file, with its place for messages ("spans.name[7]").
class Value {
 public:
  Value(const Json& json, std::string place) : json_(json), place_(std::move(place)) {}

  // An object that has no other keys than these.
  const Value& with_keys(std::initializer_list<std::string_view> known) const {
    if (!json_.is_object()) throw invalid(in_words() + " is not an object");
    for (const auto& [key, value] : json_.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      NearestName nearest(key);
      for (const std::string_view name : known) nearest.offer(name);
      throw invalid(in_words() + " has unknown key '" + key.substr(0, 60) + "'" + nearest.hint());
    }
    return *this;
  }
  bool has(const char* key) const { return json_.contains(key); }
  Value at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) throw invalid(in_words() + " has no \"" + key + "\"");
    return Value(*found, place_.empty() ? key : place_ + "." + key);
  }

  size_t size() const {
    if (!json_.is_array()) throw invalid(in_words() + " is not an array");
    return json_.size();
  }
  Value operator[](size_t i) const { return Value(json_[i], place_ + "[" + std::to_string(i) + "]"); }

  std::string text() const {
    if (!json_.is_string()) throw invalid(in_words() + " is not a text");
    return json_.get<std::string>();
  }
  bool boolean() const {
    if (!json_.is_boolean()) throw invalid(in_words() + " is neither true nor false");
    return json_.get<bool>();
  }
  uint64_t whole(uint64_t most) const {
    if (!json_.is_number_unsigned()) throw invalid(in_words() + " is not a whole number, zero or above");
    if (json_.get<uint64_t>() > most) throw invalid(in_words() + " is above " + std::to_string(most));
    return json_.get<uint64_t>();
  }
  // A number of something of which there are so many.
  uint32_t number_of(size_t count, const char* what) const {
    const uint64_t number = whole(UINT32_MAX);
    if (number >= count) {
      throw invalid(in_words() + " is " + std::to_string(number) + ", but there are " + std::to_string(count) + " " +
                    what);
    }
    return static_cast<uint32_t>(number);
  }
  Picoseconds time() const { return Picoseconds(static_cast<int64_t>(whole(kMaxPicoseconds))); }
  double number(double least, double most) const {
    if (!json_.is_number()) throw invalid(in_words() + " is not a number");
    const double value = json_.get<double>();
    if (!(value >= least && value <= most)) throw invalid(in_words() + " is out of range");
    return value;
  }

  const Json& json() const { return json_; }
  std::string in_words() const { return place_.empty() ? "the prediction" : place_; }

 private:
  const Json& json_;
  std::string place_;
};

// Columns of one table, read without making a place for every number.
class Columns {
 public:
  Columns(const Value& table, std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      const Value column = table.at(key);
      if (columns_.empty()) rows_ = column.size();
      if (column.size() != rows_) {
        throw invalid(column.in_words() + " has " + std::to_string(column.size()) + " entries, " +
                      columns_.front().in_words() + " has " + std::to_string(rows_));
      }
      columns_.push_back(column);
    }
  }
  size_t rows() const { return rows_; }
  const Value& column(size_t number) const { return columns_[number]; }
  uint64_t whole(size_t number, size_t row, uint64_t most) const {
    const Json& value = columns_[number].json()[row];
    if (value.is_number_unsigned() && value.get<uint64_t>() <= most) return value.get<uint64_t>();
    return columns_[number][row].whole(most);  // throws with the place
  }

 private:
  std::vector<Value> columns_;
  size_t rows_ = 0;
};

class PredictionReader {
 public:
  explicit PredictionReader(const Json& json) : root_(json, "") {}

  ReportInput read() && {
    root_.with_keys({"banyan", "title", "complete", "time_ps", "jobs", "ranks", "names", "kinds", "spans",
                     "load_step_ps", "links", "window", "points", "what_if", "fabric"});
    const std::string format = root_.at("banyan").text();
    if (format != kPredictionFormat) {
      throw invalid("is \"banyan\": \"" + format.substr(0, 60) + "\"; this reader knows \"" +
                    std::string(kPredictionFormat) + "\"");
    }
    read_fabric();
    prediction_.title = root_.at("title").text();
    prediction_.complete = root_.at("complete").boolean();
    prediction_.time = root_.at("time_ps").time();
    read_jobs();
    read_ranks();
    const Value names = root_.at("names");
    for (size_t i = 0; i < names.size(); ++i) prediction_.names.push_back(names[i].text());
    read_spans();
    read_links();
    const Value window = root_.at("window").with_keys({"bytes", "of_all", "worst_flow"});
    prediction_.window.bytes = window.at("bytes").number(0, HUGE_VAL);
    prediction_.window.of_all = window.at("of_all").number(0, HUGE_VAL);
    prediction_.window.worst_flow = window.at("worst_flow").number(0, HUGE_VAL);
    read_points();
    read_what_if();
    return std::move(input_);
  }

 private:
  void read_fabric();
  void read_jobs();
  void read_ranks();
  void read_spans();
  void read_links();
  void read_points();
  void read_what_if();

  Value root_;
  ReportInput input_;
  Prediction& prediction_ = input_.prediction;
};

void PredictionReader::read_fabric() {
  if (!root_.has("fabric")) return;
  try {
    input_.fabric = parse_fabric_json(root_.at("fabric").json().dump(), "");
  } catch (const Error& error) {
    throw Error(error.code(), "fabric: " + error.message());
  }
}

void PredictionReader::read_jobs() {
  const Value jobs = root_.at("jobs");
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Value job = jobs[i].with_keys({"name", "tenant", "begin_ps", "end_ps", "alone_ps", "failed_at_ps"});
    prediction_.jobs.push_back({.name = job.at("name").text(),
                                .tenant = job.at("tenant").text(),
                                .begin = job.at("begin_ps").time(),
                                .end = job.at("end_ps").time(),
                                .alone = {}});
    if (job.has("alone_ps")) prediction_.jobs.back().alone = job.at("alone_ps").time();
    if (job.has("failed_at_ps")) prediction_.jobs.back().failed_at = job.at("failed_at_ps").time();
    if (prediction_.jobs.back().end < prediction_.jobs.back().begin) {
      throw invalid(job.in_words() + " ends before it begins");
    }
  }
}

void PredictionReader::read_ranks() {
  const Value ranks = root_.at("ranks");
  const size_t jobs = std::max<size_t>(prediction_.jobs.size(), 1);  // without jobs all ranks are of the only one
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Value row =
        ranks[i].with_keys({"name", "job", "node", "streams", "compute_ps", "exposed_ps", "waiting_ps", "bubble_ps"});
    PredictedRank rank{.name = row.at("name").text(), .streams = {}};
    rank.job = row.at("job").number_of(jobs, "jobs");
    rank.node = row.at("node").number_of(input_.fabric ? input_.fabric->nodes().size() : UINT32_MAX, "nodes");
    const Value streams = row.at("streams");
    if (streams.size() > size_t{UINT16_MAX} + 1) throw invalid(streams.in_words() + " are more than 65536");
    for (size_t k = 0; k < streams.size(); ++k) rank.streams.push_back(streams[k].text());
    rank.compute = row.at("compute_ps").time();
    rank.exposed = row.at("exposed_ps").time();
    rank.waiting = row.at("waiting_ps").time();
    rank.bubble = row.at("bubble_ps").time();
    prediction_.ranks.push_back(std::move(rank));
  }
}

void PredictionReader::read_spans() {
  const Value kinds = root_.at("kinds");
  std::vector<PredictedSpan::Kind> kind_of;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const std::string name = kinds[i].text();
    const auto found = std::find_if(kSpanKinds.begin(), kSpanKinds.end(),
                                    [&](PredictedSpan::Kind kind) { return to_string(kind) == name; });
    if (found == kSpanKinds.end()) throw invalid(kinds[i].in_words() + " is no kind that is known here");
    kind_of.push_back(*found);
  }
  const Value table = root_.at("spans").with_keys({"rank", "stream", "kind", "name", "begin_ps", "duration_ps"});
  const Columns columns(table, {"rank", "stream", "kind", "name", "begin_ps", "duration_ps"});
  const auto place_in = [&](size_t column, size_t row, size_t count, const char* what) {
    const uint64_t number = columns.whole(column, row, UINT32_MAX);
    return number < count ? static_cast<uint32_t>(number) : columns.column(column)[row].number_of(count, what);
  };
  prediction_.spans.reserve(columns.rows());
  for (size_t i = 0; i < columns.rows(); ++i) {
    PredictedSpan span;
    span.rank = place_in(0, i, prediction_.ranks.size(), "ranks");
    span.stream = static_cast<uint16_t>(place_in(1, i, prediction_.ranks[span.rank].streams.size(), "streams"));
    span.kind = kind_of[place_in(2, i, kind_of.size(), "kinds")];
    span.name = place_in(3, i, prediction_.names.size(), "names");
    span.begin = Picoseconds(static_cast<int64_t>(columns.whole(4, i, kMaxPicoseconds)));
    const auto left = static_cast<uint64_t>(kMaxPicoseconds - span.begin.count());
    span.end = span.begin + Picoseconds(static_cast<int64_t>(columns.whole(5, i, left)));
    if (i > 0 && span.begin < prediction_.spans.back().begin) {
      throw invalid(columns.column(4)[i].in_words() + " is before that of the span before it");
    }
    prediction_.spans.push_back(span);
  }
}

void PredictionReader::read_links() {
  prediction_.load_step = root_.at("load_step_ps").time();
  const Value table = root_.at("links").with_keys({"bytes", "full_ps", "load"});
  const Columns columns(table, {"bytes", "full_ps", "load"});
  if (input_.fabric && columns.rows() != 0 && columns.rows() != input_.fabric->links().size()) {
    throw Error(ErrorCode::mismatch, "has " + std::to_string(columns.rows()) + " links, its fabric has " +
                                         std::to_string(input_.fabric->links().size()));
  }
  for (size_t i = 0; i < columns.rows(); ++i) {
    PredictedLink link;
    link.bytes = columns.column(0)[i].number(0, HUGE_VAL);
    link.full = columns.column(1)[i].time();
    const Value load = columns.column(2)[i];
    for (size_t k = 0; k < load.size(); ++k) link.load.push_back(static_cast<float>(load[k].number(0, 1)));
    if (!link.load.empty() && prediction_.load_step.count() == 0) {
      throw invalid(load.in_words() + " has entries, but load_step_ps is 0");
    }
    prediction_.links.push_back(std::move(link));
  }
}

void PredictionReader::read_points() {
  const Value points = root_.at("points");
  for (size_t i = 0; i < points.size(); ++i) {
    const Value row =
        points[i].with_keys({"total_bytes", "plan", "time_ps", "algbw_bytes_per_second", "busbw_bytes_per_second"});
    input_.points.push_back({.total = Bytes(row.at("total_bytes").whole(uint64_t{1} << 63)),
                             .plan = row.at("plan").text(),
                             .time = row.at("time_ps").time(),
                             .algbw = row.at("algbw_bytes_per_second").number(0, HUGE_VAL),
                             .busbw = row.at("busbw_bytes_per_second").number(0, HUGE_VAL)});
  }
}

void PredictionReader::read_what_if() {
  const Value rows = root_.at("what_if");
  for (size_t i = 0; i < rows.size(); ++i) {
    const Value row = rows[i].with_keys({"resource", "time_ps", "gain"});
    input_.what_if.push_back({.resource = row.at("resource").text(),
                              .time = row.at("time_ps").time(),
                              .gain = row.at("gain").number(-HUGE_VAL, 1)});
  }
}

}  // namespace

ReportInput read_prediction(std::string_view json, const std::string& where) {
  try {
    const Json document = parse_json(json);
    return PredictionReader(document).read();
  } catch (const Error& error) {
    throw error.within(where);
  }
}

}  // namespace banyan
