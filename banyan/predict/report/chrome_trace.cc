#include "banyan/predict/report/chrome_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "banyan/base/text.h"
#include "banyan/predict/report/json_writer.h"
#include "banyan/predict/report/link_names.h"
#include "banyan/predict/report/page_events.h"

namespace banyan::predict {
namespace {

using report::append_json_text;
using report::LinkMark;
using report::LinkNames;
using report::PageEvents;

constexpr size_t kBlock = 64 << 10;

// 1234567 ps -> 1.234567, without floating point.
void append_microseconds(std::string& out, Picoseconds time) {
  char digits[24];
  const auto whole = std::to_chars(digits, digits + sizeof digits, time.count() / 1'000'000);
  out.append(digits, whole.ptr);
  auto rest = static_cast<uint32_t>(time.count() % 1'000'000);
  if (rest == 0) return;
  std::array<char, 7> decimals{'.'};
  for (size_t i = 6; i > 0; --i, rest /= 10) decimals[i] = static_cast<char>('0' + rest % 10);
  size_t length = decimals.size();
  while (decimals[length - 1] == '0') --length;
  out.append(decimals.data(), length);
}

class TraceWriter {
 public:
  TraceWriter(const ReportInput& input, const TextSink& sink) : input_(input), trace_(input.prediction), sink_(sink) {}

  void write() {
    out_ = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"title\":";
    append_json_text(out_, trace_.title);
    out_ += trace_.complete ? ",\"complete\":\"yes\"" : ",\"complete\":\"no: stopped early\"";
    out_ += "},\"traceEvents\":[";
    quoted_.reserve(trace_.names.size());
    for (const std::string& name : trace_.names) append_json_text(quoted_.emplace_back(), name);
    write_ranks();
    write_spans();
    write_loads();
    write_events();
    out_ += "\n]}\n";
    sink_(out_);
  }

 private:
  // A row of the viewer.
  struct Place {
    uint64_t process, thread = 0;
  };
  // One event up to and including its process and thread; the caller closes it.
  void begin(char phase, Place place) {
    if (out_.size() >= kBlock) {
      sink_(out_);
      out_.clear();
    }
    out_ += first_ ? "\n{\"ph\":\"" : ",\n{\"ph\":\"";
    first_ = false;
    out_ += phase;
    out_ += "\",\"pid\":";
    append(place.process);
    out_ += ",\"tid\":";
    append(place.thread);
  }
  void append(uint64_t number) {
    char digits[24];
    out_.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
  }
  void describe(const char* what, Place place, const char* key, std::string_view text) {
    begin('M', place);
    out_ += std::string(",\"name\":\"") + what + "\",\"args\":{\"" + key + "\":";
    append_json_text(out_, text);
    out_ += "}}";
  }
  void sort_at(const char* what, Place place, uint64_t index) {
    begin('M', place);
    out_ += std::string(",\"name\":\"") + what + "\",\"args\":{\"sort_index\":";
    append(index);
    out_ += "}}";
  }

  void write_ranks();
  void write_spans();
  void write_loads();
  void write_events();
  void instant(std::string_view name, Picoseconds time);
  void name_thread(uint32_t rank, uint32_t stream, size_t track, uint64_t thread);

  const ReportInput& input_;
  const Prediction& trace_;
  const TextSink& sink_;
  std::string out_;
  std::vector<std::string> quoted_;  // names with quotes and escapes
  bool first_ = true;
};

// Processes are numbered from 1, since some viewers take 0 for the system.
void TraceWriter::write_ranks() {
  for (uint32_t rank = 0; rank < trace_.ranks.size(); ++rank) {
    const PredictedRank& row = trace_.ranks[rank];
    describe("process_name", {rank + 1}, "name", row.name);
    sort_at("process_sort_index", {rank + 1}, rank);
    if (trace_.jobs.size() > 1) describe("process_labels", {rank + 1}, "labels", trace_.jobs[row.job].name);
    for (uint32_t stream = 0; stream < row.streams.size(); ++stream) name_thread(rank, stream, 0, stream + 1);
  }
}

void TraceWriter::name_thread(uint32_t rank, uint32_t stream, size_t track, uint64_t thread) {
  std::string name = trace_.ranks[rank].streams[stream];
  if (track > 0) name += " (" + std::to_string(track + 1) + ")";
  describe("thread_name", {rank + 1, thread}, "name", name);
  sort_at("thread_sort_index", {rank + 1, thread}, uint64_t{stream} * 1000 + track);
}

void TraceWriter::write_spans() {
  // Where each track of each stream is free again; streams of all ranks in one row.
  std::vector<size_t> first_stream{0};
  for (const PredictedRank& rank : trace_.ranks) first_stream.push_back(first_stream.back() + rank.streams.size());
  std::vector<std::vector<Picoseconds>> tracks(first_stream.back());
  std::vector<uint64_t> further_threads(trace_.ranks.size());
  std::map<std::pair<size_t, size_t>, uint64_t> thread_of;  // of (stream, track), beyond a stream's first track
  for (const PredictedSpan& span : trace_.spans) {
    const size_t stream = first_stream[span.rank] + span.stream;
    auto& free_at = tracks[stream];
    const auto track = static_cast<size_t>(
        std::ranges::find_if(free_at, [&](Picoseconds time) { return time <= span.begin; }) - free_at.begin());
    if (track == free_at.size()) free_at.emplace_back();
    free_at[track] = span.end;
    uint64_t thread = uint64_t{span.stream} + 1;
    if (track > 0) {
      const auto [entry, is_new] = thread_of.try_emplace({stream, track}, 0);
      if (is_new) {
        entry->second = trace_.ranks[span.rank].streams.size() + ++further_threads[span.rank];
        name_thread(span.rank, span.stream, track, entry->second);
      }
      thread = entry->second;
    }
    begin('X', {uint64_t{span.rank} + 1, thread});
    out_ += ",\"name\":";
    out_ += quoted_[span.name];
    out_ += ",\"cat\":\"";
    out_ += to_string(span.kind);
    out_ += "\",\"ts\":";
    append_microseconds(out_, span.begin);
    out_ += ",\"dur\":";
    append_microseconds(out_, span.end - span.begin);
    out_ += '}';
  }
}

void TraceWriter::write_loads() {
  const uint64_t process = trace_.ranks.size() + 1;
  const LinkNames names(input_.fabric ? &*input_.fabric : nullptr);
  bool described = false;
  for (uint32_t link = 0; link < trace_.links.size(); ++link) {
    const std::vector<float>& load = trace_.links[link].load;
    if (load.empty()) continue;
    if (!described) {
      describe("process_name", {process}, "name", "links");
      sort_at("process_sort_index", {process}, process);
      described = true;
    }
    std::string quoted;
    append_json_text(quoted, names.name(link));
    const auto sample = [&](Picoseconds time, float value) {
      begin('C', {process});
      out_ += ",\"name\":" + quoted + ",\"ts\":";
      append_microseconds(out_, time);
      out_ += ",\"args\":{\"load\":";
      char digits[32];
      out_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
      out_ += "}}";
    };
    for (size_t i = 0; i < load.size(); ++i) {
      if (i > 0 && load[i] == load[i - 1]) continue;
      sample(static_cast<int64_t>(i) * trace_.load_step, std::isfinite(load[i]) ? load[i] : 0);
    }
    if (load.back() != 0) sample(std::max(trace_.time, static_cast<int64_t>(load.size() - 1) * trace_.load_step), 0);
  }
}

// Across all processes, what happens to links and which jobs fail.
void TraceWriter::write_events() {
  const LinkNames names(input_.fabric ? &*input_.fabric : nullptr);
  const PageEvents events(input_, names, SIZE_MAX);
  for (const LinkMark& mark : events.marks()) {
    std::string text;
    for (const std::string& name : mark.names) text += (text.empty() ? "" : ", ") + name;
    if (mark.names.size() == PageEvents::kMostNames) text += " and more, " + plural(mark.links, "link") + " in all";
    text += mark.kind == LinkMark::Kind::down ? " fails"
            : mark.kind == LinkMark::Kind::up ? " returns"
                                              : " changes to " + mark.bandwidth.to_string();
    instant(text, mark.time);
  }
  for (const PredictedJob& job : trace_.jobs) {
    if (job.failed_at) instant(job.name + " fails", *job.failed_at);
  }
}

void TraceWriter::instant(std::string_view name, Picoseconds time) {
  begin('i', {trace_.ranks.size() + 1});
  out_ += ",\"s\":\"g\",\"name\":";
  append_json_text(out_, name);
  out_ += ",\"ts\":";
  append_microseconds(out_, time);
  out_ += '}';
}

}  // namespace

void write_chrome_trace(const ReportInput& input, const TextSink& sink) { TraceWriter(input, sink).write(); }

std::string chrome_trace(const ReportInput& input) {
  std::string text;
  write_chrome_trace(input, [&](std::string_view block) { text += block; });
  return text;
}

}  // namespace banyan::predict
