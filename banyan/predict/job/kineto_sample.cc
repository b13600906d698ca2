#include "banyan/predict/job/kineto_sample.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::testing {
namespace {

constexpr uint64_t kMain = 1001, kAutograd = 1002;

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

struct Comm {
  std::string name;    // as PyTorch calls it
  std::string kernel;  // as NCCL does
  uint64_t in = 0, out = 0;
  uint32_t group = 0;  // number of its name
  std::vector<uint32_t> ranks;
  uint32_t peer = 0;  // in the group: root, or own rank, or the other
  uint32_t kernels = 1;
  bool message = false;
  uint32_t sender = 0, receiver = 0;
};

class Run {
 public:
  explicit Run(const SampleOptions& options) : options_(options), ranks_(options.ranks), out_() {
    out_.ranks.resize(options.ranks);
    out_.message_ns = 41'000;
    for (uint32_t r = 0; r < options.ranks; ++r) {
      Rank& rank = ranks_[r];
      rank.host[kMain] = base(r);
      rank.host[kAutograd] = 0;
      rank.skip = options.skipped_operators;
    }
  }

  Sample make() {
    for (uint32_t r = 0; r < ranks_.size(); ++r) host_header(r);
    for (uint32_t s = 0; s < options_.steps; ++s) step(s);
    for (uint32_t r = 0; r < ranks_.size(); ++r) finish(r);
    return std::move(out_);
  }

 private:
  struct Kernel {
    int64_t start = 0;
    std::string json;
  };
  struct Rank {
    std::map<uint64_t, int64_t> host;           // by thread: its clock
    std::map<int, int64_t> stream;              // when it is free
    std::map<int, std::vector<int64_t>> waits;  // ends to wait for before the next work
    std::map<int, int64_t> records;             // correlation of the last record by stream
    std::vector<std::string> events;
    std::vector<Kernel> gpu;
    std::vector<std::string> nodes;
    std::vector<uint64_t> open_nodes;  // ids of host nodes around
    int64_t correlation = 100, external = 500, record = 1, index = 0;
    uint64_t id = 3;
    uint32_t calls = 0, skip = 0, op = 0;
    std::map<uint32_t, int64_t> step_begin;
    int64_t first = INT64_MAX, last = 0;
  };

  int64_t base(uint32_t r) const {
    const auto at = options_.clocks.find(r);
    return int64_t{1'700'000'000'000'000'000} + (at == options_.clocks.end() ? 0 : at->second) + 1000 * r;
  }

  // ---- the host

  struct Scope {
    uint64_t id;
    int64_t external, record, index, start;
  };

  Scope begin(uint32_t r, uint64_t thread) {
    Rank& rank = ranks_[r];
    Scope scope{rank.id++, rank.external++, rank.record++, rank.index++, rank.host[thread]};
    rank.open_nodes.push_back(scope.id);
    rank.first = std::min(rank.first, scope.start);
    return scope;
  }

  void end(uint32_t r, uint64_t thread, const std::string& name, const Scope& scope, const Comm* comm = nullptr) {
    Rank& rank = ranks_[r];
    rank.open_nodes.pop_back();
    const int64_t until = rank.host[thread];
    std::string args;
    if (options_.external_ids) args += "\"External id\": " + std::to_string(scope.external);
    if (options_.record_ids)
      args += std::string(args.empty() ? "" : ", ") + "\"Record function id\": " + std::to_string(scope.record);
    if (options_.indices) args += std::string(args.empty() ? "" : ", ") + "\"Ev Idx\": " + std::to_string(scope.index);
    if (comm && options_.operator_args) args += std::string(args.empty() ? "" : ", ") + comm_args(r, *comm, true);
    if (rank.skip > 0) {
      --rank.skip;
    } else {
      std::string json = "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"" + name +
                         "\", \"pid\": 77, \"tid\": " + std::to_string(thread) + ", \"ts\": " + us(scope.start);
      if (!(options_.without_ends && rank.op++ % 7 == 3)) json += ", \"dur\": " + us(until - scope.start);
      rank.events.push_back(json + ", \"args\": {" + args + "}}");
    }
    node(r, thread, name, scope, comm);
  }

  void node(uint32_t r, uint64_t thread, const std::string& name, const Scope& scope, const Comm* comm) {
    if (options_.host == SampleOptions::Host::none) return;
    Rank& rank = ranks_[r];
    uint64_t parent = rank.open_nodes.empty() ? 2 : rank.open_nodes.back();
    if (options_.missing_parents && name == "c10d::broadcast_") parent = 999'999;
    const bool old = options_.host == SampleOptions::Host::positional;
    std::string inputs = "[]";
    if (comm) {
      const std::string group = old && !options_.group_names
                                    ? std::to_string(140'000'000 + 4096 * comm->group + r)
                                    : "[\"" + std::to_string(comm->group) + "\",\"tp or all\"]";
      inputs = "[[[11,12,0," + std::to_string(comm->in) + ",4,\"cuda:0\"]],[" + std::to_string(scope.id) + ",false]," +
               group + "," + std::to_string(comm->peer) + ",\"" + comm->name + "\",[],[]";
      if (options_.progressions) {
        inputs += "," + std::to_string(comm->ranks[0]) + "," +
                  std::to_string(comm->ranks.size() > 1 ? comm->ranks[1] - comm->ranks[0] : 1);
      }
      inputs += "," + std::to_string(comm->ranks.size()) + "]";
    }
    const std::string outputs = comm ? "[[[13,14,0," + std::to_string(comm->out) + ",4,\"cuda:0\"]]]" : "[]";
    const std::string tid = thread == kMain ? "1" : "2";
    if (old) {
      rank.nodes.push_back("{\"name\": \"" + name + "\", \"id\": " + std::to_string(scope.id) +
                           ", \"rf_id\": " + std::to_string(scope.record) + ", \"parent\": " + std::to_string(parent) +
                           ", \"tid\": " + tid + ", \"inputs\": " + inputs +
                           ", \"input_shapes\": [], \"input_types\": [], \"outputs\": " + outputs + "}");
      return;
    }
    std::string attrs = "{\"name\": \"rf_id\", \"type\": \"uint64\", \"value\": " + std::to_string(scope.record) +
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
    rank.nodes.push_back("{\"id\": " + std::to_string(scope.id) + ", \"name\": \"" + name +
                         "\", \"ctrl_deps\": " + std::to_string(parent) + ", \"inputs\": {\"values\": " + inputs +
                         ", \"shapes\": [], \"types\": [], \"strides\": []}, \"outputs\": {\"values\": " + outputs +
                         "}, \"attrs\": [" + attrs + "]}");
  }

  // An operator that takes time and does nothing of note.
  void plain(uint32_t r, uint64_t thread, const std::string& name, int64_t ns) {
    const Scope scope = begin(r, thread);
    ranks_[r].host[thread] += ns;
    end(r, thread, name, scope);
  }

  std::string call(uint32_t r, uint64_t thread, const std::string& name, int64_t ns, int64_t correlation) {
    Rank& rank = ranks_[r];
    const std::string json = "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"" + name +
                             "\", \"pid\": 77, \"tid\": " + std::to_string(thread) +
                             ", \"ts\": " + us(rank.host[thread]) + ", \"dur\": " + us(ns) +
                             ", \"args\": {\"cbid\": 211, \"correlation\": " + std::to_string(correlation) + "}}";
    rank.host[thread] += ns;
    rank.last = std::max(rank.last, rank.host[thread]);
    return json;
  }

  // ---- GPUs

  // When work that is launched now can begin.
  int64_t earliest(uint32_t r, int stream, int64_t launched) {
    Rank& rank = ranks_[r];
    int64_t at = std::max(rank.stream[stream], launched + 4'000);
    for (const int64_t end : rank.waits[stream]) at = std::max(at, end);
    rank.waits[stream].clear();
    return at;
  }

  void put(uint32_t r, const char* category, const std::string& name, int stream, int64_t start, int64_t duration,
           int64_t correlation, int64_t external, const std::string& more) {
    Rank& rank = ranks_[r];
    const int64_t shown = start + options_.gpu_clock;
    std::string args = "\"device\": 0, \"stream\": " + std::to_string(stream);
    if (options_.correlations) args += ", \"correlation\": " + std::to_string(correlation);
    if (options_.external_ids) args += ", \"External id\": " + std::to_string(external);
    if (!more.empty()) args += ", " + more;
    const int64_t longer = options_.overlapping ? 700 : 0;
    std::string json = "{\"ph\": \"X\", \"cat\": \"" + std::string(category) + "\", \"name\": \"" + name +
                       "\", \"pid\": 0, \"tid\": " + std::to_string(stream) + ", \"ts\": " + us(shown) +
                       ", \"dur\": " + us(duration + longer) + ", \"args\": {" + args + "}}";
    if (options_.arrows) {
      json += ",\n{\"ph\": \"f\", \"id\": " + std::to_string(correlation) +
              ", \"pid\": 0, \"tid\": " + std::to_string(stream) + ", \"ts\": " + us(shown) +
              ", \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"}";
    }
    rank.gpu.push_back({start, json});
    rank.stream[stream] = start + duration;
    rank.last = std::max(rank.last, start + duration);
  }

  // The call that launches; returns its end.
  int64_t launch(uint32_t r, uint64_t thread, const std::string& name, int64_t correlation, bool lost = false) {
    Rank& rank = ranks_[r];
    const int64_t begin = rank.host[thread];
    const std::string json = call(r, thread, name, 5'000, correlation);
    if (options_.runtime && !lost) rank.events.push_back(json);
    if (options_.arrows && !lost) {
      rank.events.push_back("{\"ph\": \"s\", \"id\": " + std::to_string(correlation) +
                            ", \"pid\": 77, \"tid\": " + std::to_string(thread) + ", \"ts\": " + us(begin) +
                            ", \"cat\": \"ac2g\", \"name\": \"ac2g\"}");
    }
    return rank.host[thread];
  }

  void kernel(uint32_t r, uint64_t thread, const std::string& op, const std::string& name, int stream, int64_t host_ns,
              int64_t gpu_ns) {
    Rank& rank = ranks_[r];
    const Scope scope = begin(r, thread);
    rank.host[thread] += host_ns;
    const int64_t correlation = rank.correlation++;
    const int64_t launched = launch(r, thread, "cudaLaunchKernel", correlation);
    put(r, "kernel", name, stream, earliest(r, stream, launched), gpu_ns, correlation, scope.external, "");
    out_.ranks[r].kernels.push_back({name, "GPU 0 stream " + std::to_string(stream), gpu_ns});
    rank.host[thread] += 2'000;
    end(r, thread, op, scope);
  }

  void record(uint32_t r, uint64_t thread, int stream) {
    Rank& rank = ranks_[r];
    rank.records[stream] = rank.correlation;
    rank.events.push_back(call(r, thread, "cudaEventRecord", 1'000, rank.correlation++));
  }

  void sync_event(uint32_t r, const std::string& kind, int64_t correlation, int stream, std::optional<int> source) {
    if (!options_.syncs) return;
    std::string args = "\"cuda_sync_kind\": \"" + kind + "\", \"stream\": " + std::to_string(stream) +
                       ", \"correlation\": " + std::to_string(correlation) + ", \"device\": 0, \"context\": 1";
    if (source) {
      args += ", \"wait_on_stream\": " + std::to_string(*source) +
              ", \"wait_on_cuda_event_record_corr_id\": " + std::to_string(ranks_[r].records[*source]);
    }
    ranks_[r].events.push_back("{\"ph\": \"X\", \"cat\": \"cuda_sync\", \"name\": \"" + kind +
                               "\", \"pid\": 0, \"tid\": " + std::to_string(stream) +
                               ", \"ts\": 1, \"dur\": 1, \"args\": {" + args + "}}");
  }

  // Stream `stream` waits for what stream `source` has now.
  void wait(uint32_t r, uint64_t thread, int stream, int source) {
    Rank& rank = ranks_[r];
    record(r, thread, source);
    const int64_t correlation = rank.correlation++;
    rank.events.push_back(call(r, thread, "cudaStreamWaitEvent", 1'000, correlation));
    rank.waits[stream].push_back(rank.stream[source]);
    sync_event(r, "Stream Wait Event", correlation, stream, source);
  }

  // ---- communication

  std::string comm_args(uint32_t r, const Comm& comm, bool by_operator) const {
    std::string args = "\"Collective name\": \"" + comm.name + "\", \"In msg nelems\": " + std::to_string(comm.in) +
                       ", \"Out msg nelems\": " + std::to_string(comm.out) +
                       ", \"dtype\": \"Float\", \"Group size\": " + std::to_string(comm.ranks.size());
    if (options_.group_names) args += ", \"Process Group Name\": \"" + std::to_string(comm.group) + "\"";
    if (options_.rank_lists) args += ", \"Process Group Ranks\": \"" + rank_list(comm.ranks) + "\"";
    if (by_operator) args += ", \"Rank\": " + std::to_string(comm.peer);
    if (comm.message) {
      args += r == comm.sender ? ", \"Dst Rank\": " + std::to_string(comm.receiver)
                               : ", \"Src Rank\": " + std::to_string(comm.sender);
    }
    return args;
  }

  // The same call on all its ranks, on a stream that waits for `after`.
  void communicate(std::vector<std::pair<uint32_t, Comm>> calls, uint64_t thread, int stream, std::optional<int> after,
                   int64_t duration) {
    struct Begun {
      uint32_t rank;
      int64_t start;
      std::vector<int64_t> correlations;
      int64_t external;
      bool lost;
    };
    std::vector<Begun> begun;
    for (auto& [r, comm] : calls) {
      Rank& rank = ranks_[r];
      const bool lost = options_.lost_kernels.contains({r, rank.calls++});
      const std::string base = comm.name.front() == '_' ? comm.name.substr(1) : comm.name;
      const Scope outer = begin(r, thread);
      rank.host[thread] += 3'000;
      const Scope scope = begin(r, thread);
      rank.host[thread] += 2'000;
      if (after) wait(r, thread, stream, *after);
      const Scope inner = begin(r, thread);
      Begun one{r, 0, {}, scope.external, lost};
      int64_t launched = 0;
      for (uint32_t k = 0; k < comm.kernels; ++k) {
        const int64_t correlation = rank.correlation++;
        one.correlations.push_back(correlation);
        launched = launch(r, thread, "cudaLaunchKernelExC", correlation, lost);
        if (k == 0) one.start = earliest(r, stream, launched);
      }
      end(r, thread, "nccl:" + base, inner);
      rank.host[thread] += 1'000;
      end(r, thread, "record_param_comms", scope, &comm);
      rank.host[thread] += 1'000;
      end(r, thread, "c10d::" + base + "_", outer);
      begun.push_back(std::move(one));
    }
    int64_t together = 0;
    for (const Begun& one : begun) together = std::max(together, common(one.rank, one.start));
    for (size_t i = 0; i < begun.size(); ++i) {
      const Begun& one = begun[i];
      const Comm& comm = calls[i].second;
      const int64_t end_at = together + duration + own(one.rank);
      if (one.lost) {
        ranks_[one.rank].stream[stream] = end_at;
        ranks_[one.rank].last = std::max(ranks_[one.rank].last, end_at);
        continue;
      }
      const auto kernels = static_cast<int64_t>(one.correlations.size());
      for (int64_t k = 0; k < kernels; ++k) {
        const int64_t from = one.start + (end_at - one.start) * k / kernels,
                      to = one.start + (end_at - one.start) * (k + 1) / kernels;
        put(one.rank, "kernel", comm.kernel, stream, from, to - from - (k + 1 < kernels ? 500 : 0),
            one.correlations[static_cast<size_t>(k)], one.external,
            options_.kernel_args ? comm_args(one.rank, comm, false) : "");
      }
    }
  }

  // Rank clocks are set apart; what ranks have in common is without.
  int64_t own(uint32_t r) const { return base(r) - 1000 * r - 1'700'000'000'000'000'000; }
  int64_t common(uint32_t r, int64_t time) const { return time - own(r); }

  void collective(JobCollective kind, const std::string& name, const std::string& kernel, uint64_t elements,
                  uint32_t root, bool pairs, uint64_t thread, int stream, std::optional<int> after,
                  uint32_t kernels = 1) {
    std::map<std::vector<uint32_t>, std::vector<std::pair<uint32_t, Comm>>> by_group;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      Comm comm{.name = name, .kernel = kernel, .in = elements, .out = elements, .ranks = {}, .kernels = kernels};
      for (uint32_t other = 0; other < ranks_.size(); ++other) {
        if (!pairs || other / 2 == r / 2) comm.ranks.push_back(other);
      }
      comm.group = pairs ? 1 + r / 2 : 0;
      uint64_t given = elements;
      if (kind == JobCollective::all_reduce && options_.other_bytes.contains(r) && !used_other_.contains(r)) {
        given = options_.other_bytes.at(r);
        used_other_.insert(r);
        comm.in = comm.out = given;
      }
      const uint64_t members = comm.ranks.size();
      if (kind == JobCollective::all_gather) comm.out = elements * members;
      if (kind == JobCollective::reduce_scatter) comm.out = elements / members;
      const bool rooted = kind == JobCollective::broadcast;
      const auto self = static_cast<uint32_t>(std::find(comm.ranks.begin(), comm.ranks.end(), r) - comm.ranks.begin());
      comm.peer = rooted ? root : self;
      const uint64_t bytes = 4 * (kind == JobCollective::all_gather ? comm.out : given);
      out_.ranks[r].calls.push_back({kind, bytes, rooted ? root : 0, comm.ranks, comm.group});
      out_.durations[sample_key(kind, bytes)] = 20'000 + static_cast<int64_t>(bytes / 10);
      by_group[comm.ranks].emplace_back(r, comm);
    }
    for (auto& [ranks, calls] : by_group) {
      const SampleCall& truth = out_.ranks[ranks[0]].calls.back();
      communicate(std::move(calls), thread, stream, after, out_.durations.at(sample_key(truth.kind, truth.bytes)));
    }
  }

  void message(uint64_t elements, uint64_t thread) {
    for (uint32_t r = 0; r + 1 < ranks_.size(); r += 2) {
      std::vector<std::pair<uint32_t, Comm>> calls;
      std::vector<uint32_t> all;
      for (uint32_t other = 0; other < ranks_.size(); ++other) all.push_back(other);
      Comm send{.name = "send",
                .kernel = "ncclDevKernel_SendRecv(ncclDevKernelArgs)",
                .in = elements,
                .out = elements,
                .ranks = all,
                .peer = r + 1,
                .message = true,
                .sender = r,
                .receiver = r + 1};
      Comm receive = send;
      receive.name = "recv";
      receive.peer = r;
      communicate({{r, send}, {r + 1, receive}}, thread, 28, 7, out_.message_ns);
    }
  }

  // ---- what is run

  void step(uint32_t s) {
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      rank.step_begin[s] = rank.host[kMain];
      plain(r, kMain, "aten::zeros", 11'000 + 300 * r);
    }
    collective(JobCollective::broadcast, "broadcast", "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgs)", 512 + 64,
               1 % options_.ranks, false, kMain, 20, 7);
    for (uint32_t l = 0; l < options_.layers; ++l) {
      for (uint32_t r = 0; r < ranks_.size(); ++r) {
        kernel(r, kMain, "aten::mm", "sgemm_forward_" + std::to_string(s) + "_" + std::to_string(l), 7, 9'000 + 100 * r,
               130'000 + 5'000 * l + 900 * r);
      }
      collective(JobCollective::all_gather, "_allgather_base", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgs)",
                 4'000 + 8 * l, 0, true, kMain, 24, 7);
      // The next layer needs it.
      for (uint32_t r = 0; r < ranks_.size(); ++r) wait(r, kMain, 7, 24);
    }
    collective(JobCollective::reduce_scatter, "_reduce_scatter_base",
               "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgs)", options_.ranks * 1'024, 0, false,
               kMain, 20, 7);
    message(2'048, kMain);
    // Autograd's thread takes over, and the main one waits for it.
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].host[kAutograd] = std::max(ranks_[r].host[kAutograd], ranks_[r].host[kMain] + 15'000);
    }
    for (uint32_t l = options_.layers; l-- > 0;) {
      for (uint32_t r = 0; r < ranks_.size(); ++r) {
        kernel(r, kAutograd, "MmBackward0", "sgemm_backward_" + std::to_string(s) + "_" + std::to_string(l), 7, 70'000,
               210'000 - 3'000 * l + 700 * r);
      }
      collective(JobCollective::all_reduce, "allreduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)",
                 30'000 + 1'000 * l, 0, false, kAutograd, 20, 7);
    }
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      plain(r, kAutograd, "aten::detach", 150'000);
      ranks_[r].host[kMain] = ranks_[r].host[kAutograd] + 25'000;
      plain(r, kMain, "aten::item", 4'000);
      wait(r, kMain, 7, 20);
    }
    collective(JobCollective::all_to_all, "all_to_all", "ncclDevKernel_SendRecv(ncclDevKernelArgs)", 6'000, 0, false,
               kMain, 20, std::nullopt, 2);
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      kernel(r, kMain, "aten::add_", "adam_" + std::to_string(s), 7, 12'000, 95'000);
      finish_step(r, s);
    }
  }

  // A copy to the host, which then waits for it.
  void finish_step(uint32_t r, uint32_t s) {
    Rank& rank = ranks_[r];
    const Scope scope = begin(r, kMain);
    const int64_t correlation = rank.correlation++;
    const int64_t launched = launch(r, kMain, "cudaMemcpyAsync", correlation);
    put(r, "gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 7, earliest(r, 7, launched), 7'000, correlation,
        scope.external, "\"bytes\": 4096");
    const int64_t sync = rank.correlation++;
    const int64_t until = std::max(rank.stream[7], rank.host[kMain]) + 6'000;
    rank.events.push_back(call(r, kMain, "cudaStreamSynchronize", until - rank.host[kMain], sync));
    sync_event(r, "Stream Sync", sync, 7, std::nullopt);
    end(r, kMain, "aten::_local_scalar_dense", scope);
    plain(r, kMain, "aten::sum", 20'000);
    rank.events.push_back("{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#" +
                          std::to_string(s) + "\", \"pid\": 77, \"tid\": " + std::to_string(kMain) +
                          ", \"ts\": " + us(rank.step_begin[s]) +
                          ", \"dur\": " + us(rank.host[kMain] - rank.step_begin[s]) + ", \"args\": {}}");
    rank.host[kMain] += 30'000;
  }

  // ---- files

  std::string group_table() const {
    std::string out =
        "[{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", \"backend_config\": \"cuda:nccl\", \"ranks\": [], "
        "\"group_size\": " +
        std::to_string(ranks_.size()) + ", \"group_count\": 3}";
    for (uint32_t first = 0; first < ranks_.size(); first += 2) {
      std::vector<uint32_t> pair = {first};
      if (first + 1 < ranks_.size()) pair.push_back(first + 1);
      out += ", {\"pg_name\": \"" + std::to_string(1 + first / 2) +
             "\", \"pg_desc\": \"tp\", \"ranks\": " + list(pair, ", ") +
             ", \"group_size\": " + std::to_string(pair.size()) + "}";
    }
    return out + "]";
  }

  void host_header(uint32_t r) {
    if (options_.host == SampleOptions::Host::none || !options_.group_init) return;
    std::string text;
    for (const char c : group_table()) {
      if (c == '"') text += '\\';
      text += c;
    }
    const std::string inputs = "[\"" + text + "\"]";
    Rank& rank = ranks_[r];
    const std::string start = "{\"id\": " + std::to_string(rank.id) + ", \"name\": \"## process_group:init ##\", ";
    if (options_.host == SampleOptions::Host::positional) {
      rank.nodes.push_back(start + "\"rf_id\": 1, \"parent\": 2, \"inputs\": " + inputs + "}");
    } else {
      rank.nodes.push_back(start + "\"ctrl_deps\": 2, \"inputs\": {\"values\": " + inputs +
                           "}, \"attrs\": [{\"name\": \"rf_id\", \"type\": \"uint64\", \"value\": 1}]}");
    }
    ++rank.id;
    ++rank.record;
    ++rank.index;
  }

  void finish(uint32_t r) {
    Rank& rank = ranks_[r];
    std::sort(rank.gpu.begin(), rank.gpu.end(), [](const Kernel& a, const Kernel& b) { return a.start < b.start; });
    if (options_.lost_tails.contains(r)) rank.gpu.resize(rank.gpu.size() - rank.gpu.size() / 4);
    std::string& out = out_.ranks[r].kineto;
    out = "{\n\"schemaVersion\": 1,\n\"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H100\"}],\n";
    if (options_.distributed_info) {
      out += "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": " + std::to_string(r) +
             ", \"world_size\": " + std::to_string(ranks_.size()) +
             ", \"pg_count\": 3, \"pg_config\": " + group_table() + "},\n";
    }
    out += "\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [\n";
    out +=
        "{\"name\": \"process_name\", \"ph\": \"M\", \"ts\": 0, \"pid\": 77, \"tid\": 0, \"args\": {\"name\": "
        "\"python\"}}";
    for (const std::string& event : rank.events) out += ",\n" + event;
    for (const Kernel& kernel : rank.gpu) out += ",\n" + kernel.json;
    out += "\n],\n\"traceName\": \"sample\"}\n";
    std::string& host = out_.ranks[r].host;
    if (options_.host != SampleOptions::Host::none) {
      host = std::string("{\"schema\": \"") +
             (options_.host == SampleOptions::Host::positional ? "1.0.3" : "1.1.1-chakra.0.0.4") +
             "\", \"pid\": 77, \"nodes\": [\n{\"id\": 2, \"name\": \"[pytorch|profiler|execution_trace|thread]\", "
             "\"ctrl_deps\": 1}";
      for (const std::string& node : rank.nodes) host += ",\n" + node;
      host +=
          ",\n{\"id\": 1, \"name\": \"[pytorch|profiler|execution_trace|process]\", \"ctrl_deps\": 1}\n], "
          "\"finish_ts\": 5}\n";
    }
    rank.last = std::max({rank.last, rank.host[kMain] - 30'000, rank.host[kAutograd]});
    out_.ranks[r].end_ns = common(r, rank.last) - first();
    out_.end_ns = std::max(out_.end_ns, out_.ranks[r].end_ns);
  }

  int64_t first() const {
    int64_t out = INT64_MAX;
    for (uint32_t r = 0; r < ranks_.size(); ++r) out = std::min(out, common(r, ranks_[r].first));
    return out;
  }

  const SampleOptions& options_;
  std::vector<Rank> ranks_;
  std::set<uint32_t> used_other_;
  Sample out_;
};

// Everything of a job at once, the earliest first.
class Replay {
 public:
  Replay(const Job& job, const Sample& sample) : job_(job), sample_(sample) {
    for (uint32_t r = 0; r < job.rank_count(); ++r) {
      const JobProgram& program = job.program(r);
      end_.emplace_back(program.nodes.size(), -1);
      next_.emplace_back(program.streams.size(), 0);
      on_stream_.emplace_back(program.streams.size());
      for (uint32_t i = 0; i < program.nodes.size(); ++i) on_stream_[r][program.nodes[i].stream].push_back(i);
    }
  }

  // Passes over all nodes until none can go on: slow, and obviously right.
  int64_t run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t r = 0; r < job_.rank_count(); ++r) moved = pass(r) || moved;
      moved = meet() || moved;
    }
    int64_t last = 0;
    for (uint32_t r = 0; r < job_.rank_count(); ++r) {
      for (uint32_t i = 0; i < end_[r].size(); ++i) {
        CHECK(end_[r][i] >= 0) << "rank " << r << " node " << i << " " << job_.name_of(job_.program(r).nodes[i]);
        last = std::max(last, end_[r][i]);
      }
    }
    return last;
  }

 private:
  struct Waiting {
    uint32_t rank, node;
    int64_t start;
  };

  bool pass(uint32_t r) {
    const JobProgram& program = job_.program(r);
    bool moved = false;
    for (uint32_t s = 0; s < program.streams.size(); ++s) {
      const bool in_order = program.streams[s].order == JobStream::Order::program;
      for (size_t& k = next_[r][s]; k < on_stream_[r][s].size(); ++k) {
        const uint32_t i = on_stream_[r][s][k];
        int64_t start = 0;
        bool ready = true;
        for (const uint32_t needed : program.needs(i)) {
          ready = ready && end_[r][needed] >= 0;
          start = std::max(start, end_[r][needed]);
        }
        if (in_order && k > 0) {
          ready = ready && end_[r][on_stream_[r][s][k - 1]] >= 0;
          start = std::max(start, end_[r][on_stream_[r][s][k - 1]]);
        }
        if (!ready || begun_.contains({r, i})) break;
        const JobNode& node = program.nodes[i];
        moved = true;
        if (node.kind == JobNodeKind::collective) {
          begun_.insert({r, i});
          groups_[job_.group(r, node.slot)][r].push_back({r, i, start});
        } else if (node.kind == JobNodeKind::send || node.kind == JobNodeKind::receive) {
          begun_.insert({r, i});
          const uint32_t peer = job_.peer(r, node.slot);
          const bool sends = node.kind == JobNodeKind::send;
          (sends ? sends_ : receives_)[sends ? std::pair(r, peer) : std::pair(peer, r)].push_back({r, i, start});
        } else {
          end_[r][i] = start + node.duration.count() / 1000;
        }
      }
    }
    return moved;
  }

  bool meet() {
    bool moved = false;
    for (auto& [group, members] : groups_) {
      while (members.size() == job_.groups()[group].ranks.size() &&
             std::all_of(members.begin(), members.end(), [](const auto& m) { return !m.second.empty(); })) {
        int64_t start = 0;
        for (auto& [r, waiting] : members) start = std::max(start, waiting.front().start);
        for (auto& [r, waiting] : members) {
          const JobNode& node = job_.program(r).nodes[waiting.front().node];
          end_[r][waiting.front().node] = start + sample_.durations.at(sample_key(node.collective, node.bytes));
          waiting.erase(waiting.begin());
        }
        moved = true;
      }
    }
    for (auto& [pair, sends] : sends_) {
      auto& receives = receives_[pair];
      while (!sends.empty() && !receives.empty()) {
        const int64_t end = std::max(sends.front().start, receives.front().start) + sample_.message_ns;
        for (auto* side : {&sends, &receives}) {
          end_[side->front().rank][side->front().node] = end;
          side->erase(side->begin());
        }
        moved = true;
      }
    }
    return moved;
  }

  const Job& job_;
  const Sample& sample_;
  std::vector<std::vector<int64_t>> end_;
  std::vector<std::vector<size_t>> next_;
  std::vector<std::vector<std::vector<uint32_t>>> on_stream_;
  std::set<std::pair<uint32_t, uint32_t>> begun_;
  std::map<uint32_t, std::map<uint32_t, std::vector<Waiting>>> groups_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Waiting>> sends_, receives_;
};

}  // namespace

std::string sample_key(JobCollective kind, uint64_t bytes) {
  return std::string(to_string(kind)) + " " + std::to_string(bytes);
}

Sample make_sample(const SampleOptions& options) { return Run(options).make(); }

int64_t replay(const Job& job, const Sample& sample) { return Replay(job, sample).run(); }

}  // namespace banyan::testing
