#include "banyan/job/kineto/trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/text.h"
#include "banyan/job/text/json_stream.h"

namespace banyan::job::kineto {
namespace {

using Kind = Event::Kind;

// Until the year 2043, which leaves room for sums and differences of two.
constexpr int64_t kMostTime = int64_t{1} << 61;

class Reader {
 public:
  explicit Reader(std::string name) { trace_.source = std::move(name); }

  void element(const JsonValue& value, uint64_t number) {
    if (value.type != JsonValue::Type::object) {
      throw invalid("is not an object with name, ph and ts; is this a Kineto trace?");
    }
    ++trace_.counts.events;
    const std::string_view phase = text_of(value.find("ph"));
    if (phase == "X" || phase == "B" || phase == "E") {
      duration_event(value, number, phase.front());
    } else if (phase == "s" || phase == "f") {
      arrow(value, phase == "s");
    } else if (phase.empty()) {
      throw invalid("has no phase (ph); is this a Kineto trace?");
    }
  }

  void member(std::string_view key, const JsonValue& value) {
    if (key != "distributedInfo") return;
    trace_.rank = count(value.find("rank"));
    trace_.world_size = count(value.find("world_size"));
    if (const JsonValue* groups = value.find("pg_config")) {
      trace_.groups = read_group_table(groups->text_or_json());
    }
  }

  Trace finish(const JsonStreamResult& result) {
    trace_.counts.cut_files = result.cut;
    trace_.position = result.position;
    trace_.counts.mended_text = result.mended;
    for (auto& [thread, open] : open_) {
      std::erase(open, kLeftOut);
      trace_.counts.without_end += open.size();
      without_end_.insert(without_end_.end(), open.begin(), open.end());
    }
    mend_ends();
    return std::move(trace_);
  }

 private:
  static int64_t whole(const JsonValue* value, int64_t otherwise = Event::kNone) {
    return integer_of(value).value_or(otherwise);
  }
  static std::optional<uint32_t> count(const JsonValue* value) {
    const int64_t given = whole(value);
    if (given < 0 || given > int64_t{Job::kMaxRanks}) return std::nullopt;
    return static_cast<uint32_t>(given);
  }

  static std::optional<int64_t> time(const JsonValue* value) {
    if (value == nullptr) return std::nullopt;
    const std::optional<int64_t> time = value->as_nanoseconds();
    if (!time || *time > kMostTime || *time < -kMostTime) return std::nullopt;
    return time;
  }

  std::optional<Kind> kind_of(std::string_view category, const JsonValue& value) const {
    constexpr std::pair<std::string_view, Kind> kKinds[] = {{"cpu_op", Kind::cpu_op},
                                                            {"operator", Kind::cpu_op},
                                                            {"user_annotation", Kind::annotation},
                                                            {"cuda_runtime", Kind::runtime},
                                                            {"cuda_driver", Kind::runtime},
                                                            {"runtime", Kind::runtime},
                                                            {"hip_runtime", Kind::runtime},
                                                            {"hip_driver", Kind::runtime},
                                                            {"xpu_runtime", Kind::runtime},
                                                            {"xpu_driver", Kind::runtime},
                                                            {"privateuse1_runtime", Kind::runtime},
                                                            {"privateuse1_driver", Kind::runtime},
                                                            {"kernel", Kind::kernel},
                                                            {"gpu_memcpy", Kind::memcpy},
                                                            {"memcpy", Kind::memcpy},
                                                            {"gpu_memset", Kind::memset},
                                                            {"memset", Kind::memset}};
    const std::string own = lower(category);
    for (const auto& [name, kind] : kKinds) {
      if (own == name) return kind;
    }
    if (!category.empty()) return std::nullopt;
    // PyTorch without Kineto writes no categories, but says in whose name the event stands.
    const std::string_view process = text_of(value.find("pid"));
    if (process == "CPU functions") return Kind::cpu_op;
    if (process == "CUDA functions") return Kind::kernel;
    return std::nullopt;
  }

  // "stream 7" and "7" are 7; any other text is a number of its own.
  int64_t number_of(const JsonValue* value) {
    if (value == nullptr) return 0;
    if (const auto given = value->as_integer()) return *given;
    std::string_view words = text_of(value);
    const size_t digits = words.find_last_not_of("0123456789");
    const std::string_view tail = digits == std::string_view::npos ? words : words.substr(digits + 1);
    int64_t out = 0;
    if (!tail.empty() && std::from_chars(tail.data(), tail.data() + tail.size(), out).ec == std::errc()) return out;
    return -2 - static_cast<int64_t>(trace_.names.add(words));
  }

  uint32_t track_of(bool gpu, int64_t process, int64_t thread) {
    const auto [at, added] =
        track_numbers_.try_emplace({gpu, process, thread}, static_cast<uint32_t>(trace_.tracks.size()));
    if (added) {
      std::string label = gpu ? "GPU " + std::to_string(process) + " stream " + std::to_string(thread)
                              : "thread " + std::to_string(thread);
      trace_.tracks.push_back({.gpu = gpu, .process = process, .thread = thread, .label = std::move(label)});
    }
    return at->second;
  }

  void duration_event(const JsonValue& value, uint64_t number, char phase) {
    const std::string_view category = text_of(value.find("cat"));
    const JsonValue* args = value.find("args");
    if (category == "cuda_sync") {
      if (args) sync(text_of(value.find("name")), *args);
      return;
    }
    const auto kind = kind_of(category, value);
    if (!kind && phase != 'E') count_unknown(category, value, args);
    if (!kind && phase == 'X') return;
    const auto start = time(value.find("ts"));
    int64_t process = number_of(value.find("pid")), thread = number_of(value.find("tid"));
    if (phase == 'E') {
      // It need not repeat the category, and belongs to whatever began last, even if that was left out.
      std::vector<size_t>& open = open_[{process, thread}];
      if (!open.empty()) {
        end_of(open, start);
      } else if (kind || category.empty()) {
        ++trace_.counts.ends_alone;
      }
      return;
    }
    if (!kind || !start) {
      trace_.counts.without_time += kind.has_value();
      if (phase == 'B') open_[{process, thread}].push_back(kLeftOut);
      return;
    }
    Event event;
    event.kind = *kind;
    event.number = number;
    event.start = *start;
    const std::pair written_thread(process, thread);
    if (event.on_gpu() && args) {
      process = whole(args->find("device"), process);
      thread = whole(args->find("stream"), thread);
    }
    event.track = track_of(event.on_gpu(), process, thread);
    const std::string_view name = text_of(value.find("name"));
    event.name = trace_.names.add(name);
    // Older profilers list these as operators, and they last whether the thread is busy or not.
    if (event.kind == Kind::cpu_op && (name.starts_with("ProfilerStep#") || name.starts_with("Optimizer."))) {
      event.kind = Kind::annotation;
    }
    if (args) read_args(*args, event);
    trace_.events.push_back(event);
    if (phase == 'B') {
      open_[written_thread].push_back(trace_.events.size() - 1);
      return;
    }
    const auto duration = time(value.find("dur"));
    if (duration && *duration >= 0) {
      trace_.events.back().duration = *duration;
    } else {
      ++trace_.counts.without_end;
      without_end_.push_back(trace_.events.size() - 1);
    }
  }

  // What runs on a device says on which, and on which of its streams.
  void count_unknown(std::string_view category, const JsonValue& value, const JsonValue* args) {
    constexpr std::array<std::string_view, 10> kLeftOutOnPurpose = {
        "python_function",      "overhead",         "trace",         "gpu_user_annotation",
        "external_correlation", "cuda_event",       "mtia_counters", "cuda_profiler_range",
        "gpu_pm_counter",       "cpu_instant_event"};
    const std::string own = lower(category);
    if (std::find(kLeftOutOnPurpose.begin(), kLeftOutOnPurpose.end(), own) != kLeftOutOnPurpose.end()) return;
    const bool on_device = args && (args->find("device") || args->find("stream"));
    UnknownCategory event{.name = std::string(category.substr(0, 60)), .events = 1, .on_device = on_device};
    event.add_time(std::max<int64_t>(time(value.find("dur")).value_or(0), 0));
    event.add_to(trace_.unknown);
  }

  void end_of(std::vector<size_t>& open, std::optional<int64_t> end) {
    const size_t last = open.back();
    open.pop_back();
    if (last == kLeftOut) return;
    if (end && *end >= trace_.events[last].start) {
      trace_.events[last].duration = *end - trace_.events[last].start;
    } else {
      ++trace_.counts.without_end;
      without_end_.push_back(last);
    }
  }

  void read_args(const JsonValue& args, Event& event) {
    event.external_id = whole(args.find("External id"), whole(args.find("external id")));
    event.correlation = whole(args.find("correlation"));
    event.record_id = whole(args.find("Record function id"));
    event.index = whole(args.find("Ev Idx"));
    event.bytes = static_cast<uint64_t>(std::max<int64_t>(whole(args.find("bytes"), 0), 0));
    const JsonValue* collective = args.find("Collective name");
    if (collective == nullptr) return;
    CommCall call;
    if (read_comm_name(text_of(collective), call) == CommName::wrapper) return;
    const auto elements = [&](std::string_view key) -> std::optional<uint64_t> {
      const int64_t given = whole(args.find(key));
      if (given < 0) return std::nullopt;
      return static_cast<uint64_t>(given);
    };
    call.in_elements = elements("In msg nelems");
    call.out_elements = elements("Out msg nelems");
    call.width = element_width(text_of(args.find("dtype")));
    call.group_size = count(args.find("Group size")).value_or(0);
    if (const JsonValue* group = args.find("Process Group Name")) {
      call.group = group->text_or_json();
    }
    if (const JsonValue* ranks = args.find("Process Group Ranks")) {
      call.ranks = rank_list_of(ranks->text_or_json(), call.group_size);
    }
    call.first_rank = whole(args.find("Global rank start"));
    call.rank_stride = whole(args.find("Global rank stride"), 0);
    call.peer = count(args.find("Rank"));
    call.global_peer = count(args.find(call.kind == CommCall::Kind::receive ? "Src Rank" : "Dst Rank"));
    event.comm = static_cast<uint32_t>(trace_.comms.size());
    trace_.comms.push_back(std::move(call));
  }

  uint32_t rank_list_of(std::string text, uint32_t size) {
    const auto [at, added] = rank_list_numbers_.try_emplace({std::move(text), size}, CommCall::kNotListed);
    if (!added) return at->second;
    std::vector<uint32_t> ranks = read_rank_list(at->first.first, size);
    if (ranks.empty()) return CommCall::kNotListed;
    if (at->first.first.find("...") != std::string::npos) shortened_ += ranks.size();
    if (shortened_ > kMostShortened) {
      throw Error(ErrorCode::unsupported, "the shortened lists of ranks up to here stand for more than " +
                                              std::to_string(kMostShortened) + " ranks; is the trace damaged?");
    }
    at->second = static_cast<uint32_t>(trace_.rank_lists.size());
    trace_.rank_lists.push_back(std::move(ranks));
    return at->second;
  }

  void sync(std::string_view name, const JsonValue& args) {
    std::string_view kind = text_of(args.find("cuda_sync_kind"));
    if (kind.empty()) kind = name;
    // The longer one of two that begin alike stands first.
    constexpr std::pair<std::string_view, Sync::Kind> kBeginnings[] = {{"Stream Wait", Sync::Kind::stream_wait},
                                                                       {"Stream", Sync::Kind::stream},
                                                                       {"Event", Sync::Kind::event},
                                                                       {"Context", Sync::Kind::context},
                                                                       {"Device", Sync::Kind::context}};
    const auto known =
        std::ranges::find_if(kBeginnings, [&](const auto& each) { return kind.starts_with(each.first); });
    if (known == std::end(kBeginnings)) return;
    Sync out{.kind = known->second};
    out.correlation = whole(args.find("correlation"));
    out.device = whole(args.find("device"));
    out.stream = whole(args.find("stream"));
    out.source_stream = whole(args.find("wait_on_stream"));
    out.record = whole(args.find("wait_on_cuda_event_record_corr_id"));
    trace_.syncs.push_back(out);
  }

  void arrow(const JsonValue& value, bool start) {
    const std::string_view category = text_of(value.find("cat"));
    if (category != "ac2g" && category != "async" && category != "async_cpu_to_gpu") return;
    const auto at = time(value.find("ts"));
    const JsonValue* id = value.find("id");
    if (!at || id == nullptr || !id->as_integer()) return;
    const int64_t process = number_of(value.find("pid")), thread = number_of(value.find("tid"));
    (start ? trace_.starts : trace_.ends)
        .push_back({.id = *id->as_integer(), .track = track_of(!start, process, thread), .time = *at});
  }

  // An event without an end lasts until the next one of its track begins, and the last one not at all.
  void mend_ends() {
    if (without_end_.empty()) return;
    std::vector<std::vector<int64_t>> starts(trace_.tracks.size());
    for (const Event& event : trace_.events) starts[event.track].push_back(event.start);
    for (auto& track : starts) std::sort(track.begin(), track.end());
    for (const size_t i : without_end_) {
      Event& event = trace_.events[i];
      const std::vector<int64_t>& track = starts[event.track];
      const auto next = std::upper_bound(track.begin(), track.end(), event.start);
      event.duration = next == track.end() ? 0 : *next - event.start;
    }
  }

  static constexpr size_t kLeftOut = SIZE_MAX;

  Trace trace_;
  std::map<std::array<int64_t, 3>, uint32_t> track_numbers_;
  std::map<std::pair<std::string, uint32_t>, uint32_t> rank_list_numbers_;  // by text and size
  size_t shortened_ = 0;
  std::map<std::pair<int64_t, int64_t>, std::vector<size_t>> open_;  // by process and thread: events that began
  std::vector<size_t> without_end_;
};

}  // namespace

Trace read_trace(TraceSource source) {
  Reader reader(source.name());
  const JsonStreamResult result =
      stream_json(source, {.streamed = "traceEvents",
                           .element = [&](const JsonValue& value, uint64_t number) { reader.element(value, number); },
                           .member = [&](std::string_view key, const JsonValue& value) { reader.member(key, value); },
                           .accept_cut = true});
  Trace trace = reader.finish(result);
  if (trace.counts.events == 0) {
    throw invalid("holds no events (traceEvents); give the JSON that torch.profiler exports").within(trace.source);
  }
  return trace;
}

}  // namespace banyan::job::kineto
