#include "banyan/job/kineto/test_sample_profiler.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace banyan::testing {
namespace {

std::string us(int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1000), static_cast<long long>(ns % 1000));
  return text;
}

std::string list(const std::vector<uint32_t>& ranks, const char* between) {
  std::string out = "[";
  for (size_t i = 0; i < ranks.size(); ++i) out += (i ? between : "") + std::to_string(ranks[i]);
  return out + "]";
}

// Beyond 30 ranks, as PyTorch shortens it.
std::string rank_list(const std::vector<uint32_t>& ranks) {
  if (ranks.size() <= 30) return list(ranks, ", ");
  std::string out = list(std::vector<uint32_t>(ranks.begin(), ranks.begin() + 29), ", ");
  out.pop_back();
  return out + ", ..., " + std::to_string(ranks.back()) + "]";
}

}  // namespace

SampleProfiler::SampleProfiler(const SampleOptions& options, uint32_t rank)
    : options_(options), rank_(rank), skip_(options.skipped_operators) {
  group_init();
}

SampleProfiler::Operator SampleProfiler::begin(uint64_t thread, int64_t now) {
  open_nodes_.push_back(id_);
  return {thread, id_++, external_++, record_++, index_++, now};
}

void SampleProfiler::end(const Operator& op, const std::string& name, int64_t now, const SampleComm* comm) {
  open_nodes_.pop_back();
  std::string args;
  if (options_.external_ids) args += "\"External id\": " + std::to_string(op.external);
  if (options_.record_ids)
    args += std::string(args.empty() ? "" : ", ") + "\"Record function id\": " + std::to_string(op.record);
  if (options_.indices) args += std::string(args.empty() ? "" : ", ") + "\"Ev Idx\": " + std::to_string(op.index);
  if (comm && options_.operator_args)
    args += std::string(args.empty() ? "" : ", ") + comm_args(*comm) + ", \"Rank\": " + std::to_string(comm->peer) +
            message_args(*comm);
  if (skip_ > 0) {
    --skip_;
  } else {
    std::string json = "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"" + name +
                       "\", \"pid\": 77, \"tid\": " + std::to_string(op.thread) + ", \"ts\": " + us(op.start);
    if (!(options_.without_ends && operators_++ % 7 == 3)) json += ", \"dur\": " + us(now - op.start);
    events_.push_back(json + ", \"args\": {" + args + "}}");
  }
  node(op, name, comm);
}

void SampleProfiler::node(const Operator& op, const std::string& name, const SampleComm* comm) {
  if (options_.host == SampleOptions::Host::none) return;
  uint64_t parent = open_nodes_.empty() ? 2 : open_nodes_.back();
  if (options_.missing_parents && name == "c10d::broadcast_") parent = 999'999;
  const bool old = options_.host == SampleOptions::Host::positional;
  std::string inputs = "[]";
  if (comm) {
    const std::string group = old && !options_.group_names ? std::to_string(140'000'000 + 4096 * comm->group + rank_)
                                                           : "[\"" + std::to_string(comm->group) + "\",\"tp or all\"]";
    inputs = "[[[11,12,0," + std::to_string(comm->in) + ",4,\"cuda:0\"]],[" + std::to_string(op.id) + ",false]," +
             group + "," + std::to_string(comm->peer) + ",\"" + comm->name + "\",[],[]";
    if (options_.progressions) {
      inputs += "," + std::to_string(comm->ranks[0]) + "," +
                std::to_string(comm->ranks.size() > 1 ? comm->ranks[1] - comm->ranks[0] : 1);
    }
    inputs += "," + std::to_string(comm->ranks.size()) + "]";
  }
  const std::string outputs = comm ? "[[[13,14,0," + std::to_string(comm->out) + ",4,\"cuda:0\"]]]" : "[]";
  const std::string tid = op.thread == kMainThread ? "1" : "2";
  if (old) {
    nodes_.push_back("{\"name\": \"" + name + "\", \"id\": " + std::to_string(op.id) +
                     ", \"rf_id\": " + std::to_string(op.record) + ", \"parent\": " + std::to_string(parent) +
                     ", \"tid\": " + tid + ", \"inputs\": " + inputs +
                     ", \"input_shapes\": [], \"input_types\": [], \"outputs\": " + outputs + "}");
    return;
  }
  std::string attrs = "{\"name\": \"rf_id\", \"type\": \"uint64\", \"value\": " + std::to_string(op.record) +
                      "}, {\"name\": \"tid\", \"type\": \"uint64\", \"value\": " + tid + "}";
  if (comm) {
    attrs += ", {\"name\": \"collective_name\", \"type\": \"string\", \"value\": \"" + comm->name +
             "\"}, {\"name\": \"dtype\", \"type\": \"string\", \"value\": \"Float\"}, {\"name\": \"in_msg_nelems\", "
             "\"type\": \"uint64\", \"value\": " +
             std::to_string(comm->in) +
             "}, {\"name\": \"out_msg_nelems\", \"type\": \"uint64\", \"value\": " + std::to_string(comm->out) +
             "}, {\"name\": \"pg_name\", \"type\": \"string\", \"value\": \"" + std::to_string(comm->group) +
             "\"}, {\"name\": \"pg_size\", \"type\": \"uint64\", \"value\": " + std::to_string(comm->ranks.size()) +
             "}";
  }
  nodes_.push_back("{\"id\": " + std::to_string(op.id) + ", \"name\": \"" + name +
                   "\", \"ctrl_deps\": " + std::to_string(parent) + ", \"inputs\": {\"values\": " + inputs +
                   ", \"shapes\": [], \"types\": [], \"strides\": []}, \"outputs\": {\"values\": " + outputs +
                   "}, \"attrs\": [" + attrs + "]}");
}

void SampleProfiler::call(uint64_t thread, const std::string& name, int64_t start, int64_t ns, int64_t correlation) {
  events_.push_back("{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"" + name + "\", \"pid\": 77, \"tid\": " +
                    std::to_string(thread) + ", \"ts\": " + us(start) + ", \"dur\": " + us(ns) +
                    ", \"args\": {\"cbid\": 211, \"correlation\": " + std::to_string(correlation) + "}}");
}

void SampleProfiler::arrow(uint64_t thread, int64_t start, int64_t correlation) {
  if (!options_.arrows) return;
  events_.push_back("{\"ph\": \"s\", \"id\": " + std::to_string(correlation) + ", \"pid\": 77, \"tid\": " +
                    std::to_string(thread) + ", \"ts\": " + us(start) + ", \"cat\": \"ac2g\", \"name\": \"ac2g\"}");
}

void SampleProfiler::sync(const Sync& sync) {
  if (!options_.syncs) return;
  std::string args = "\"cuda_sync_kind\": \"" + sync.kind + "\", \"stream\": " + std::to_string(sync.stream) +
                     ", \"correlation\": " + std::to_string(sync.correlation) + ", \"device\": 0, \"context\": 1";
  if (sync.source) {
    args += ", \"wait_on_stream\": " + std::to_string(*sync.source) +
            ", \"wait_on_cuda_event_record_corr_id\": " + std::to_string(sync.recorded);
  }
  events_.push_back("{\"ph\": \"X\", \"cat\": \"cuda_sync\", \"name\": \"" + sync.kind + "\", \"pid\": 0, \"tid\": " +
                    std::to_string(sync.stream) + ", \"ts\": 1, \"dur\": 1, \"args\": {" + args + "}}");
}

void SampleProfiler::gpu(const GpuEvent& event) {
  const int64_t shown = event.start + options_.gpu_clock;
  std::string args = "\"device\": 0, \"stream\": " + std::to_string(event.stream);
  if (options_.correlations) args += ", \"correlation\": " + std::to_string(event.correlation);
  if (options_.external_ids) args += ", \"External id\": " + std::to_string(event.external);
  if (!event.more.empty()) args += ", " + event.more;
  const int64_t longer = options_.overlapping ? 700 : 0;
  std::string json = "{\"ph\": \"X\", \"cat\": \"" + std::string(event.category) + "\", \"name\": \"" + event.name +
                     "\", \"pid\": 0, \"tid\": " + std::to_string(event.stream) + ", \"ts\": " + us(shown) +
                     ", \"dur\": " + us(event.duration + longer) + ", \"args\": {" + args + "}}";
  if (options_.arrows) {
    json += ",\n{\"ph\": \"f\", \"id\": " + std::to_string(event.correlation) +
            ", \"pid\": 0, \"tid\": " + std::to_string(event.stream) + ", \"ts\": " + us(shown) +
            ", \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"}";
  }
  gpu_.push_back({event.start, json});
}

void SampleProfiler::step(uint32_t number, int64_t start, int64_t end) {
  events_.push_back("{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#" + std::to_string(number) +
                    "\", \"pid\": 77, \"tid\": " + std::to_string(kMainThread) + ", \"ts\": " + us(start) +
                    ", \"dur\": " + us(end - start) + ", \"args\": {}}");
}

std::string SampleProfiler::comm_args(const SampleComm& comm) const {
  std::string args = "\"Collective name\": \"" + comm.name + "\", \"In msg nelems\": " + std::to_string(comm.in) +
                     ", \"Out msg nelems\": " + std::to_string(comm.out) +
                     ", \"dtype\": \"Float\", \"Group size\": " + std::to_string(comm.ranks.size());
  if (options_.group_names) args += ", \"Process Group Name\": \"" + std::to_string(comm.group) + "\"";
  if (options_.rank_lists) args += ", \"Process Group Ranks\": \"" + rank_list(comm.ranks) + "\"";
  return args;
}

std::string SampleProfiler::message_args(const SampleComm& comm) const {
  if (!comm.message) return "";
  return rank_ == comm.sender ? ", \"Dst Rank\": " + std::to_string(comm.receiver)
                              : ", \"Src Rank\": " + std::to_string(comm.sender);
}

std::string SampleProfiler::kernel_args(const SampleComm& comm) const {
  return options_.kernel_args ? comm_args(comm) + message_args(comm) : "";
}

std::string SampleProfiler::group_table() const {
  std::string out =
      "[{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", \"backend_config\": \"cuda:nccl\", \"ranks\": [], "
      "\"group_size\": " +
      std::to_string(options_.ranks) + ", \"group_count\": 3}";
  for (uint32_t first = 0; first < options_.ranks; first += 2) {
    std::vector<uint32_t> pair = {first};
    if (first + 1 < options_.ranks) pair.push_back(first + 1);
    out += ", {\"pg_name\": \"" + std::to_string(1 + first / 2) +
           "\", \"pg_desc\": \"tp\", \"ranks\": " + list(pair, ", ") +
           ", \"group_size\": " + std::to_string(pair.size()) + "}";
  }
  return out + "]";
}

void SampleProfiler::group_init() {
  if (options_.host == SampleOptions::Host::none || !options_.group_init) return;
  std::string text;
  for (const char c : group_table()) {
    if (c == '"') text += '\\';
    text += c;
  }
  const std::string inputs = "[\"" + text + "\"]";
  const std::string start = "{\"id\": " + std::to_string(id_) + ", \"name\": \"## process_group:init ##\", ";
  if (options_.host == SampleOptions::Host::positional) {
    nodes_.push_back(start + "\"rf_id\": 1, \"parent\": 2, \"inputs\": " + inputs + "}");
  } else {
    nodes_.push_back(start + "\"ctrl_deps\": 2, \"inputs\": {\"values\": " + inputs +
                     "}, \"attrs\": [{\"name\": \"rf_id\", \"type\": \"uint64\", \"value\": 1}]}");
  }
  ++id_;
  ++record_;
  ++index_;
}

std::string SampleProfiler::kineto() && {
  std::sort(gpu_.begin(), gpu_.end(), [](const Written& a, const Written& b) { return a.start < b.start; });
  if (options_.lost_tails.contains(rank_)) gpu_.resize(gpu_.size() - gpu_.size() / 4);
  std::string out = "{\n\"schemaVersion\": 1,\n\"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H100\"}],\n";
  if (options_.distributed_info) {
    out += "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": " + std::to_string(rank_) +
           ", \"world_size\": " + std::to_string(options_.ranks) +
           ", \"pg_count\": 3, \"pg_config\": " + group_table() + "},\n";
  }
  out += "\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [\n";
  out +=
      "{\"name\": \"process_name\", \"ph\": \"M\", \"ts\": 0, \"pid\": 77, \"tid\": 0, \"args\": {\"name\": "
      "\"python\"}}";
  for (const std::string& event : events_) out += ",\n" + event;
  for (const Written& kernel : gpu_) out += ",\n" + kernel.json;
  return out + "\n],\n\"traceName\": \"sample\"}\n";
}

std::string SampleProfiler::host() const {
  if (options_.host == SampleOptions::Host::none) return "";
  std::string out = std::string("{\"schema\": \"") +
                    (options_.host == SampleOptions::Host::positional ? "1.0.3" : "1.1.1-chakra.0.0.4") +
                    "\", \"pid\": 77, \"nodes\": [\n{\"id\": 2, \"name\": "
                    "\"[pytorch|profiler|execution_trace|thread]\", \"ctrl_deps\": 1}";
  for (const std::string& node : nodes_) out += ",\n" + node;
  return out +
         ",\n{\"id\": 1, \"name\": \"[pytorch|profiler|execution_trace|process]\", \"ctrl_deps\": 1}\n], "
         "\"finish_ts\": 5}\n";
}

}  // namespace banyan::testing
