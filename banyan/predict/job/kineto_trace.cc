#include "banyan/predict/job/kineto_trace.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/predict/job/kineto_json.h"

namespace banyan {
namespace {

using Kind = KinetoEvent::Kind;

// A time that leaves room for sums: ten years to both sides of what clocks show.
constexpr int64_t kMostTime = int64_t{1} << 61;

class Reader {
 public:
  explicit Reader(std::string name) { trace_.source = std::move(name); }

  void element(const JsonValue& value, uint64_t number) {
    if (value.type != JsonValue::Type::object) {
      throw Error(ErrorCode::invalid_input, "is not an object with name, ph and ts; is this a Kineto trace?");
    }
    ++trace_.event_count;
    const std::string_view phase = text(value.find("ph"));
    if (phase == "X" || phase == "B" || phase == "E") {
      duration_event(value, number, phase.front());
    } else if (phase == "s" || phase == "f") {
      arrow(value, phase == "s");
    } else if (phase.empty()) {
      throw Error(ErrorCode::invalid_input, "has no phase (ph); is this a Kineto trace?");
    }
  }

  void member(std::string_view key, const JsonValue& value) {
    if (key != "distributedInfo") return;
    trace_.rank = count(value.find("rank"));
    trace_.world_size = count(value.find("world_size"));
    if (const JsonValue* groups = value.find("pg_config")) {
      const auto given = groups->as_text();
      trace_.groups = read_group_table(given ? std::string(*given) : groups->to_text());
    }
  }

  KinetoTrace finish(const JsonStreamResult& result) {
    trace_.cut = result.cut;
    trace_.position = result.position;
    trace_.mended_text = result.mended;
    for (auto& [lane, open] : open_) {
      trace_.without_end += open.size();
      without_end_.insert(without_end_.end(), open.begin(), open.end());
    }
    mend_ends();
    return std::move(trace_);
  }

 private:
  static std::string_view text(const JsonValue* value) {
    return value ? value->as_text().value_or(std::string_view()) : std::string_view();
  }
  static int64_t whole(const JsonValue* value, int64_t otherwise = KinetoEvent::kNone) {
    return value ? value->as_integer().value_or(otherwise) : otherwise;
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
    constexpr std::array<std::pair<std::string_view, Kind>, 17> kKinds = {{{"cpu_op", Kind::cpu_op},
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
                                                                           {"memset", Kind::memset}}};
    std::string lower(category);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (const auto& [name, kind] : kKinds) {
      if (lower == name) return kind;
    }
    if (!category.empty()) return std::nullopt;
    // PyTorch without Kineto writes no categories, but says in whose name the event stands.
    const std::string_view process = text(value.find("pid"));
    if (process == "CPU functions") return Kind::cpu_op;
    if (process == "CUDA functions") return Kind::kernel;
    return std::nullopt;
  }

  uint32_t name_of(std::string_view name) {
    const auto [at, added] = name_numbers_.try_emplace(std::string(name), static_cast<uint32_t>(trace_.names.size()));
    if (added) trace_.names.emplace_back(name);
    return at->second;
  }

  // "stream 7" and "7" are 7; any other text is a number of its own.
  int64_t number_of(const JsonValue* value) {
    if (value == nullptr) return 0;
    if (const auto given = value->as_integer()) return *given;
    std::string_view words = text(value);
    const size_t digits = words.find_last_not_of("0123456789");
    const std::string_view tail = digits == std::string_view::npos ? words : words.substr(digits + 1);
    int64_t out = 0;
    if (!tail.empty() && std::from_chars(tail.data(), tail.data() + tail.size(), out).ec == std::errc()) return out;
    return -2 - static_cast<int64_t>(name_of(words));
  }

  uint32_t lane_of(bool gpu, int64_t process, int64_t thread) {
    const auto [at, added] =
        lane_numbers_.try_emplace({gpu, process, thread}, static_cast<uint32_t>(trace_.lanes.size()));
    if (added) {
      std::string label = gpu ? "GPU " + std::to_string(process) + " stream " + std::to_string(thread)
                              : "thread " + std::to_string(thread);
      trace_.lanes.push_back({.gpu = gpu, .process = process, .thread = thread, .label = std::move(label)});
    }
    return at->second;
  }

  void duration_event(const JsonValue& value, uint64_t number, char phase) {
    const std::string_view category = text(value.find("cat"));
    const JsonValue* args = value.find("args");
    if (category == "cuda_sync") {
      if (args) sync(text(value.find("name")), *args);
      return;
    }
    const auto kind = kind_of(category, value);
    // An end need not repeat the category.
    if (!kind && phase != 'E') return;
    KinetoEvent event;
    event.kind = kind.value_or(Kind::cpu_op);
    event.number = number;
    const auto start = time(value.find("ts"));
    if (!start) {
      ++trace_.without_time;
      return;
    }
    event.start = *start;
    int64_t process = number_of(value.find("pid")), thread = number_of(value.find("tid"));
    if (event.on_gpu() && args) {
      process = whole(args->find("device"), process);
      thread = whole(args->find("stream"), thread);
    }
    event.lane = lane_of(event.on_gpu(), process, thread);
    if (phase == 'E') {
      end_of(event.lane, event.start);
      return;
    }
    const std::string_view name = text(value.find("name"));
    event.name = name_of(name);
    // Older profilers list these as operators, and they last whether the thread is busy or not.
    if (event.kind == Kind::cpu_op && (name.starts_with("ProfilerStep#") || name.starts_with("Optimizer."))) {
      event.kind = Kind::annotation;
    }
    if (args) read_args(*args, event);
    trace_.events.push_back(event);
    if (phase == 'B') {
      open_[event.lane].push_back(trace_.events.size() - 1);
      return;
    }
    const auto duration = time(value.find("dur"));
    if (duration && *duration >= 0) {
      trace_.events.back().duration = *duration;
    } else {
      ++trace_.without_end;
      without_end_.push_back(trace_.events.size() - 1);
    }
  }

  void end_of(uint32_t lane, int64_t end) {
    std::vector<size_t>& open = open_[lane];
    if (open.empty()) {
      ++trace_.ends_alone;
      return;
    }
    KinetoEvent& event = trace_.events[open.back()];
    event.duration = std::max<int64_t>(end - event.start, 0);
    open.pop_back();
  }

  void read_args(const JsonValue& args, KinetoEvent& event) {
    event.external_id = whole(args.find("External id"), whole(args.find("external id")));
    event.correlation = whole(args.find("correlation"));
    event.record_id = whole(args.find("Record function id"));
    event.index = whole(args.find("Ev Idx"));
    event.bytes = static_cast<uint64_t>(std::max<int64_t>(whole(args.find("bytes"), 0), 0));
    const JsonValue* collective = args.find("Collective name");
    if (collective == nullptr) return;
    CommCall call;
    if (read_comm_name(text(collective), call) == CommName::wrapper) return;
    const auto elements = [&](std::string_view key) -> std::optional<uint64_t> {
      const int64_t given = whole(args.find(key));
      if (given < 0) return std::nullopt;
      return static_cast<uint64_t>(given);
    };
    call.in_elements = elements("In msg nelems");
    call.out_elements = elements("Out msg nelems");
    call.width = element_width(text(args.find("dtype")));
    call.group_size = count(args.find("Group size")).value_or(0);
    if (const JsonValue* group = args.find("Process Group Name")) {
      call.group = group->as_text() ? std::string(*group->as_text()) : group->to_text();
    }
    if (const JsonValue* ranks = args.find("Process Group Ranks")) {
      call.ranks =
          read_rank_list(ranks->as_text() ? std::string(*ranks->as_text()) : ranks->to_text(), call.group_size);
    }
    call.first_rank = whole(args.find("Global rank start"));
    call.rank_stride = whole(args.find("Global rank stride"), 0);
    call.peer = count(args.find("Rank"));
    call.global_peer = count(args.find(call.kind == CommCall::Kind::receive ? "Src Rank" : "Dst Rank"));
    event.comm = static_cast<uint32_t>(trace_.comms.size());
    trace_.comms.push_back(std::move(call));
  }

  void sync(std::string_view name, const JsonValue& args) {
    std::string_view kind = text(args.find("cuda_sync_kind"));
    if (kind.empty()) kind = name;
    KinetoSync out;
    if (kind.starts_with("Stream Wait")) {
      out.kind = KinetoSync::Kind::stream_wait;
    } else if (kind.starts_with("Stream")) {
      out.kind = KinetoSync::Kind::stream;
    } else if (kind.starts_with("Event")) {
      out.kind = KinetoSync::Kind::event;
    } else if (kind.starts_with("Context") || kind.starts_with("Device")) {
      out.kind = KinetoSync::Kind::context;
    } else {
      return;
    }
    out.correlation = whole(args.find("correlation"));
    out.device = whole(args.find("device"));
    out.stream = whole(args.find("stream"));
    out.source_stream = whole(args.find("wait_on_stream"));
    out.record = whole(args.find("wait_on_cuda_event_record_corr_id"));
    trace_.syncs.push_back(out);
  }

  void arrow(const JsonValue& value, bool start) {
    const std::string_view category = text(value.find("cat"));
    if (category != "ac2g" && category != "async" && category != "async_cpu_to_gpu") return;
    const auto at = time(value.find("ts"));
    const JsonValue* id = value.find("id");
    if (!at || id == nullptr || !id->as_integer()) return;
    const int64_t process = number_of(value.find("pid")), thread = number_of(value.find("tid"));
    (start ? trace_.starts : trace_.ends)
        .push_back({.id = *id->as_integer(), .lane = lane_of(!start, process, thread), .time = *at});
  }

  // An event without an end lasts until the next one of its lane begins, and the last one not at all.
  void mend_ends() {
    if (without_end_.empty()) return;
    std::vector<std::vector<int64_t>> starts(trace_.lanes.size());
    for (const KinetoEvent& event : trace_.events) starts[event.lane].push_back(event.start);
    for (auto& lane : starts) std::sort(lane.begin(), lane.end());
    for (const size_t i : without_end_) {
      KinetoEvent& event = trace_.events[i];
      const std::vector<int64_t>& lane = starts[event.lane];
      const auto next = std::upper_bound(lane.begin(), lane.end(), event.start);
      event.duration = next == lane.end() ? 0 : *next - event.start;
    }
  }

  KinetoTrace trace_;
  std::unordered_map<std::string, uint32_t> name_numbers_;
  std::map<std::array<int64_t, 3>, uint32_t> lane_numbers_;
  std::map<uint32_t, std::vector<size_t>> open_;
  std::vector<size_t> without_end_;
};

// {'pg_id': 1405, 'ranks': {0: 0, 1: 1}} as JSON: quotes doubled, keys that are numbers quoted.
std::string json_of_literal(std::string_view text) {
  std::string out;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
        out += '"';
      } else {
        if (c == '"') out += '\\';
        out += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      out += '"';
    } else if (c >= '0' && c <= '9') {
      size_t end = i;
      while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
      const size_t after = text.find_first_not_of(' ', end);
      const std::string digits(text.substr(i, end - i));
      out += after != std::string_view::npos && text[after] == ':' ? "\"" + digits + "\"" : digits;
      i = end - 1;
    } else if (text.substr(i).starts_with("None")) {
      out += "null";
      i += 3;
    } else if (text.substr(i).starts_with("True")) {
      out += "true";
      i += 3;
    } else if (text.substr(i).starts_with("False")) {
      out += "false";
      i += 4;
    } else {
      out += c;
    }
  }
  return out;
}

std::optional<uint32_t> rank_of(const nlohmann::json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() < Job::kMaxRanks) return value.get<uint32_t>();
  if (!value.is_string()) return std::nullopt;
  const std::vector<uint32_t> ranks = read_rank_list(value.get_ref<const std::string&>(), 1);
  if (ranks.size() != 1) return std::nullopt;
  return ranks[0];
}

}  // namespace

std::vector<KinetoGroup> read_group_table(std::string_view text) {
  nlohmann::json table = nlohmann::json::parse(text, nullptr, false);
  if (table.is_discarded()) table = nlohmann::json::parse(json_of_literal(text), nullptr, false);
  std::vector<KinetoGroup> groups;
  if (!table.is_array()) return groups;
  for (const nlohmann::json& row : table) {
    if (!row.is_object()) continue;
    KinetoGroup group;
    for (const char* key : {"pg_name", "pg_id"}) {
      const auto name = row.find(key);
      if (name == row.end()) continue;
      group.name = name->is_string() ? name->get<std::string>() : name->dump();
      break;
    }
    for (const char* key : {"group_size", "pg_size"}) {
      const auto size = row.find(key);
      if (size != row.end() && size->is_number_unsigned() && size->get<uint64_t>() <= Job::kMaxRanks) {
        group.size = size->get<uint32_t>();
      }
    }
    const auto ranks = row.find("ranks");
    bool good = !group.name.empty();
    if (ranks != row.end() && ranks->is_array()) {
      for (const nlohmann::json& rank : *ranks) {
        const auto number = rank_of(rank);
        good = good && number.has_value();
        if (number) group.ranks.push_back(*number);
      }
    } else if (ranks != row.end() && ranks->is_object()) {
      // Global rank: its place in the group.
      std::vector<std::pair<uint64_t, uint32_t>> places;
      for (const auto& [rank, place] : ranks->items()) {
        const auto number = rank_of(nlohmann::json(rank));
        good = good && number && place.is_number_unsigned();
        if (good) places.emplace_back(place.get<uint64_t>(), *number);
      }
      std::sort(places.begin(), places.end());
      for (const auto& [place, rank] : places) group.ranks.push_back(rank);
    } else if (ranks != row.end() && ranks->is_string()) {
      const auto& written = ranks->get_ref<const std::string&>();
      group.ranks = read_rank_list(written, group.size);
      good = good && (!group.ranks.empty() || written.find_first_of("0123456789") == std::string::npos);
    }
    std::vector<uint32_t> sorted = group.ranks;
    std::sort(sorted.begin(), sorted.end());
    good = good && std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
    if (good) groups.push_back(std::move(group));
  }
  return groups;
}

KinetoTrace read_kineto_trace(TraceSource source) {
  Reader reader(source.name());
  const JsonStreamResult result =
      stream_json(source, {.streamed = "traceEvents",
                           .element = [&](const JsonValue& value, uint64_t number) { reader.element(value, number); },
                           .member = [&](std::string_view key, const JsonValue& value) { reader.member(key, value); },
                           .accept_cut = true});
  KinetoTrace trace = reader.finish(result);
  if (trace.event_count == 0) {
    throw Error(ErrorCode::invalid_input, "holds no events (traceEvents); give the JSON that torch.profiler exports",
                trace.source);
  }
  return trace;
}

}  // namespace banyan
